"""One sentence on the reference machine, over arrays by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import Graph, Machine, Refused, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS

GRAMMAR = make_grammar(OPS)
Array = NDArray[Any]
PRIMES = (1, 2, 3, 5, 7, 13)
TOP = 2**63 - 1


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def run(sentence: str, arrays: Mapping[str, Any], states: tuple[str, ...] = ()) -> dict[str, Array]:
    """One step of a sentence over arrays by name; a state's array comes in by fills. Every name's newest value."""
    values = {name: np.asarray(array) for name, array in arrays.items()}
    lines = []
    for name, array in values.items():
        kind = "Real" if array.dtype.kind == "f" else "Int"
        lines.append(f"Let {name} be a {array.shape[0]} by {array.shape[1]} tensor of {kind}.")
        if name in states:
            lines += [f"Set item {i} of {name} to {value!r}." for i, value in enumerate(array.ravel().tolist(), 1)]
    if sentence.startswith("Set"):
        sentence += f"\nLet out be transpose of {states[0]}."
    made = graph("\n".join([*lines, sentence]))
    assert tuple(leaf.name for leaf in made.states) == states
    before = {name: array.copy() for name, array in values.items()}
    machine = Machine(made, {name: array for name, array in values.items() if name not in states})
    now = machine.step()
    for name, array in values.items():
        assert np.array_equal(array, before[name], equal_nan=True), f"{name} was changed in place"
    return {name: now[value] for name, value in made.newest().items()}


def real(random: np.random.Generator, rows: int, columns: int) -> Array:
    return random.uniform(-2, 2, (rows, columns))


def whole(random: np.random.Generator, rows: int, columns: int) -> Array:
    return random.integers(-9, 10, (rows, columns))


def assert_close(found: Array, expected: list[list[float]], tolerance: float = 1e-12) -> None:
    assert found.shape == (len(expected), len(expected[0]))
    for row, due in zip(found.tolist(), expected, strict=True):
        for x, y in zip(row, due, strict=True):
            assert math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance), (x, y)


def assert_exactly(found: Array, expected: list[list[int]]) -> None:
    assert found.dtype == np.int64
    assert found.tolist() == expected


def refusal(sentence: str, arrays: Mapping[str, Any], states: tuple[str, ...] = ()) -> tuple[str, str, str]:
    with pytest.raises(Refused) as refused:
        run(sentence, arrays, states)
    (one,) = refused.value.refusals
    assert one.where is not None
    return one.code, one.what, one.where.label()
