"""Products of one row by weights as one stage with each other or with what follows them."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Node, Value
from logos_cuda.lowering import ABSENT, Lowering, Memory, Parameter, Runs, arrivals, quants
from logos_cuda.spelling.arithmetic import by_q8_rows, by_rows
from logos_cuda.spelling.chains import LONGEST, hole_of, linked
from logos_cuda.stages import Element
from logos_cuda.storage import BLOCK, Multiply

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
    """The whole group, without the sums beyond what a kernel takes; or nothing of it."""
    _, alone = gated_runs(nodes[:1], memory)
    return ((), alone) if alone else ([nodes[: LONGEST + 1]], {})


def _odd(node: Node, memory: Memory) -> str:
    """Why the kernels do not take a product; empty where they do."""
    weight = node.operands["B"]
    assert isinstance(weight, Value)
    buffer = memory.held[weight]
    if buffer.element is Element.QUANT and memory.storage.multiply is Multiply.DP4A:
        return ""
    if buffer.element is not Element.REAL:
        return f"{weight.name} is {'of Int' if buffer.element is Element.INT else 'in Q8_0, multiplied exact'}"
    return "" if buffer.transposed else f"{weight.name} is not stored as (out, in), since more than products read it"


def _by(lowering: Lowering) -> tuple[str, int, int]:
    """What a product's kernel says of its rows, the threads that share one, and the blocks: as of the product alone."""
    q8 = lowering.buffer("B").element is Element.QUANT
    by, together, blocks = (by_q8_rows if q8 else by_rows)(lowering.sizes["k"], lowering.sizes["n"])
    return by, _THREADS // together, blocks


def _row(product: Lowering) -> tuple[str, list[Parameter]]:
    """What the kernels' names say of how a product's weight is stored, and the row that is multiplied, stored alike."""
    if product.buffer("B").element is Element.QUANT:
        return "_q8", quants("x", product.quantized("A"), True)
    return "", [("const Real *x", product.real("A"))]


def _weight(product: Lowering, name: str) -> list[Parameter]:
    """A product's weight as a kernel takes it."""
    weight = product.buffer("B")
    if weight.element is not Element.QUANT:
        return [(f"const Real *{name}", weight)]
    product.notes.append(f"{product.value('B').name} in Q8_0, multiplied dp4a")
    return quants(name, weight, True)


def _launch(
    lowering: Lowering, name: str, q8: str, call: str, parameters: Sequence[Parameter], blocks: int
) -> None:
    lowering.launch(name, f"matvec{q8}_fused.cuh", call, parameters, blocks, _THREADS, registers=bool(q8))


def parts(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """Several weights, each on blocks of its own."""
    made = [lowering.beside(node) for node in nodes]
    kinds = [_by(one) for one in made]
    ways = {by: lanes for by, lanes, _ in kinds}
    by, lanes = ("mixed", 0) if len(ways) > 1 else next(iter(ways.items()))
    q8, row = _row(made[0])
    parameters: list[Parameter] = [*row, ("Size k", made[0].sizes["k"])]
    for number, (one, (_, own, blocks)) in enumerate(zip(made, kinds, strict=True)):
        parameters += [
            *_weight(one, f"w{number}"), (f"Real *y{number}", one.out),
            (f"Size n{number}", one.sizes["n"]), (f"Size blocks{number}", blocks), (f"Size lanes{number}", own),
        ]  # fmt: skip
    name, call = f"matvec{q8}_parts_{len(made)}_by_{by}", f"matvec{q8}_parts<{lanes}>"
    _launch(lowering, name, q8, call, parameters, sum(blocks for *_, blocks in kinds))


def residual(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """A product and what is done to it until the last row is added."""
    product, rest = lowering.beside(nodes[0]), nodes[1:]
    by, lanes, blocks = _by(product)
    q8, row = _row(product)
    words, steps, links = linked(lowering, rest, hole_of(rest[0], nodes[0].out))
    # Of a sum it is the same which operand is carried: one kernel serves both.
    words = [word.removesuffix("_second") for word in words]
    steps = [step.replace("true>", "false>") for step in steps]
    parameters: list[Parameter] = [
        *row, *_weight(product, "w"), ("Real *product", product.out),
        ("Size k", product.sizes["k"]), ("Size n", product.sizes["n"]), *links,
    ]  # fmt: skip
    name, call = f"matvec{q8}_{'_'.join(words)}_by_{by}", f"matvec{q8}_then<{', '.join([str(lanes), *steps])}>"
    _launch(lowering, name, q8, call, parameters, blocks)


def gate_up(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """The products by a gate and an up weight, and silu(gate) · up, by one op or by two."""
    end = lowering.beside(nodes[-1])
    silu = next((lowering.beside(node) for node in nodes if node.op.name == "silu"), None)
    gated = end.node.operands["GATE"] if silu is None else silu.node.operands["X"]
    products = [lowering.beside(node) for node in nodes if node.op.name == "matmul"]
    gate, up = sorted(products, key=lambda one: one.node.out != gated)
    by, lanes, blocks = _by(gate)
    q8, row = _row(gate)
    n = gate.sizes["n"]
    made = [ABSENT, ABSENT, ABSENT] if q8 else []
    if lowering.made is not None:
        made = [*lowering.made_quants(), arrivals(n // BLOCK)]
    parameters: list[Parameter] = [
        *row, *_weight(gate, "wg"), *_weight(up, "wu"),
        ("Real *gate", gate.out), ("Real *up", up.out), ABSENT if silu is None else ("Real *silu", silu.out),
        ("Real *y", end.out), *made, ("Size k", gate.sizes["k"]), ("Size n", n),
    ]  # fmt: skip
    quantized = ["quantized"] if lowering.made is not None else []
    name = "_".join([f"gate_up{q8}", *(["silu"] if silu is not None else []), *quantized, "by", by])
    _launch(lowering, name, q8, f"gate_up{q8}<{lanes}>", parameters, blocks)
