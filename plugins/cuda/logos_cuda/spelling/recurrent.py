"""Ops that carry a state, which they write in its buffer, and the decay of a delta rule."""

from __future__ import annotations

import math

from logos_cuda.lowering import Lowering, Parameter, blocks_for
from logos_cuda.spelling.rows import epsilon

_MOST_BLOCKS = 65536


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
    parameters: list[Parameter] = [
        ("const Real *q", lowering.real("Q")), ("const Real *k", lowering.real("K")),
        ("const Real *v", lowering.real("V")), ("const Real *beta", lowering.real("B")),
        ("const Real *alpha", lowering.real("A")), ("Real *memory", lowering.state("S")), ("Real *o", o),
        ("Size heads", heads), ("Size groups", groups), ("Size width", width), ("Size steps", steps),
        ("float scale", 1 / math.sqrt(width)),
    ]  # fmt: skip
    blocks = blocks_for(32 * heads * width, _MOST_BLOCKS)
    lowering.launch("delta_rows", "recurrent.cuh", "delta_rows", parameters, blocks)
    norm: list[Parameter] = [
        ("const Real *o", o), ("const Real *z", lowering.real("Z")), ("const Real *gn", lowering.real("GN")),
        ("Real *y", lowering.out), ("Size heads", steps * heads), ("Size width", width), ("float eps", eps),
    ]  # fmt: skip
    lowering.launch("delta_norm", "recurrent.cuh", "delta_norm", norm, min(steps * heads, _MOST_BLOCKS))
