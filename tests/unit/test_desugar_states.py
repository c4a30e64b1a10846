"""States in a program of loops: loops work in place, and what they set whole they make, so some states are copied."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
import test_random_programs
from loop_cases import GRAMMAR
from numpy.typing import NDArray
from test_random_programs import random_program, start

from logos import OPS, Graph, Machine, Refused, Source
from logos.check import read_program
from logos.desugar import desugar
from logos.grammar import make_grammar
from logos.lift import disagreements, lift
from logos.ops.arithmetic import plus_loops
from logos.weights.fill import fill

ROW = "Let s be a 1 by 2 tensor of Real.\nLet x be a 1 by 2 tensor of Real.\nSet item 2 of s to 0.75.\n"
MEMORY = "".join(f"Let {name} be a 1 by 1 tensor of Real.\n" for name in ("s", "x"))


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        (f"{ROW}Let y be causal conv of s with weight x state s over 1 taps.\n", ["embedding", "causal conv"]),
        (f"{ROW}Let y be causal conv of s with weight s state s over 1 taps.\n", ["embedding", "causal conv"]),
        (
            f"{MEMORY}Let y be gated delta of s over x and s with gate x beta x decay x state s norm s"
            " with 1 heads 1 groups.\n",
            ["embedding", "gated delta"],
        ),
        (f"{ROW}Set row 0 of s to x.\nLet y be s plus x.\n", ["embedding", "set row", "plus"]),
        (f"{ROW}Let y be s plus x.\nSet row 0 of s to y.\n", ["plus", "set row"]),
        (f"{ROW}Show s.\nSet row 0 of s to x.\nLet y be s plus x.\n", ["set row", "plus"]),
        (f"{ROW}Let y be silu of x.\nSet row 0 of s to y.\nSet row 0 of s to x.\n",
         ["embedding", "silu", "set row", "set row"]),
        (f"{ROW}Set row 0 of s to x.\nSet row 0 of s to s.\nLet y be s plus x.\n",
         ["embedding", "set row", "embedding", "set row", "plus"]),
        (
            "Let s be a 3 by 2 tensor of Real.\nLet x be a 1 by 2 tensor of Real.\n"
            "Let y be causal conv of x with weight s state s over 3 taps.\n",
            ["loop", "causal conv"],
        ),
    ],
)  # fmt: skip
def test_a_program_of_loops_has_no_sentence_and_the_same_states(text: str, ops: list[str]) -> None:
    graph = read_program(Source("p.lg", text), GRAMMAR)
    printed = desugar(graph)
    again = read_program(Source("loops.lg", printed), GRAMMAR)
    assert [node.op.name for node in again.nodes] == ops
    loops = read_program(Source("loops.lg", printed), GRAMMAR, recognize=False)
    assert {node.op.name for node in loops.nodes} == {"loop"}
    assert [leaf.name for leaf in loops.states] == [leaf.name for leaf in graph.states]
    given = {leaf.name: fill(graph, leaf, "noise") for leaf in graph.leaves}
    machines = [Machine(made, given) for made in (graph, loops, again)]
    for _ in range(3):
        want, *others = (machine.step()[machine.graph.output] for machine in machines)
        for other in others:
            assert np.allclose(want, other, rtol=1e-12, atol=1e-12)
    for machine in machines[1:]:
        assert np.allclose(machines[0].states["s"], machine.states["s"], rtol=1e-12, atol=1e-12)
    assert all(one.agrees and one.loops is not None for one in lift(graph, OPS))


@pytest.mark.slow
def test_random_programs_are_their_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shapes, so that most sentences fit and operands are often the same."""
    kinds = ("1 by 1 tensor of Int", "1 by 1 tensor of Real", "1 by 2 tensor of Real", "2 by 2 tensor of Int")
    monkeypatch.setattr(test_random_programs, "SHAPES", kinds)
    random, seen = Random(9), 0
    while seen < 200:
        try:
            graph = read_program(Source("p.lg", random_program(random)), GRAMMAR)
        except Refused:
            continue
        seen += 1
        given = {leaf.name: start(graph, leaf) for leaf in graph.leaves if not leaf.state}
        printed = desugar(graph)
        for recognize in (True, False):
            loops = read_program(Source("loops.lg", printed), GRAMMAR, recognize)
            want, got = three_steps(graph, given), three_steps(loops, given)
            assert len(want) == len(got)
            for one, other in zip(want, got, strict=True):
                assert np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True), printed


def three_steps(graph: Graph, given: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The outputs and states of the steps that are not refused."""
    machine, found = Machine(graph, given), []
    for _ in range(3):
        try:
            now = machine.step()
        except Refused:
            break
        found += [now[graph.output], *(machine.states[name] for name in sorted(machine.states))]
    return found


def test_names_of_copies_are_no_other_names() -> None:
    text = f"{ROW}Let s_before be silu of x.\nSet row 0 of s to x.\n"
    assert "Set item 1, column of s_before_ to item 1, column of s.\n" in desugar(
        read_program(Source("p.lg", text), GRAMMAR)
    )
    odd = "Let row be a 1 by 2 tensor of Real.\nLet column be a 1 by 2 tensor of Real.\n"
    odd += "Set row 0 of column to row.\nLet y be silu of column.\n"
    printed = desugar(read_program(Source("p.lg", odd), GRAMMAR))
    assert "  Set item 1, column_ of column_before to item 1, column_ of column.\n" in printed
    assert [node.op.name for node in read_program(Source("q.lg", printed), GRAMMAR).nodes][1:] == ["set row", "silu"]


def test_a_sentence_whose_copy_would_be_the_output_stays() -> None:
    text = f"{ROW}Let y be silu of x.\nSet row 0 of s to s.\n"
    printed = desugar(read_program(Source("p.lg", text), GRAMMAR))
    assert printed.splitlines()[-1] == "Set row 0 of s to s."
    assert read_program(Source("q.lg", printed), GRAMMAR).output.name == "y"


def test_loops_that_make_less_than_the_op_are_a_disagreement_and_its_sentence_stays() -> None:
    (plus,) = (op for op in OPS if op.name == "plus")
    part = replace(
        plus, name="part", pattern_text="A part B", loops=lambda form: plus_loops(form).replace("to c", "to c - 1")
    )
    ops = (*OPS, part)
    text = "Let x be a 2 by 2 tensor of Real.\nLet y be x part x.\n"
    graph = read_program(Source("p.lg", text), make_grammar(ops))
    (refusal,) = disagreements(lift(graph, ops))
    assert refusal.code == "readers-disagree"
    assert desugar(graph).splitlines()[-1] == "Let y be x part x."
