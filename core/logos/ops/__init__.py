"""Ops, one file a family of ops."""
