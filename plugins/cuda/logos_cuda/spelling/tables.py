"""Reading and writing rows by number."""

from __future__ import annotations

from logos_cuda.lowering import FAULT, Lowering, Parameter, blocks_for, quants
from logos_cuda.stages import Buffer, Element

_MOST_STEP_BLOCKS = 65536


def embedding(lowering: Lowering) -> None:
    """OUT becomes a row of the table."""
    table = lowering.buffer("TABLE")
    if table.element is Element.QUANT:
        lowering.notes.append(f"{lowering.value('TABLE').name} in Q8_0")
        _by_row(lowering, "embedding", "TOK", "Quant", [*quants("table", table, True), ("Real *y", lowering.out)])
        return
    kind = "Real" if table.real else "Int"
    operands: list[Parameter] = [(f"const {kind} *table", table), (f"{kind} *y", lowering.out)]
    _by_row(lowering, "embedding", "TOK", kind, operands)


def set_row(lowering: Lowering) -> None:
    """A row of the state becomes R, in place."""
    state = lowering.state("T")
    if state.element is Element.HALF:
        lowering.notes.append(f"{lowering.value('T').name} as float16")
        halves: list[Parameter] = [("const Real *values", lowering.real("R")), ("Half *table", state)]
        _by_row(lowering, "set_row", "P", "Half", halves)
        return
    kind = "Real" if state.real else "Int"
    values: Buffer = lowering.real("R") if state.real else lowering.buffer("R")
    operands: list[Parameter] = [(f"const {kind} *values", values), (f"{kind} *table", state)]
    _by_row(lowering, "set_row", "P", kind, operands)


def _by_row(lowering: Lowering, name: str, hole: str, kind: str, operands: list[Parameter]) -> None:
    """The kernel for a row that the device reads, or for a literal one, which the checks held to the table."""
    rows, columns = lowering.sizes["n"], lowering.sizes["c"]
    steps = lowering.sizes.get("STEPS", 1)
    number = lowering.node.operands[hole]
    suffix = {"Real": "", "Int": "_int", "Quant": "_q8", "Half": "_half"}[kind]
    narrow = kind in ("Quant", "Half")
    header, call = ("tables_narrow.cuh", f"{name}{suffix}") if narrow else ("tables.cuh", name)
    ending = "" if narrow else f"<{kind}>"
    blocks = blocks_for(columns)
    if isinstance(number, int):
        parameters: list[Parameter] = [*operands, ("Size row", number), ("Size columns", columns)]
        lowering.launch(f"{name}_at{suffix}", header, f"{call}_at{ending}", parameters, blocks)
        return
    index: Parameter = ("const Int *number", lowering.buffer(hole))
    if steps > 1:
        last: list[Parameter] = [FAULT, ("Size rows", rows), ("Size columns", columns), ("Size steps", steps)]
        call = f"{name}_steps{suffix if narrow else ending}"
        blocks = min(steps, _MOST_STEP_BLOCKS)
        lowering.launch(f"{name}_steps{suffix}", header, call, [index, *operands, *last], blocks)
        return
    parameters = [index, *operands, FAULT, ("Size rows", rows), ("Size columns", columns)]
    lowering.launch(f"{name}{suffix}", header, f"{call}{ending}", parameters, blocks)
