"""Every op's T-row rule: T steps at once equal single steps, whichever of its operands differ from step to step."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from many_steps import STEPS, TOKENS, farthest, graph, noise
from op_steps import RULED, cases, program

from logos import OPS, Machine, Op, unroll


@pytest.mark.parametrize("op", RULED, ids=lambda op: op.name)
def test_many_steps_equal_single_steps(op: Op) -> None:
    random, count = Random(op.name), 0
    for present, rule, varying in cases(op):
        for kind in ("Real", "Int") if op.exact else ("Real",):
            text = program(op, present, rule, varying, random, kind)
            made = graph(text)
            values, names = noise(made), () if op.statement else ("OUT",)
            for steps in STEPS:
                assert farthest(made, values, steps, names) <= 1e-12, text
            count += 1
    assert count >= len(op.rows.holes)  # type: ignore[union-attr]


@pytest.mark.parametrize("op", RULED, ids=lambda op: op.name)
@pytest.mark.parametrize("steps", [1, 12])
def test_the_machine_runs_the_graph_of_many_steps(op: Op, steps: int) -> None:
    present, rule, _ = next(iter(cases(op)))
    varying = frozenset(op.rows.holes) & present  # type: ignore[union-attr]
    made = graph(program(op, present, rule, varying, Random(op.name), "Real"))
    out = [] if op.statement else [made.output]
    values, tokens = noise(made), np.array(TOKENS[:steps]).reshape(-1, 1)
    many = Machine(unroll(made, steps, out).graph, values)
    now = many.step({"tok": tokens, "pos": np.arange(steps).reshape(-1, 1)})
    single = Machine(made, values)
    for step in range(steps):
        last = single.step({"tok": tokens[step : step + 1], "pos": np.full((1, 1), step)})
        for value in out:
            np.testing.assert_allclose(now[many.graph.output][step : step + 1], last[value], rtol=1e-12, atol=1e-14)
    for name, array in single.states.items():
        np.testing.assert_allclose(many.states[name], array, rtol=1e-12, atol=1e-14)


def test_every_op_but_transpose_has_a_rule() -> None:
    assert {op.name for op in OPS} - {op.name for op in RULED} == {"transpose"}
