"""A target's cases for an op, each with its noise and what the reference machine makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, cycle
from random import Random
from typing import Any

from numpy.typing import NDArray

from logos.bounds import BOUNDS
from logos.check import read_program
from logos.conformance.cases import Case, forms, make_case
from logos.conformance.sizes import awkward_pins, pinned_sizes
from logos.conformance.steadiness import unsteadiness
from logos.grammar import Grammar
from logos.graph import Graph
from logos.op import Op
from logos.reference import Machine, initial
from logos.source import Source
from logos.verification import Verdict, compared, judge
from logos.weights.fill import fill

Arrays = Mapping[str, NDArray[Any]]

_TRIES = 5
STEADY = 0.7
"""The share of a bound that rounding alone may take."""


@dataclass(frozen=True)
class Prepared:
    """A case ready to be run, with its leaves' values."""

    case: Case
    graph: Graph
    values: Arrays

    @cached_property
    def expected(self) -> Arrays:
        """What the reference machine makes of the variables that are compared, (1, rows, columns)."""
        return self.reference(self.values)

    @cached_property
    def unsteadiness(self) -> float:
        """The share of its bound that rounding alone takes."""
        return unsteadiness(self)

    def reference(self, values: Arrays) -> Arrays:
        """The same for other values of the leaves."""
        made, newest = Machine(self.graph, values).step(), self.graph.newest()
        return {name: made[newest[name]][None] for name in compared(self.graph)}

    def verdicts(self, dtype: str, found: Arrays) -> tuple[Verdict, ...]:
        """What was found of the compared variables against the reference, by the bound of one op."""
        mine = {name: found[name] for name in self.expected}
        one, _ = BOUNDS[dtype]
        verdicts = judge(self.graph, dtype, self.expected, mine)
        return tuple(replace(verdict, bound=min(verdict.bound, one)) for verdict in verdicts)


def prepare(case: Case, grammar: Grammar, numbers: Iterator[int]) -> Prepared:
    """The case under the first of the numbers that gives it noise on which its result does not hang on rounding, or
    under the best of several."""
    return _steadiest(_prepared(case.renumbered(next(numbers)), grammar) for _ in range(_TRIES))


def _steadiest(tried: Iterable[Prepared]) -> Prepared:
    """The first that is steady, else the best."""
    best: Prepared | None = None
    for made in tried:
        if best is None or made.unsteadiness < best.unsteadiness:
            best = made
        if best.unsteadiness <= STEADY:
            break
    assert best is not None
    return best


def _prepared(case: Case, grammar: Grammar) -> Prepared:
    graph = read_program(Source("case.lg", case.text), grammar)
    values = {
        leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")
        for leaf in graph.leaves
    }
    return Prepared(case, graph, values)


def cases(op: Op, spelled: frozenset[str], shapes: int, seed: int, grammar: Grammar) -> Iterator[Prepared]:
    """At least `shapes` cases of an op, the same for every target and whatever other ops are tried: each form and each
    awkward size is among them, however many those are. Every other round the operands are weights where they can be.

    Where no noise of a shape is steady, other sizes are drawn about what is awkward in it.
    """
    random, numbers = Random(f"{seed} {op.name}"), count(1)
    every = list(forms(op, spelled))
    awkward = {form.rule: list(awkward_pins(op, form.rule, random)) for form in every}
    rounds = cycle(every)
    done = 0
    while done < max(shapes, len(every)) or any(awkward.values()):
        form = replace(next(rounds), stored=done // len(every) % 2 == 1)
        pins = awkward[form.rule].pop(0) if awkward[form.rule] else {}
        drawn = (make_case(form, 0, pinned_sizes(op, form.rule, pins, random), random) for _ in range(_TRIES))
        yield _steadiest(prepare(case, grammar, numbers) for case in drawn)
        done += 1
