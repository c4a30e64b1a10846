"""Operations of several steps at once: `NAME rows`, whose operands hold a row for each step where they vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from logos import Value
from logos_cuda.lowering import FAULT, Lowering, Parameter, blocks_for
from logos_cuda.spelling import attention, pointwise, recurrent, rows, tables

POSITION = "pos"
"""The input that counts the steps: its rows are all different, and the driver holds them to every table."""


def _varying(
    spelling: Callable[[Lowering], None], holes: Sequence[str], fixed: Sequence[str] = ()
) -> Callable[[Lowering], None]:
    """A spelling that takes a row for each step of `holes`, and one row for all of `fixed`; an operand of `holes` that
    has one for all is repeated."""

    def spell(lowering: Lowering) -> None:
        steps = lowering.sizes["STEPS"]
        for hole in (*holes, *fixed):
            operand = lowering.node.operands[hole]
            if not isinstance(operand, Value) or operand.rows == (steps if hole in holes else 1):
                continue
            if hole in holes:
                lowering.repeat(hole, steps)
            else:
                lowering.refuse(f"{operand.name} differs from step to step; the kernel takes one row for all steps")
        if not lowering.refusals:
            spelling(lowering)

    return spell


def _by_position(spelling: Callable[[Lowering], None]) -> Callable[[Lowering], None]:
    """A spelling whose rows are those that the position counts."""

    def spell(lowering: Lowering) -> None:
        number = lowering.node.operands["P"]
        if not isinstance(number, Value) or (number.name, number.version) != (POSITION, 0):
            lowering.refuse(f"its rows are given by another variable than {POSITION}")
            return
        spelling(lowering)

    return spell


def pairwise(lowering: Lowering) -> None:
    """A sum or product of each step's row; B has a row, one element of a row, or the same for all steps."""
    a, b, out = lowering.value("A"), lowering.value("B"), lowering.out
    op, kind, suffix = lowering.node.op.name.removesuffix(" rows"), *(("Real", "") if out.real else ("Int", "_int"))
    operands = [lowering.real(hole) if out.real else lowering.buffer(hole) for hole in ("A", "B")]
    parameters: list[Parameter] = [
        (f"const {kind} *a", operands[0]), (f"const {kind} *b", operands[1]), (f"{kind} *y", out),
        *([] if out.real else [FAULT]),
        ("Size n", out.elements), ("Size columns", a.columns), ("Size a_step", a.columns if a.rows > 1 else 0),
        ("Size b_step", b.columns if b.rows > 1 else 0), ("Size b_columns", b.columns),
    ]  # fmt: skip
    call = f"pairwise_rows{suffix}<{op.capitalize()}>"
    lowering.launch(f"{op}_steps{suffix}", "elementwise.cuh", call, parameters, blocks_for(out.elements))


def argmax(lowering: Lowering) -> None:
    """The first largest of each step's row."""
    x = lowering.buffer("X")
    kind, suffix = ("Real", "") if x.real else ("Int", "_int")
    parameters: list[Parameter] = [
        (f"const {kind} *x", x), ("Int *y", lowering.out), FAULT, ("Size columns", lowering.value("X").columns)
    ]  # fmt: skip
    name, call = f"argmax_rows{suffix}", f"argmax_rows<{kind}>"
    lowering.launch(name, "argmax.cuh", call, parameters, lowering.value("X").rows)


STEPS_SPELLINGS: Mapping[str, Callable[[Lowering], None]] = MappingProxyType(
    {
        "embedding rows": tables.embedding,
        "set row rows": _by_position(_varying(tables.set_row, ("R",))),
        "full attention rows": _varying(attention.full_attention, ("Q", "K", "V")),
        "swiglu rows": _varying(pointwise.swiglu, ("GATE", "UP")),
        "layernorm rows": _varying(rows.layernorm, ("X",), ("W", "B")),
        "rope rows": _varying(attention.rope, ("Q", "RC", "RS")),
        "attention rows": _by_position(_varying(attention.attention, ("Q",))),
        "rmsnorm rows": _varying(rows.rmsnorm, ("X", "RES"), ("W",)),
        "l2norm rows": _varying(rows.l2norm, ("X",)),
        "causal conv rows": _varying(recurrent.causal_conv, ("X",)),
        "decay rows": _varying(recurrent.decay, ("AR",), ("DT", "AL")),
        "gated delta rows": _varying(recurrent.gated_delta, ("Q", "K", "V", "Z", "B", "A"), ("GN",)),
        "argmax rows": argmax,
        "plus rows": pairwise,
        "hadamard rows": pairwise,
    }
)
"""For the ops of many steps that kernels compute, the function that spells each."""
