"""Functions of each element."""

from __future__ import annotations

from logos_cuda.lowering import Lowering, Parameter, blocks_for
from logos_cuda.spelling.chains import chain


def function(lowering: Lowering) -> None:
    """A function of one operand, by its op's name."""
    op, x = lowering.node.op.name, lowering.real("X")
    parameters: list[Parameter] = [("const Real *x", x), ("Real *y", lowering.out), ("Size n", x.elements)]
    lowering.launch(op, "elementwise.cuh", f"map<{op.capitalize()}>", parameters, blocks_for(x.elements))


def swiglu(lowering: Lowering) -> None:
    """silu(gate) · up."""
    if lowering.made is not None:
        chain(lowering, [lowering.node])
        return
    gate, up = lowering.real("GATE"), lowering.real("UP")
    n, columns = gate.elements, lowering.value("GATE").columns
    parameters: list[Parameter] = [
        ("const Real *gate", gate), ("const Real *up", up), ("Real *y", lowering.out),
        ("Size n", n), ("Size columns", columns),
    ]  # fmt: skip
    lowering.launch("swiglu", "elementwise.cuh", "pairwise<Swiglu, SAME>", parameters, blocks_for(n))
