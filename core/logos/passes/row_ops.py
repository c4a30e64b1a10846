"""The op of T steps at once, made from an op's declaration and its T-row rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from logos.late import np
from logos.op import Op, Rows, Shapes

STEPS = "STEPS"
"""The count of an op of many steps that says how many; a symbol of its shape rules too."""


@lru_cache(maxsize=4096)
def over_rows(op: Op, varying: frozenset[str]) -> Op:
    """The op `NAME rows`: what `op` makes in STEPS steps where the operands of `varying` hold a row for each.

    Its pattern and holes are the op's, and STEPS is one count more. A shape rule has STEPS for the one row of each
    operand of `varying` and of OUT. A variable row of `varying` is STEPS by 1 of Int.
    """
    rule = op.rows
    assert rule is not None
    assert varying <= set(rule.holes)
    shapes = tuple(_shapes(shape, varying) for shape in op.shapes)
    counts = (*op.counts, STEPS)
    return replace(op, name=f"{op.name} rows", shapes=shapes, value=_value(op, rule), counts=counts, rows=None)


def _shapes(shape: Shapes, varying: frozenset[str]) -> Shapes:
    operands = (
        f"{hole} ({STEPS if hole in varying else rows}, {columns})" for hole, (rows, columns) in shape.operands.items()
    )
    out = "" if shape.out is None else f" -> ({STEPS}, {shape.out[1]})"
    return replace(shape, text=", ".join(operands) + out)


def _value(op: Op, rule: Rows) -> Callable[..., Any]:
    def value(STEPS: int, **operands: Any) -> Any:
        for hole in rule.holes:
            operand = operands.get(hole)
            if operand is not None:
                shape = (STEPS,) if hole in op.indexes else (STEPS, operand.shape[1])
                operands[hole] = np.broadcast_to(operand, shape)
        return _step_after_step(op, STEPS, operands) if rule.value is None else rule.value(**operands)

    value.__doc__ = op.doc if rule.value is None else rule.value.__doc__
    return value


def _step_after_step(op: Op, steps: int, operands: Mapping[str, Any]) -> Any:
    """The op's own value for one row after another, the states that it writes carried."""
    assert op.rows is not None
    outs, states = [], {hole: operands[hole] for hole in op.writes}
    for step in range(steps):
        rows = {hole: _row(op, hole, operands, step) for hole in op.rows.holes}
        made = op.value(**{**operands, **rows, **states})
        if op.statement:
            states = made
        elif op.writes:
            out, states = made
            outs.append(out)
        else:
            outs.append(made)
    if op.statement:
        return states
    return (np.concatenate(outs), states) if op.writes else np.concatenate(outs)


def _row(op: Op, hole: str, operands: Mapping[str, Any], step: int) -> Any:
    operand = operands[hole]
    if operand is None:
        return None
    return int(operand[step]) if hole in op.indexes else operand[step : step + 1]
