"""Values for what has none: zero, ramp and noise, the same in every engine and on every target."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from logos.graph import Graph, Leaf
from logos.source import fnv1a

FillKind = Literal["zero", "ramp", "noise"]
KINDS: tuple[FillKind, ...] = ("zero", "ramp", "noise")


def fill(graph: Graph, leaf: Leaf, kind: FillKind, step: int = 0) -> NDArray[Any]:
    """A leaf's fill in its shape, float64 or int64.

    zero   all 0
    ramp   element p, from 0, is (p mod 7) − 3, halved for Real
    noise  u / √rows with u uniform in [−1, 1); an Int one of −3 … 3; −|u| / √rows for the rate of a decay

    Under every kind an input read as a row number is 0, and `pos` the step's number.
    """
    value = leaf.value
    if _is_row(graph, leaf.name):
        return np.full(value.shape, step if leaf.name == "pos" else 0, dtype=np.int64)
    dtype = np.float64 if value.real else np.int64
    if kind == "zero":
        return np.zeros(value.shape, dtype)
    if kind == "ramp":
        ramp = np.arange(value.size, dtype=np.int64) % 7 - 3
        return (ramp / 2.0 if value.real else ramp).reshape(value.shape)
    if not value.real:
        return ((splitmix64(leaf.name, value.size) % np.uint64(7)).astype(np.int64) - 3).reshape(value.shape)
    u = uniform(leaf.name, value.size) / math.sqrt(value.rows)
    negative = any(hole in node.op.negative for node, hole in graph.readers(leaf.name))
    return (-np.abs(u) if negative else u).reshape(value.shape)


def _is_row(graph: Graph, name: str) -> bool:
    return any(hole in node.op.indexes for node, hole in graph.readers(name))


def splitmix64(name: str, count: int) -> NDArray[np.uint64]:
    """`count` outputs of splitmix64 (Steele, Lea, Flood 2014), seeded by the 64-bit FNV-1a hash of the name."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(name: str, count: int) -> NDArray[np.float64]:
    """`count` values uniform in [−1, 1): the upper 53 bits of splitmix64."""
    return (splitmix64(name, count) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
