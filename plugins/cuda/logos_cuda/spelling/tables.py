"""Reading and writing rows by number."""

from __future__ import annotations

from logos_cuda.lowering import FAULT, Lowering, Parameter, blocks_for
from logos_cuda.stages import Buffer


def embedding(lowering: Lowering) -> None:
    """OUT becomes a row of the table."""
    table = lowering.buffer("TABLE")
    kind = "Real" if table.real else "Int"
    operands: list[Parameter] = [(f"const {kind} *table", table), (f"{kind} *y", lowering.out)]
    _by_row(lowering, "embedding", "TOK", kind, operands)


def set_row(lowering: Lowering) -> None:
    """A row of the state becomes R, in place."""
    state = lowering.state("T")
    kind = "Real" if state.real else "Int"
    values: Buffer = lowering.real("R") if state.real else lowering.buffer("R")
    operands: list[Parameter] = [(f"const {kind} *values", values), (f"{kind} *table", state)]
    _by_row(lowering, "set_row", "P", kind, operands)


def _by_row(lowering: Lowering, name: str, hole: str, kind: str, operands: list[Parameter]) -> None:
    """The kernel for a row that the device reads, or for a literal one, which the checks held to the table."""
    rows, columns = lowering.sizes["n"], lowering.sizes["c"]
    number = lowering.node.operands[hole]
    suffix = "" if kind == "Real" else "_int"
    blocks = blocks_for(columns)
    if isinstance(number, int):
        parameters: list[Parameter] = [*operands, ("Size row", number), ("Size columns", columns)]
        lowering.launch(f"{name}_at{suffix}", "tables.cuh", f"{name}_at<{kind}>", parameters, blocks)
        return
    index: Parameter = ("const Int *number", lowering.buffer(hole))
    parameters = [index, *operands, FAULT, ("Size rows", rows), ("Size columns", columns)]
    lowering.launch(f"{name}{suffix}", "tables.cuh", f"{name}<{kind}>", parameters, blocks)
