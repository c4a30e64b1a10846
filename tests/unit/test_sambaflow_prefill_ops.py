"""LogosPrefill's spellings: every op many steps at once against single steps of the reference machine, and audited."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from many_steps import HEAD, TOKENS, apart
from op_steps import RULED, cases, program

from logos import Machine, Manager, Op, make_manager, run_steps
from logos_sambaflow.emit import many_of
from logos_sambaflow.layout import Layout
from logos_sambaflow.spelling import ROW_OPS, SPELLS, operators_of, support
from sambaflow_modules import Emitted, emitted, exported_operators, prompted

torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

SPELLED = [op for op in RULED if op.name in SPELLS]
MANAGER: Manager = make_manager()


def programs(op: Op) -> list[str]:
    """A program for each choice of optional parts and of what differs from step to step."""
    random, found = Random(op.name), []
    for present, rule, varying in cases(op):
        for kind in ("Real", "Int") if op.exact else ("Real",):
            text = program(op, present, rule, varying, random, kind)
            # A transpose has no rule for many steps at once.
            text = text.replace("Let OUT be transpose of T.", "Let OUT be tok plus pos.")
            # torch.export writes arguments in lower case, and `as` is a keyword.
            found.append(HEAD + re.sub(r"\bAs\b", "Rates", text))
    return found


def some(op: Op) -> list[str]:
    """A few of the programs, the first one included."""
    found = programs(op)
    return found[:: max(1, len(found) // 3)]


def distances(made: Emitted, dtype: str) -> dict[str, float]:
    values = made.noise()
    machine, names = Machine(made.job.graph, values), list(made.module.OUTPUTS)
    record = run_steps(machine, names, TOKENS)
    found = prompted(made, values, TOKENS, dtype)
    due = {**{name: record.stacked(name) for name in names}, **machine.states}
    return {name: apart(array, found[name].astype(array.dtype)) for name, array in due.items()}


@pytest.mark.parametrize("op", SPELLED, ids=lambda op: op.name)
def test_many_steps_equal_single_steps_of_the_reference_machine(op: Op, tmp_path: Path) -> None:
    for number, text in enumerate(some(op)):
        made = emitted(text, tmp_path / str(number), MANAGER, prefill=5)
        for name, distance in distances(made, "float64").items():
            assert distance <= 1e-12, (name, text)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("op", SPELLED, ids=lambda op: op.name)
def test_whatever_differs_from_step_to_step(op: Op, steps: int, tmp_path: Path) -> None:
    for number, text in enumerate(programs(op)):
        made = emitted(text, tmp_path / str(number), MANAGER, prefill=steps)
        for dtype, bound in (("float64", 1e-12), ("float32", 1e-4)):
            for name, distance in distances(made, dtype).items():
                assert distance <= bound, (name, dtype, text)


def prefill_module(made: Emitted, dtype: Any) -> tuple[Any, tuple[Any, ...]]:
    """LogosPrefill with noise for weights, and arguments of its forward."""
    values, program = made.noise(), made.module.PROGRAM
    held = {name: values[name] for name in program.of_role("weight", "table", "constant")}
    inputs = {name: torch.from_numpy(values[name]) for name in program.of_role("input")}
    rows = made.module.prefill_inputs(program, inputs, TOKENS, 0, dtype)
    states = [
        made.module.held_as(name, program.leaves[name], torch.from_numpy(values[name]), dtype)
        for name in program.of_role("state")
    ]
    return program.prefill.module().load_weights(made.folder, dtype, held), (*rows, *states)


def used_by(helper: str, texts: list[str], tmp_path: Path) -> tuple[set[str], set[str]]:
    """The operators of the exported programs that a helper spells, and those due; what the lookups use left out."""
    used: set[str] = set()
    for number, text in enumerate(texts):
        made = emitted(text, tmp_path / str(number), MANAGER, prefill=3)
        many = many_of(Layout(made.job))
        assert many is not None
        if helper in {statement.helper.name for statement in many.written}:
            for dtype in (torch.float32, torch.bfloat16):
                used |= exported_operators(torch.export.export(*prefill_module(made, dtype)))
    assert used
    assert {name for name in used if support(name) == "unknown"} == set()
    beside = {"embedding", "reshape", "cast", *(["add"] if helper == "set_rows" else [])}
    return used - beside, set(operators_of(helper, "listed")) - beside


def op_of(helper: str) -> Op:
    return next(op for op in SPELLED if op.name == ROW_OPS[helper])


@pytest.mark.parametrize("helper", ROW_OPS)
def test_an_exported_helper_uses_operators_of_its_table(helper: str, tmp_path: Path) -> None:
    texts = [text for text in programs(op_of(helper)) if (" up to " in text) == ("up_to" in helper)]
    used, listed = used_by(helper, texts[:1], tmp_path)
    assert used <= listed


@pytest.mark.slow
@pytest.mark.parametrize("helper", ROW_OPS)
def test_the_table_lists_no_other_operator(helper: str, tmp_path: Path) -> None:
    used, listed = used_by(helper, programs(op_of(helper)), tmp_path)
    assert used == listed
