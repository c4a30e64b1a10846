"""Routed experts as calls: scores, the choice, the hidden rows of the chosen experts, and their sum."""

from __future__ import annotations

from logos_cpu.lowering import Argument, Lowering, written
from logos_cpu.stages import Element, Use


def moe(lowering: Lowering) -> None:
    """An expert's weights are read once for all rows that chose it, where they are in tiles."""
    x = lowering.value("X")
    rows, (experts, top) = lowering.rows(x), (lowering.sizes[name] for name in ("EXPERTS", "TOP"))
    slots = x.rows * top
    scores = lowering.scratch(Element.REAL, x.rows, experts)
    chosen, shares = lowering.scratch(Element.INT, 1, slots), lowering.scratch(Element.REAL, 1, slots)
    router = (lowering.real("X", None), lowering.real("WR", None), written(scores, experts))
    lowering.call("matmul.h", "matmul_rows", *router, rows, x.columns, experts)
    picks = (written(chosen, None), written(shares, None))
    lowering.call("experts.h", "choose_experts", Use(scores), *picks, rows, experts, top)
    if lowering.buffer("WG").element is Element.TILES:
        _in_tiles(lowering, Use(chosen), Use(shares), rows, slots)
    else:
        _in_floats(lowering, Use(chosen), Use(shares), rows, slots)


def _in_floats(lowering: Lowering, chosen: Use, shares: Use, rows: str, slots: int) -> None:
    inner, width, top = lowering.sizes["f"], lowering.sizes["d"], lowering.sizes["TOP"]
    hidden = lowering.scratch(Element.REAL, slots, inner)
    weights = [lowering.real(hole, None) for hole in ("X", "WG", "WU")]
    sizes = (rows, top, inner, width)
    lowering.call("experts.h", "experts_hidden", *weights, chosen, written(hidden, inner), *sizes)
    down = (Use(hidden), lowering.real("WD", None), chosen, shares, lowering.made())
    lowering.call("experts.h", "experts_down", *down, *sizes)


def _in_tiles(lowering: Lowering, chosen: Use, shares: Use, rows: str, slots: int) -> None:
    inner, width, top = lowering.sizes["f"], lowering.sizes["d"], lowering.sizes["TOP"]
    sizes: tuple[Argument, ...] = (rows, top, inner, width, lowering.sizes["EXPERTS"])
    hidden = lowering.scratch(Element.REAL, slots, inner)
    parts = lowering.scratch(Element.REAL, slots, width)
    kind, scratch = "true" if lowering.exact else "false", slots * (8 + 4 * 32)
    weights = [Use(lowering.buffer(hole)) for hole in ("WG", "WU")]
    given: tuple[Argument, ...] = (lowering.real("X", None), "Activations()")
    if not lowering.exact:
        given = ("nullptr", lowering.activations("X"))
    made = (*given, *weights, chosen, written(hidden, inner))
    lowering.call("experts.h", f"experts_hidden_q8<{kind}>", *made, *sizes, scratch=scratch)
    between: tuple[Argument, ...] = (Use(hidden), "Activations()")
    if not lowering.exact:
        quants = lowering.scratch(Element.ACTIVATIONS, slots, inner)
        lowering.quantize(Use(hidden, spread=(inner, 32)), quants, f"{rows} * {top}")
        between = ("nullptr", Use(quants))
    down = (*between, Use(lowering.buffer("WD")), chosen, written(parts, width))
    lowering.call("experts.h", f"experts_down_q8<{kind}>", *down, *sizes, scratch=scratch)
    last = (Use(parts, spread=(width, 32)), shares, lowering.made())
    lowering.call("experts.h", "experts_sum", *last, rows, top, width)
