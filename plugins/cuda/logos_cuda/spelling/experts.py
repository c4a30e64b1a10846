"""Routed experts with float weights."""

from __future__ import annotations

from logos_cuda.lowering import Lowering, Parameter, blocks_for
from logos_cuda.spelling.arithmetic import product

_MOST_BLOCKS = 65536


def moe(lowering: Lowering) -> None:
    """The router's scores, the choice of experts, their gate and up rows, their down rows."""
    rows, width, inner = (lowering.sizes[symbol] for symbol in ("t", "d", "f"))
    experts, top = lowering.sizes["EXPERTS"], lowering.sizes["TOP"]
    x = lowering.real("X")
    scores, shares = lowering.scratch(rows * experts), lowering.scratch(rows * top)
    chosen, hidden = lowering.scratch(rows * top, real=False), lowering.scratch(rows * top * inner)
    product(lowering, x, lowering.real("WR"), scores, (rows, width, experts), transposed=True)
    choice: list[Parameter] = [
        ("const Real *scores", scores), ("Int *chosen", chosen), ("Real *shares", shares),
        ("Size rows", rows), ("Size experts", experts), ("Size top", top),
    ]  # fmt: skip
    lowering.launch("choose_experts", "experts.cuh", "choose_experts", choice, min(rows, _MOST_BLOCKS))
    sizes: list[Parameter] = [("Size rows", rows), ("Size top", top), ("Size inner", inner), ("Size width", width)]
    first: list[Parameter] = [
        ("const Real *x", x), ("const Real *gate", lowering.real("WG")), ("const Real *up", lowering.real("WU")),
        ("const Int *chosen", chosen), ("Real *hidden", hidden), *sizes,
    ]  # fmt: skip
    blocks = blocks_for(32 * rows * top * inner, _MOST_BLOCKS)
    lowering.launch("experts_hidden", "experts.cuh", "experts_hidden", first, blocks)
    last: list[Parameter] = [
        ("const Real *hidden", hidden), ("const Real *down", lowering.real("WD")), ("const Int *chosen", chosen),
        ("const Real *shares", shares), ("Real *y", lowering.out), *sizes,
    ]  # fmt: skip
    lowering.launch("experts_down", "experts.cuh", "experts_down", last, blocks_for(32 * rows * width, _MOST_BLOCKS))
