"""Passes: plain functions graph → graph, the graph checked after each."""
