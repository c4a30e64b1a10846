"""Rotary embedding and attention."""

from __future__ import annotations

import math

from logos_cuda.lowering import FAULT, Lowering, Parameter, arrivals, blocks_for, q8_of
from logos_cuda.stages import Buffer, Element

WIDEST_HEAD = 512
"""Elements of a head that the attention kernel takes."""

TOGETHER = 4
"""Query heads of a group that one block takes."""

FILLING_BLOCKS = 528
"""Blocks among which the rows of K are split: four for each multiprocessor of a large device."""

SPLIT_ROWS = 32
"""Rows of K below which a split is not worth its part."""

_THREADS = 128


def rope(lowering: Lowering) -> None:
    """Each head's leading 2 · half elements turn in pairs; the rest passes through. Each of several rows has cosines
    and sines of its own."""
    q, turns = lowering.value("Q"), lowering.value("RC")
    heads, half = lowering.node.operands["H"], turns.columns
    width = q.columns // heads if isinstance(heads, int) else 2 * half
    parameters: list[Parameter] = [
        ("const Real *q", lowering.real("Q")), ("const Real *cosines", lowering.real("RC")),
        ("const Real *sines", lowering.real("RS")), ("Real *y", lowering.out),
        ("Size n", q.size), ("Size columns", q.columns), ("Size turn", half if turns.rows > 1 else 0),
        ("Size width", width), ("Size half", half),
    ]  # fmt: skip
    lowering.launch("rope", "rope.cuh", "rope", parameters, blocks_for(q.size))


def attention(lowering: Lowering) -> None:
    """Parts over the rows of K and V, then their joining. A row of Q for each of several steps has its own last row."""
    heads, groups, rows = (lowering.sizes[symbol] for symbol in ("H", "KV", "L"))
    width, steps = lowering.value("Q").columns // heads, lowering.value("Q").rows
    for hole in ("K", "V"):
        if not lowering.value(hole).real:
            lowering.refuse(f"{lowering.value(hole).name} is a table of Int; the kernel reads tables of Real")
    if width > WIDEST_HEAD:
        lowering.refuse(f"heads of {width} elements; the kernel takes up to {WIDEST_HEAD}")
    if lowering.refusals:
        return
    tiles = steps * groups * -(-(heads // groups) // TOGETHER)
    splits = _splits(tiles, rows)
    parts = _scratch(lowering, splits, steps * heads, width)
    combines = lowering.act("combine")
    _parts(lowering, parts, tiles, splits, width, combines)
    if not combines:
        _join(lowering, parts, steps * heads, splits, width)


def full_attention(lowering: Lowering) -> None:
    """As attention, but what shares the rows of K and V are the queries of one head in all rows."""
    # Of many steps each has one row: their heads lie side by side as those of one row do.
    heads, rows = lowering.sizes["H"] * lowering.sizes.get("STEPS", 1), lowering.sizes.get("T", 1)
    width = lowering.value("Q").columns // lowering.sizes["H"]
    if width > WIDEST_HEAD:
        lowering.refuse(f"heads of {width} elements; the kernel takes up to {WIDEST_HEAD}")
        return
    tiles = heads * -(-rows // TOGETHER)
    splits, lanes = _splits(tiles, rows), _lanes(width)
    values, maxima, sums = parts = _scratch(lowering, splits, heads * rows, width)
    parameters: list[Parameter] = [
        ("const Real *q", lowering.real("Q")), ("const Real *k", lowering.real("K")),
        ("const Real *v", lowering.real("V")), ("Real *values", values), ("Real *maxima", maxima),
        ("Real *sums", sums), ("Size rows", rows), ("Size heads", heads), ("Size splits", splits),
        ("Size width", width), ("float scale", 1 / math.sqrt(width)),
    ]  # fmt: skip
    name, call = f"full_attention_{16 * lanes}", f"full_attention<{lanes}>"
    lowering.launch(name, "attention.cuh", call, parameters, tiles * splits, _THREADS)
    _join(lowering, parts, heads * rows, splits, width)


def _splits(tiles: int, rows: int) -> int:
    """Parts of the rows of K, so that tiles and parts fill a device."""
    return max(1, min(-(-FILLING_BLOCKS // tiles), -(-rows // SPLIT_ROWS)))


def _lanes(width: int) -> int:
    """Threads that hold a row of a head."""
    return next(lanes for lanes in (4, 8, 16, 32) if width <= 16 * lanes)


def _scratch(lowering: Lowering, splits: int, queries: int, width: int) -> tuple[Buffer, Buffer, Buffer]:
    """The parts' values, maxima and sums."""
    return (lowering.scratch(splits * queries * width), lowering.scratch(splits * queries),
            lowering.scratch(splits * queries))  # fmt: skip


def _join(lowering: Lowering, parts: tuple[Buffer, ...], queries: int, splits: int, width: int) -> None:
    values, maxima, sums = parts
    parameters: list[Parameter] = [
        ("const Real *values", values), ("const Real *maxima", maxima), ("const Real *sums", sums),
        ("Real *y", lowering.out), *lowering.made_quants(),
        ("Size heads", queries), ("Size splits", splits), ("Size width", width),
    ]  # fmt: skip
    name, header = f"attention_join{q8_of(lowering)}", f"attention{q8_of(lowering)}.cuh"
    lowering.launch(name, header, name, parameters, min(queries, 65536), _THREADS)


def _parts(
    lowering: Lowering, parts: tuple[Buffer, ...], tiles: int, splits: int, width: int, combines: bool
) -> None:
    """The parts; where it `combines`, the block that makes the last of a tile's joins them."""
    heads, groups, rows = (lowering.sizes[symbol] for symbol in ("H", "KV", "L"))
    lanes = _lanes(width)
    bounded = lowering.node.operands["P"] is not None
    values, maxima, sums = parts
    k, v = lowering.buffer("K"), lowering.buffer("V")
    kind, suffix = (k.element.value, "_half") if k.element is Element.HALF else ("Real", "")
    parameters: list[Parameter] = [
        ("const Real *q", lowering.real("Q")), (f"const {kind} *k", k), (f"const {kind} *v", v),
        *([("const Int *last", lowering.buffer("P"))] if bounded else []),
        ("Real *values", values), ("Real *maxima", maxima), ("Real *sums", sums),
        *([("Real *y", lowering.out), *lowering.made_quants(), arrivals(tiles)] if combines else []),
        *([FAULT] if bounded else []),
        ("Size rows", rows), ("Size groups", groups), ("Size heads", heads // groups), ("Size splits", splits),
        *([("Size steps", lowering.value("Q").rows)] if bounded else []),
        ("Size width", width), ("float scale", 1 / math.sqrt(width)),
    ]  # fmt: skip
    name, ending, header = "attention_up_to" if bounded else "attention", "", "attention.cuh"
    if combines:
        ending, header = f"_combined{q8_of(lowering)}", f"attention{q8_of(lowering) or '_combined'}.cuh"
    call = f"{name}{ending}<{lanes}>"
    lowering.launch(f"{name}_{16 * lanes}{suffix}{ending}", header, call, parameters, tiles * splits, _THREADS)
