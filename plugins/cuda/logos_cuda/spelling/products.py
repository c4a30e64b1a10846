"""Products of one row by weights as one stage with each other or with what follows them."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Node, Value
from logos_cuda.lowering import ABSENT, Lowering, Memory, Parameter, Runs
from logos_cuda.spelling.arithmetic import by_rows
from logos_cuda.stages import Element

MOST_PARTS = 8
"""Weights that one launch takes: a block looks through them for its own."""

_THREADS = 128


def product_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """Runs of MOST_PARTS of the products that the kernel takes."""
    alone = {node.index: why for node in nodes if (why := _odd(node, memory))}
    taken = [node for node in nodes if node.index not in alone]
    return [taken[start : start + MOST_PARTS] for start in range(0, len(taken), MOST_PARTS)], alone


def gated_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """The whole group, or nothing of it."""
    why = [odd for node in nodes if node.op.name == "matmul" and (odd := _odd(node, memory))]
    return ((), {node.index: why[0] for node in nodes}) if why else ([nodes], {})


def residual_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """The whole group, or nothing of it."""
    return gated_runs(nodes, memory)


def _odd(node: Node, memory: Memory) -> str:
    """Why the kernels do not take a product; empty where they do."""
    weight = node.operands["B"]
    assert isinstance(weight, Value)
    buffer = memory.held[weight]
    if buffer.element is not Element.REAL:
        return f"{weight.name} is {'of Int' if buffer.element is Element.INT else 'in Q8_0'}"
    return "" if buffer.transposed else f"{weight.name} is not stored as (out, in), since more than products read it"


def _by(lowering: Lowering) -> tuple[str, int, int]:
    """What a product's kernel says of its rows, the threads that share one, and the blocks: as of the product alone."""
    by, together, blocks = by_rows(lowering.sizes["k"], lowering.sizes["n"])
    return by, _THREADS // together, blocks


def parts(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """Several weights, each on blocks of its own."""
    made = [lowering.beside(node) for node in nodes]
    kinds = [_by(one) for one in made]
    ways = {by: lanes for by, lanes, _ in kinds}
    by, lanes = ("mixed", 0) if len(ways) > 1 else next(iter(ways.items()))
    parameters: list[Parameter] = [("const Real *x", made[0].real("A")), ("Size k", made[0].sizes["k"])]
    for number, (one, (_, own, blocks)) in enumerate(zip(made, kinds, strict=True)):
        parameters += [
            (f"const Real *w{number}", one.buffer("B")), (f"Real *y{number}", one.out),
            (f"Size n{number}", one.sizes["n"]), (f"Size blocks{number}", blocks), (f"Size lanes{number}", own),
        ]  # fmt: skip
    name, call = f"matvec_parts_{len(made)}_by_{by}", f"matvec_parts<{lanes}>"
    lowering.launch(name, "matvec_fused.cuh", call, parameters, sum(blocks for *_, blocks in kinds), _THREADS)


def residual(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """A product and the row that is added to it."""
    product, plus = (lowering.beside(node) for node in nodes)
    other = next(hole for hole in ("A", "B") if plus.node.operands[hole] != product.node.out)
    by, lanes, blocks = _by(product)
    parameters: list[Parameter] = [
        ("const Real *x", product.real("A")), ("const Real *w", product.buffer("B")),
        ("const Real *more", plus.real(other)), ("Real *product", product.out), ("Real *y", plus.out),
        ("Size k", product.sizes["k"]), ("Size n", product.sizes["n"]),
    ]  # fmt: skip
    name, call = f"matvec_plus_by_{by}", f"matvec_plus<{lanes}>"
    lowering.launch(name, "matvec_fused.cuh", call, parameters, blocks, _THREADS)


def gate_up(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """The products by a gate and an up weight, and silu(gate) · up, by one op or by two."""
    end = lowering.beside(nodes[-1])
    silu = next((lowering.beside(node) for node in nodes if node.op.name == "silu"), None)
    gated = end.node.operands["GATE"] if silu is None else silu.node.operands["X"]
    products = [lowering.beside(node) for node in nodes if node.op.name == "matmul"]
    gate, up = sorted(products, key=lambda one: one.node.out != gated)
    by, lanes, blocks = _by(gate)
    parameters: list[Parameter] = [
        ("const Real *x", gate.real("A")), ("const Real *wg", gate.buffer("B")), ("const Real *wu", up.buffer("B")),
        ("Real *gate", gate.out), ("Real *up", up.out), ABSENT if silu is None else ("Real *silu", silu.out),
        ("Real *y", end.out), ("Size k", gate.sizes["k"]), ("Size n", gate.sizes["n"]),
    ]  # fmt: skip
    name = "_".join(["gate_up", *(["silu"] if silu is not None else []), "by", by])
    lowering.launch(name, "matvec_fused.cuh", f"gate_up<{lanes}>", parameters, blocks, _THREADS)
