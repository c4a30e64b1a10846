"""A target's cases for an op, each with its noise and what the reference machine makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, cycle
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.check import read_program
from logos.conformance.cases import Case, Form, forms, make_case
from logos.conformance.sizes import COUNTS, DIMENSIONS, awkward_sizes, random_sizes
from logos.grammar import Grammar
from logos.graph import Graph
from logos.op import Op, Shapes
from logos.reference import Machine, initial
from logos.source import Source
from logos.verification import BOUNDS, Verdict, compared, judge
from logos.weights.encode import bfloat16_bits
from logos.weights.fill import fill

Arrays = Mapping[str, NDArray[Any]]

_TRIES = 50


@dataclass(frozen=True)
class Prepared:
    """A case ready to be run: its leaves' values, and what the variables that are compared are, (1, rows, columns)."""

    case: Case
    graph: Graph
    values: Arrays
    expected: Arrays

    def verdicts(self, dtype: str, found: Arrays) -> tuple[Verdict, ...]:
        """What was found of the compared variables against the reference, by the bound of one op."""
        mine = {name: found[name] for name in self.expected}
        one, _ = BOUNDS[dtype]
        verdicts = judge(self.graph, dtype, self.expected, mine)
        return tuple(replace(verdict, bound=min(verdict.bound, one)) for verdict in verdicts)


def prepare(case: Case, grammar: Grammar, numbers: Iterator[int]) -> Prepared:
    """The case under the first of the numbers that gives it steady noise: values near which its result does not hang
    on their rounding, as a difference of two near numbers does. Such a result would say nothing of the target."""
    made = _prepared(case.renumbered(next(numbers)), grammar)
    for _ in range(_TRIES):
        if _steady(made):
            break
        made = _prepared(case.renumbered(next(numbers)), grammar)
    return made


def _prepared(case: Case, grammar: Grammar) -> Prepared:
    graph = read_program(Source("case.lg", case.text), grammar)
    values = {
        leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")
        for leaf in graph.leaves
    }
    return Prepared(case, graph, values, _reference(graph, values))


def _reference(graph: Graph, values: Arrays) -> Arrays:
    made, newest = Machine(graph, values).step(), graph.newest()
    return {name: made[newest[name]][None] for name in compared(graph)}


def _steady(made: Prepared) -> bool:
    for dtype in ("float32", "bfloat16"):
        rounded = {name: _rounded(array, dtype) for name, array in made.values.items()}
        verdicts = made.verdicts(dtype, _reference(made.graph, rounded))
        if any(verdict.difference > verdict.bound / 2 for verdict in verdicts):
            return False
    return True


def _rounded(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array
    if dtype == "float32":
        return array.astype(np.float32).astype(np.float64)
    return (bfloat16_bits(array).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def cases(op: Op, spelled: frozenset[str], shapes: int, seed: int, grammar: Grammar) -> Iterator[Prepared]:
    """At least `shapes` cases of an op, the same for every target and whatever other ops are tried: each form and each
    awkward size is among them, however many those are. Every other round the operands are weights where they can be."""
    random, numbers = Random(f"{seed} {op.name}"), count(1)
    every = list(forms(op, spelled))
    awkward = {form.rule: list(awkward_sizes(op, form.rule, random)) for form in every}
    rounds = cycle(every)
    done = 0
    while done < max(shapes, len(every)) or any(awkward.values()):
        form = replace(next(rounds), stored=done // len(every) % 2 == 1)
        sizes = _sizes(op, form, awkward, random)
        if sizes is not None:
            yield prepare(make_case(form, 0, sizes, random), grammar, numbers)
            done += 1


def _sizes(
    op: Op, form: Form, awkward: Mapping[Shapes, list[dict[str, int]]], random: Random
) -> dict[str, int] | None:
    if awkward[form.rule]:
        return awkward[form.rule].pop(0)
    return random_sizes(op, form.rule, random, DIMENSIONS, COUNTS)
