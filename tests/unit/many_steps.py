"""What tests of many steps at once share: a program run both ways, and how far the two lie apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos import OPS, Graph, Machine, Source, read_program, run_steps
from logos.grammar import make_grammar
from logos.graph import token_inputs
from logos.prefill import Prefill
from logos.reference import initial
from logos.weights.fill import fill

GRAMMAR = make_grammar(OPS)
TOKENS = (3, 0, 5, 1, 1, 7, 2, 0, 6, 4, 5, 3)
STEPS = (2, 3, 7, 12)
HEAD = "Let tok be a 1 by 1 tensor of Int.\nLet pos be a 1 by 1 tensor of Int.\n"
Arrays = Mapping[str, NDArray[Any]]


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", HEAD + text), GRAMMAR)


def noise(made: Graph) -> dict[str, NDArray[Any]]:
    """Every leaf's fills or noise, states too, but for what tokens feed."""
    return {
        leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(made, leaf, "noise")
        for leaf in made.leaves
        if leaf.name not in token_inputs(made)
    }


def apart(one: Any, other: Any) -> float:
    """The largest difference over the largest of `one`; infinite where types, shapes, NaNs or integers differ."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return np.inf
    if one.dtype.kind == "i":
        return 0.0 if np.array_equal(one, other) else np.inf
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    odd = ~np.isfinite(one)
    if not np.array_equal(one[odd], other[odd], equal_nan=True):
        return np.inf
    difference = np.abs(one[~odd] - other[~odd]).max(initial=0.0)
    return float(difference and difference / np.abs(one[~odd]).max())


def farthest(
    made: Graph, values: Arrays, steps: int, names: Sequence[str], tokens: Sequence[int] = TOKENS, whole: bool = True
) -> float:
    """How far a run with so many steps at once lies from single steps: the named values at every step, all values of
    the last step, the final states. `whole`: none of the chunks may have gone step by step."""
    single, many = Machine(made, values), Machine(made, values)
    one = run_steps(single, names, tokens)
    prefill = Prefill(made, steps, names)
    if whole:
        sizes = [chunk.steps for chunk in prefill.chunks(Machine(made, values), tokens)]
        assert sizes == [len(tokens[first : first + steps]) for first in range(0, len(tokens), steps)]
    other = run_steps(many, names, tokens, prefill=prefill)
    before = {leaf.value for leaf in made.states} if steps > 1 else set()
    assert set(one.last) - set(other.last) <= before
    return max(
        [
            *(apart(one.stacked(name), other.stacked(name)) for name in names),
            *(apart(one.last[value], array) for value, array in other.last.items()),
            *(apart(array, many.states[name]) for name, array in single.states.items()),
        ]
    )


def subsets(holes: Sequence[str]) -> Iterator[frozenset[str]]:
    """Each hole alone, all of them, and all but one."""
    found = {frozenset(holes), *(frozenset([hole]) for hole in holes), *(frozenset(holes) - {hole} for hole in holes)}
    yield from sorted(found - {frozenset()}, key=sorted)
