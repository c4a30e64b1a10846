"""The verification rule: how far an artifact's values lie from the reference machine's, and how far they may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.graph import Graph, Node

BOUNDS: Mapping[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-9),
    "float32": (1e-4, 1e-4),
    "bfloat16": (2e-2, 2e-1),
}
"""For each dtype, the bound for a program of one op and over a model."""


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
    newest = graph.newest()
    names = dict.fromkeys(outputs or (graph.output.name,))
    for name in list(names):
        node = graph.producer(newest[name])
        if node is not None and node.op.name == "argmax":
            names[node.inputs[0].name] = None
    names.update(dict.fromkeys(leaf.name for leaf in graph.states))
    return tuple(names)


def bound_of(graph: Graph, dtype: str) -> float:
    """The bound for a program in a dtype."""
    one, model = BOUNDS[dtype]
    return one if len(graph.nodes) == 1 else model


def difference(reference: NDArray[Any], found: NDArray[Any]) -> float:
    """The largest absolute difference over all elements divided by the largest absolute reference value; a reference
    of all 0 admits only 0. A value that is not a number where the reference is one is infinitely far."""
    a, b = reference.astype(np.float64), found.astype(np.float64)
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0 or np.array_equal(a, b, equal_nan=True):
        return 0.0
    with np.errstate(all="ignore"):
        distance, largest = float(np.max(np.abs(a - b))), float(np.max(np.abs(a)))
        ratio = distance / largest if largest else float("inf")
    return ratio if ratio == ratio else float("inf")


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
        if node is not None and node.op.name == "argmax":
            verdicts.append(_judge_argmax(name, node, bound, reference, array))
        elif newest[name].real:
            verdicts.append(Verdict(name, difference(reference[name], array), bound))
        else:
            same = np.array_equal(reference[name], array)
            verdicts.append(Verdict(name, 0.0 if same else float("inf"), 0.0))
    return verdicts


def _judge_argmax(
    name: str, node: Node, bound: float, reference: Mapping[str, NDArray[Any]], found: NDArray[Any]
) -> Verdict:
    operand = reference[node.inputs[0].name]
    chosen, expected = found.reshape(len(operand)), reference[name].reshape(len(operand))
    ties = 0
    for step, index in enumerate(chosen):
        if index == expected[step]:
            continue
        row = operand[step].reshape(-1)
        near = 0 <= index < row.size and row.max() - row[index] <= bound * np.max(np.abs(row))
        if not near:
            return Verdict(name, float("inf"), 0.0)
        ties += 1
    return Verdict(name, 0.0, 0.0, ties)
