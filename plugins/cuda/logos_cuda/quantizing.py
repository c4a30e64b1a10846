"""Which values a stage stores in Q8_0 beside making them, for the products by dp4a that read them so."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from logos import Node, Value
from logos_cuda.lowering import Memory
from logos_cuda.stages import Element
from logos_cuda.storage import BLOCK, Multiply

NORM, ACT = "norm-quantize", "act-quantize"
"""The steps of the core's table by which a norm, and what else makes a row, stores it in Q8_0."""

_ENDS = ("attention", "gated delta", "swiglu", "hadamard")


def quantizing_step(node: Node) -> str:
    """The step by which a stage that ends with a node stores what that makes in Q8_0; empty where none does."""
    return NORM if node.op.name == "rmsnorm" else ACT if node.op.name in _ENDS else ""


def goes_on_quantized(
    nodes: Sequence[Node], step: str, marks: Collection[str], memory: Memory
) -> tuple[Value | None, str]:
    """The value that a stage stores in Q8_0; None where it does not, with the reason where a step would have it so."""
    last = nodes[-1]
    mark = quantizing_step(last)
    if mark not in marks or last.out is None:
        return None, ""
    if not any(_takes(reader, hole, memory) for reader, hole in memory.readers.get(last.out, ())):
        return None, ""
    run = _run(last)
    if run % BLOCK:
        return None, f"not in {mark}: rows of {run} are no blocks of {BLOCK}"
    if step == "gate-up" and not all(_by_quants(node, memory) for node in nodes if node.op.name == "matmul"):
        return None, f"not in {mark}: its products are by weights of float32"
    return last.out, ""


def reads_quants_alone(value: Value, memory: Memory) -> bool:
    """Whether all that reads a value reads it in Q8_0; a moe's router reads it as it is."""
    return all(_takes(node, hole, memory) and node.op.name != "moe" for node, hole in memory.readers.get(value, ()))


def _takes(node: Node, hole: str, memory: Memory) -> bool:
    """Whether a node takes an operand as quants of one pass."""
    if node.op.name == "moe":
        return hole == "X" and memory.storage.single_pass and _by_quants(node, memory)
    return node.op.name == "matmul" and hole == "A" and _by_quants(node, memory)


def _by_quants(node: Node, memory: Memory) -> bool:
    weight = node.operands["WG" if node.op.name == "moe" else "B"]
    assert isinstance(weight, Value)
    return memory.storage.multiply is Multiply.DP4A and memory.held[weight].element is Element.QUANT


def _run(node: Node) -> int:
    """The elements that the threads of a row, or of a head, make together."""
    assert node.out is not None
    symbol = {"attention": "H", "gated delta": "HV"}.get(node.op.name)
    heads = node.sizes[symbol] if symbol else node.operands["H"] if node.op.name == "rmsnorm" else None
    return node.out.columns // heads if isinstance(heads, int) else node.out.columns
