"""Weights: the checkpoint contract, tensor views, block formats, binding, extraction and weight files."""
