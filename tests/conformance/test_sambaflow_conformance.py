"""Every op that rdu-sambaflow spells, in random sizes, against the reference machine."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Op, Shapes, make_manager
from logos.bounds import BOUNDS
from logos.conformance import Form, make_case, prepare, program, random_sizes, variants
from logos.ops import OPS
from logos.verification import compared, judge
from logos_sambaflow.spelling import SPELLS
from sambaflow_modules import emitted, reference, rounded, stepped

MANAGER = make_manager()
CASES = [(op, present, rule) for op in OPS if op.name in SPELLS for present, rule in variants(op)]
NAMES = [f"{op.name}: {rule.text} {' '.join(sorted(present))}" for op, present, rule in CASES]
SIZES = 2


def test_every_op_but_moe_is_spelled() -> None:
    assert {op.name for op in OPS} - SPELLS == {"moe"}


@pytest.mark.parametrize("operators", ["listed", pytest.param("plain", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("op", "present", "rule"), CASES, ids=NAMES)
def test_op_agrees_with_the_reference(
    op: Op, present: frozenset[str], rule: Shapes, dtype: str, operators: str, tmp_path: Path
) -> None:
    random, numbers = Random(op.name), count(1)
    for number in range(SIZES):
        case = make_case(Form(op, present, rule), 0, random_sizes(op, rule, random, range(1, 7)), random)
        text = prepare(case, MANAGER.grammar, numbers).case.text
        options = {"operators": operators, "dtype": "bfloat16" if dtype == "bfloat16" else "float32"}
        made = emitted(text, tmp_path / str(number), MANAGER, **options)
        values = rounded(made.noise(), dtype)
        found = stepped(made, values, dtype)
        want = reference(made, values, compared(made.job.graph))
        verdicts = judge(made.job.graph, dtype, _steps(want), _steps(found))
        bound = BOUNDS[dtype][0]
        assert verdicts
        assert [v for v in verdicts if v.difference > bound] == [], text


@pytest.mark.parametrize(
    ("op", "present", "rule"), [case for case in CASES if case[0].exact and case[0].name != "argmax"], ids=lambda _: ""
)
def test_op_of_int_is_exact(op: Op, present: frozenset[str], rule: Shapes, tmp_path: Path) -> None:
    text = program(op, present, rule, Random(op.name), real=False)
    made = emitted(text, tmp_path, MANAGER)
    values = made.noise()
    found = stepped(made, values, "float32")
    want = reference(made, values, found)
    for name, array in want.items():
        assert array.dtype == np.int64
        assert found[name].dtype == np.int64
        assert found[name].tolist() == array.tolist()


def _steps(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array[None] for name, array in values.items()}
