"""The work of a stage: the bytes that must come from memory whatever else, and the multiplications and additions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from logos import Node, Value, Work
from logos_cuda.stages import Buffer, Element, ForwardGraph

_BYTES = {Element.REAL: 4.0, Element.INT: 8.0, Element.QUANT: 1.0, Element.HALF: 2.0}
"""Bytes of an element; quants have scales beside them."""

Share = Callable[[Node], Iterable[tuple[Value, float]]]


def bytes_of(buffer: Buffer) -> float:
    """A buffer's bytes, with those of its scales."""
    return buffer.elements * _BYTES[buffer.element] + (0.0 if buffer.scales is None else bytes_of(buffer.scales))


def work_of(graph: ForwardGraph, nodes: Sequence[Node], read: Share, written: Share) -> Work:
    """The work of nodes that act as one; `read` and `written` are the values that a node touches, and how much of each.
    What a stage makes and reads itself, and rows between stages, stay in a cache and are no work."""
    states = {leaf.name for leaf in graph.graph.states}
    inputs = {leaf.name for leaf in graph.graph.leaves if not leaf.value.real and leaf.value.size == 1}
    weights, kept, cached = dict[Buffer, float](), 0.0, 0.0
    for node in nodes:
        for value, share in read(node):
            buffer = graph.held[value]
            if value.name in states:
                rows = value.rows if _attends(node, value) else 0
                cached += bytes_of(buffer) / rows if rows else 0.0
                kept += 0.0 if rows else share * bytes_of(buffer)
            elif graph.graph.producer(value) is None and value.name not in inputs:
                weights[buffer] = max(share, weights.get(buffer, 0.0))
        kept += sum(share * bytes_of(graph.held[value]) for value, share in written(node) if value.name in states)
    flops, more = (sum(counts) for counts in zip(*map(_flops, nodes), strict=True))
    read_ = sum(share * bytes_of(buffer) for buffer, share in weights.items())
    return Work(round(read_), round(kept), round(cached), flops, more)


def _attends(node: Node, value: Value) -> bool:
    return node.op.name.startswith("attention") and value in (node.operands["K"], node.operands["V"])


def _flops(node: Node) -> tuple[int, int]:
    """Multiplications and additions; and for each position that is attended to. Elementwise functions count as one."""
    s = node.sizes
    op = node.op.name.removesuffix(" rows")
    size = 0 if node.out is None else node.out.size
    if op == "attention":
        return 0, 4 * size
    if op == "gated delta":
        return 8 * size * s["d"], 0
    known: Mapping[str, Callable[[], int]] = {
        "matmul": lambda: 2 * s["m"] * s["k"] * s["n"],
        "moe": lambda: 2 * s["t"] * s["d"] * (s["EXPERTS"] + 3 * s["TOP"] * s["f"]),
        "causal conv": lambda: 2 * size * s["TAPS"],
        "full attention": lambda: 4 * size * s["T"],
    }
    return known[op]() if op in known else _PER_ELEMENT.get(op, 1) * size, 0


_PER_ELEMENT = {"embedding": 0, "set row": 0, "transpose": 0, "rmsnorm": 4, "layernorm": 6, "l2norm": 3, "rope": 3}
"""Operations for each element that an op makes, where they are not one."""
