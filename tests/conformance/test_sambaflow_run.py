"""`logos conformance rdu-sambaflow`: the emitted module in a process of its own, many ops side by side."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import make_manager
from logos.conformance import conform

MANAGER = make_manager()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ops_that_write_states_and_ops_of_int_hold_side_by_side(dtype: str) -> None:
    ops = ["matmul", "gated delta", "set row", "argmax", "attention"]
    report = conform(MANAGER, "rdu-sambaflow", ops, 4, 1, {"dtype": dtype})
    assert [(one.op.name, one.holds, dict(one.refused)) for one in report.ops if not one.holds or one.refused] == []
    assert {dtype for one in report.ops for dtype in one.worst} == (
        {"bfloat16"} if dtype == "bfloat16" else {"float64", "float32"}
    )


@pytest.mark.slow
@pytest.mark.parametrize("operators", ["listed", "plain"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_op_holds(dtype: str, operators: str) -> None:
    report = conform(MANAGER, "rdu-sambaflow", shapes=40, options={"dtype": dtype, "operators": operators})
    assert report.unspelled == ("moe",)
    assert [one.op.name for one in report.ops if not one.holds or one.refused] == []
