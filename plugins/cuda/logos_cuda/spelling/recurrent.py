"""Ops that carry a state, which they write in its buffer, and the decay of a delta rule."""

from __future__ import annotations

import math

from logos_cuda.lowering import THREADS, Lowering, Parameter, arrivals, blocks_for, q8_of
from logos_cuda.spelling.rows import epsilon

_MOST_BLOCKS = 65536

_ROWS_AT_ONCE = THREADS // 32
"""Rows of a memory that a block takes at once: those of one head, where it is to norm them."""


def causal_conv(lowering: Lowering) -> None:
    """A thread a channel, over the rows of X in order."""
    taps, x = lowering.sizes["TAPS"], lowering.value("X")
    parameters: list[Parameter] = [
        ("const Real *x", lowering.real("X")), ("const Real *w", lowering.real("WC")),
        ("Real *ring", lowering.state("CS")), ("Real *y", lowering.out),
        ("Size taps", taps), ("Size columns", x.columns), ("Size steps", x.rows),
    ]  # fmt: skip
    blocks = blocks_for(x.columns)
    lowering.launch("causal_conv", "recurrent.cuh", "causal_conv", parameters, blocks, registers=True)


def decay(lowering: Lowering) -> None:
    """A thread an element; the rows of AR share a bias and a rate of one row."""
    n = lowering.value("AR").size
    parameters: list[Parameter] = [
        ("const Real *ar", lowering.real("AR")), ("const Real *dt", lowering.real("DT")),
        ("const Real *al", lowering.real("AL")), ("Real *y", lowering.out), ("Size n", n),
        ("Size period", lowering.value("DT").size),
    ]  # fmt: skip
    lowering.launch("decay", "recurrent.cuh", "decay", parameters, blocks_for(n))


def gated_delta(lowering: Lowering) -> None:
    """A warp a row of the memory, over the rows of Q in order, then a block a head for the gated norm."""
    heads, groups, width = (lowering.sizes[symbol] for symbol in ("HV", "HK", "d"))
    steps = lowering.value("Q").rows
    eps = epsilon(lowering)
    if eps is None:
        return
    o = lowering.scratch(steps * heads * width)
    rows: list[Parameter] = [
        ("const Real *q", lowering.real("Q")), ("const Real *k", lowering.real("K")),
        ("const Real *v", lowering.real("V")), ("const Real *beta", lowering.real("B")),
        ("const Real *alpha", lowering.real("A")), ("Real *memory", lowering.state("S")), ("Real *o", o),
    ]  # fmt: skip
    norm: list[Parameter] = [
        ("const Real *z", lowering.real("Z")), ("const Real *gn", lowering.real("GN")), ("Real *y", lowering.out),
        *lowering.made_quants(),
    ]  # fmt: skip
    sizes: list[Parameter] = [
        ("Size heads", heads), ("Size groups", groups), ("Size width", width), ("Size steps", steps),
        ("float scale", 1 / math.sqrt(width)),
    ]  # fmt: skip
    q8 = q8_of(lowering)
    blocks = blocks_for(32 * heads * width, _MOST_BLOCKS)
    if width % _ROWS_AT_ONCE == 0 and lowering.act("combine"):
        all_: list[Parameter] = [*rows, *norm, arrivals(heads), *sizes, ("float eps", eps)]
        header = f"delta{q8 or '_combined'}.cuh"
        lowering.launch(f"delta_combined{q8}", header, f"delta_combined{q8}", all_, blocks)
        return
    lowering.launch("delta_rows", "recurrent.cuh", "delta_rows", [*rows, *sizes], blocks)
    header = f"delta{q8}.cuh" if q8 else "recurrent.cuh"
    last: list[Parameter] = [
        ("const Real *o", o), *norm, ("Size heads", steps * heads), ("Size width", width), ("float eps", eps),
    ]  # fmt: skip
    lowering.launch(f"delta_norm{q8}", header, f"delta_norm{q8}", last, min(steps * heads, _MOST_BLOCKS))
