"""Routed experts: float weights, or weights in Q8_0 by either way to multiply."""

from __future__ import annotations

from collections.abc import Sequence

from logos_cuda.lowering import Lowering, Parameter, blocks_for, quants
from logos_cuda.spelling.arithmetic import product
from logos_cuda.stages import Buffer, Element
from logos_cuda.storage import Multiply

_MOST_BLOCKS = 65536


def moe(lowering: Lowering) -> None:
    """The router's scores, the choice of experts, their gate and up rows, their down rows."""
    rows, width, inner = (lowering.sizes[symbol] for symbol in ("t", "d", "f"))
    experts, top = lowering.sizes["EXPERTS"], lowering.sizes["TOP"]
    x = lowering.real("X")
    if lowering.buffer("WG").element is not lowering.buffer("WU").element:
        lowering.refuse("its gate and up rows are not stored alike")
        return
    scores, shares = lowering.scratch(rows * experts), lowering.scratch(rows * top)
    chosen, hidden = lowering.scratch(rows * top, real=False), lowering.scratch(rows * top * inner)
    product(lowering, x, lowering.real("WR"), scores, (rows, width, experts), transposed=True)
    choice: list[Parameter] = [
        ("const Real *scores", scores), ("Int *chosen", chosen), ("Real *shares", shares),
        ("Size rows", rows), ("Size experts", experts), ("Size top", top),
    ]  # fmt: skip
    lowering.launch("choose_experts", "experts.cuh", "choose_experts", choice, min(rows, _MOST_BLOCKS))
    sizes: list[Parameter] = [("Size rows", rows), ("Size top", top), ("Size inner", inner), ("Size width", width)]
    first: list[Parameter] = [("const Int *chosen", chosen), ("Real *hidden", hidden), *sizes]
    blocks = blocks_for(32 * rows * top * inner, _MOST_BLOCKS)
    _launch(lowering, "experts_hidden", ("x", x), (("gate", "WG"), ("up", "WU")), first, blocks)
    last: list[Parameter] = [
        ("const Int *chosen", chosen), ("const Real *shares", shares), ("Real *y", lowering.out), *sizes,
    ]  # fmt: skip
    blocks = blocks_for(32 * rows * width, _MOST_BLOCKS)
    _launch(lowering, "experts_down", ("hidden", hidden), (("down", "WD"),), last, blocks)


def _launch(
    lowering: Lowering, name: str, operand: tuple[str, Buffer], weights: Sequence[tuple[str, str]],
    rest: Sequence[Parameter], blocks: int,
) -> None:  # fmt: skip
    """The kernel `name` for how the weights, (parameter, hole), are stored; the operand is quantized where it must."""
    of, x = operand
    buffers = {parameter: lowering.real(hole) for parameter, hole in weights}
    if all(buffer.element is Element.REAL for buffer in buffers.values()):
        floats: list[Parameter] = [(f"const Real *{parameter}", buffer) for parameter, buffer in buffers.items()]
        lowering.launch(name, "experts.cuh", name, [(f"const Real *{of}", x), *floats, *rest], blocks)
        return
    stored = [parameter for name_, buffer in buffers.items() for parameter in quants(name_, buffer, True)]
    names = " and ".join(lowering.value(hole).name for _, hole in weights)
    if lowering.storage.multiply is Multiply.EXACT:
        lowering.notes.append(f"{names} in Q8_0, multiplied exact")
        call = f"{name}_exact"
        exact: list[Parameter] = [(f"const Real *{of}", x), *stored, *rest]
        lowering.launch(call, "experts_exact.cuh", call, exact, blocks)
        return
    passes, suffix = (1, "") if lowering.storage.single_pass else (2, "_two_pass")
    lowering.notes.append(f"{names} in Q8_0, multiplied dp4a in {('one pass', 'two passes')[passes - 1]}")
    made = lowering.quantized("X") if of == "x" and passes == 1 else lowering.scratch_quants(passes * x.elements)
    if of != "x" or passes == 2:
        lowering.quantize(x, made)
    parameters = [*quants(of, made, True), *stored, *rest]
    lowering.launch(f"{name}_q8{suffix}", "experts_q8.cuh", f"{name}_q8<{passes}>", parameters, blocks, registers=True)
