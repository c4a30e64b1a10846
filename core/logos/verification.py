"""The verification rule: how far an artifact's values lie from the reference machine's, and how far they may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.bounds import BOUNDS
from logos.graph import Graph, Node, Value

INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One variable: `difference` is relative by the rule (infinite where the rule admits none), `bound` what it may
    be; both 0 where values must agree exactly. `ties` counts positions where an argmax chose another element that the
    rule admits."""

    variable: str
    difference: float
    bound: float
    ties: int = 0

    @property
    def holds(self) -> bool:
        return self.difference <= self.bound


def compared(graph: Graph, outputs: Iterable[str] = ()) -> tuple[str, ...]:
    """The variables that verification compares: the outputs (default: the program's), the operand of an argmax that is
    an output, the states."""
    names = dict.fromkeys(outputs or (graph.output.name,))
    for name in list(names):
        if operand := operand_of(graph, name):
            names[operand] = None
    names.update(dict.fromkeys(leaf.name for leaf in graph.states))
    return tuple(names)


def operand_of(graph: Graph, name: str) -> str | None:
    """The variable that an argmax chose from, where it is still there at the end of a step, to judge the choice by."""
    newest = graph.newest()
    node = graph.producer(newest[name])
    return node.inputs[0].name if node is not None and _compares(node, newest) else None


def _compares(node: Node, newest: Mapping[str, Value]) -> bool:
    """Whether a node is an argmax whose operand is still there at the end of a step, to judge its choice by."""
    return node.op.name == "argmax" and newest[node.inputs[0].name] == node.inputs[0]


def bound_of(graph: Graph, dtype: str) -> float:
    """The bound for a program in a dtype."""
    one, model = BOUNDS[dtype]
    return one if len(graph.nodes) == 1 else model


def difference(reference: NDArray[Any], found: NDArray[Any]) -> float:
    """The largest absolute difference over all elements divided by the largest absolute reference value; a reference
    of all 0 admits only 0. An infinity agrees with itself alone and is infinitely far from all else. A NaN agrees with
    nothing, itself included: what computes nothing else would pass for right."""
    a, b = reference.astype(np.float64), found.astype(np.float64)
    if a.shape != b.shape or np.isnan(a).any() or np.isnan(b).any():
        return INFINITE
    apart = a != b
    if not apart.any():
        return 0.0
    if not (np.isfinite(a[apart]).all() and np.isfinite(b[apart]).all()):
        return INFINITE
    with np.errstate(over="ignore"):
        distance, largest = np.max(np.abs(a[apart] - b[apart])), np.max(np.abs(a[np.isfinite(a)]))
        return float(distance / largest) if largest else INFINITE


def dtype_of(graph: Graph, name: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """The dtype that an array made elsewhere is held to: its own, and for an argmax that of its operand, where there
    is one. Raises KeyError for a type of reals without a bound."""
    node = graph.producer(graph.newest()[name])
    if node is not None and node.op.name == "argmax":
        name = node.inputs[0].name if node.inputs[0].name in arrays else name
    return own_dtype(arrays[name])


def own_dtype(array: NDArray[Any]) -> str:
    """The dtype that an array is held to by its own. Raises KeyError for a type of reals without a bound."""
    return "integer" if array.dtype.kind in "iu" else _DTYPES[array.dtype.newbyteorder("=")]


_DTYPES = {np.dtype(np.float64): "float64", np.dtype(np.float32): "float32"}


def judge(
    graph: Graph,
    dtype: str,
    reference: Mapping[str, NDArray[Any]],
    found: Mapping[str, NDArray[Any]],
) -> list[Verdict]:
    """A verdict for each variable of `found`; arrays are (steps, rows, columns).

    Int exactly, but for an argmax, which agrees where the reference's operand at the chosen index lies within the
    bound of the reference's largest.
    """
    bound, newest = bound_of(graph, dtype), graph.newest()
    verdicts = []
    for name, array in found.items():
        node = graph.producer(newest[name])
        if node is not None and _compares(node, newest) and array.shape == reference[name].shape:
            verdicts.append(_judge_argmax(name, node, bound, reference, array))
        elif newest[name].real:
            verdicts.append(Verdict(name, difference(reference[name], array), bound))
        else:
            same = np.array_equal(reference[name], array)
            verdicts.append(Verdict(name, 0.0 if same else INFINITE, 0.0))
    return verdicts


def is_near(row: NDArray[Any], index: int, bound: float) -> bool:
    """Whether an argmax may choose an element of its operand (flat): it lies within the bound of the largest."""
    return bool(0 <= index < row.size and row.max() - row[index] <= bound * np.max(np.abs(row)))


def _judge_argmax(
    name: str, node: Node, bound: float, reference: Mapping[str, NDArray[Any]], found: NDArray[Any]
) -> Verdict:
    operand = reference[node.inputs[0].name]
    with np.errstate(invalid="ignore"):  # what is no number becomes an index of no element
        chosen = found.reshape(len(operand)).astype(np.int64)
    expected = reference[name].reshape(len(operand))
    ties = 0
    for step, index in enumerate(chosen):
        if index == expected[step]:
            continue
        if not is_near(operand[step].reshape(-1), int(index), bound):
            return Verdict(name, INFINITE, 0.0)
        ties += 1
    return Verdict(name, 0.0, 0.0, ties)
