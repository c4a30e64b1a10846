"""Routed experts: float weights, or weights in Q8_0 by either way to multiply."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Node, Value
from logos_cuda.lowering import ABSENT, Lowering, Memory, Parameter, Runs, arrivals, blocks_for, quants
from logos_cuda.spelling.arithmetic import by_rows, product
from logos_cuda.stages import Buffer, Element
from logos_cuda.storage import BLOCK, EXPERTS, Multiply

_MOST_BLOCKS = 65536
_THREADS = 128


def moe(lowering: Lowering) -> None:
    """The router's scores, the choice of experts, their gate and up rows, their down rows."""
    _moe(lowering, None)


def router_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """The whole group, where the kernel takes the shared expert's gate beside the router; or nothing of it."""
    routed, gate = (next(node for node in nodes if node.op.name == name) for name in ("moe", "matmul"))
    weight, router = gate.operands["B"], routed.operands["WR"]
    assert isinstance(weight, Value)
    assert isinstance(router, Value)
    buffers = memory.held[weight], memory.held[router]
    why = ""
    if any(buffer.element is not Element.REAL for buffer in buffers) or not buffers[0].transposed:
        why = f"{weight.name} and {router.name} are not both rows of float32"
    elif by_rows(gate.sizes["k"], 1)[0] != by_rows(gate.sizes["k"], routed.sizes["EXPERTS"])[0]:
        why = f"{weight.name} and {router.name} are not summed alike"
    return ((), {node.index: why for node in nodes}) if why else ([nodes], {})


def routed(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """Routed experts with the gate of a shared expert: its product and the sigmoid."""
    moe, product, sigmoid = (
        next(lowering.beside(node) for node in nodes if node.op.name == name) for name in ("moe", "matmul", "sigmoid")
    )
    _moe(moe, (product, sigmoid))


def _moe(lowering: Lowering, gate: tuple[Lowering, Lowering] | None) -> None:
    rows, width, inner = (lowering.sizes[symbol] for symbol in ("t", "d", "f"))
    top = lowering.sizes["TOP"]
    x = lowering.real("X")
    if lowering.buffer("WG").element is not lowering.buffer("WU").element:
        lowering.refuse("its gate and up rows are not stored alike")
        return
    scores, shares = lowering.scratch(rows * lowering.sizes["EXPERTS"]), lowering.scratch(rows * top)
    chosen, hidden = lowering.scratch(rows * top, real=False), lowering.scratch(rows * top * inner)
    _choose(lowering, x, (scores, chosen, shares), gate)
    sizes: list[Parameter] = [("Size rows", rows), ("Size top", top), ("Size inner", inner), ("Size width", width)]
    first: list[Parameter] = [("const Int *chosen", chosen), ("Real *hidden", hidden)]
    made = _hidden_quants(lowering, hidden)
    if made is not None:
        first += [*quants("made", made), arrivals(hidden.elements // BLOCK)]
    blocks = blocks_for(32 * rows * top * inner, _MOST_BLOCKS)
    ending = "" if made is None else "_quantized"
    _launch(lowering, "experts_hidden", ("x", x), (("gate", "WG"), ("up", "WU")), [*first, *sizes], blocks, ending)
    last: list[Parameter] = [
        ("const Int *chosen", chosen), ("const Real *shares", shares), ("Real *y", lowering.out), *sizes,
    ]  # fmt: skip
    blocks = blocks_for(32 * rows * width, _MOST_BLOCKS)
    _launch(lowering, "experts_down", ("hidden", hidden), (("down", "WD"),), last, blocks, made=made)


def _choose(
    lowering: Lowering, x: Buffer, into: tuple[Buffer, Buffer, Buffer], gate: tuple[Lowering, Lowering] | None
) -> None:
    """The scores and the choice, in one launch where the step `router` acts."""
    rows, width, experts, top = (lowering.sizes[symbol] for symbol in ("t", "d", "EXPERTS", "TOP"))
    scores, chosen, shares = into
    weight = lowering.real("WR")
    sizes: list[Parameter] = [("Size experts", experts), ("Size top", top)]
    if gate is None and not (rows == 1 and lowering.act("router")):
        product(lowering, x, weight, scores, (rows, width, experts), transposed=True)
        choice: list[Parameter] = [
            ("const Real *scores", scores), ("Int *chosen", chosen), ("Real *shares", shares), ("Size rows", rows),
        ]  # fmt: skip
        blocks = min(rows, _MOST_BLOCKS)
        lowering.launch("choose_experts", "experts.cuh", "choose_experts", [*choice, *sizes], blocks, _THREADS)
        return
    by, together, blocks = by_rows(width, experts + (gate is not None))
    parameters: list[Parameter] = [
        ("const Real *x", x), ("const Real *w", weight),
        ABSENT if gate is None else ("const Real *shared", gate[0].buffer("B")),
        ("Real *scores", scores), ("Int *chosen", chosen), ("Real *shares", shares),
        ABSENT if gate is None else ("Real *product", gate[0].out),
        ABSENT if gate is None else ("Real *gate", gate[1].out),
        arrivals(1), ("Size width", width), *sizes,
    ]  # fmt: skip
    name = f"router{'' if gate is None else '_gate'}_by_{by}"
    call = f"router<{_THREADS // together}>"
    lowering.launch(name, "router.cuh", call, parameters, blocks, _THREADS, registers=True)


def _hidden_quants(lowering: Lowering, hidden: Buffer) -> Buffer | None:
    """Where the hidden rows go in Q8_0 as they are made; None where another launch quantizes them."""
    stored = all(lowering.buffer(hole).element is Element.QUANT for hole in EXPERTS)
    by_quants = stored and lowering.storage.multiply is Multiply.DP4A and lowering.storage.single_pass
    return lowering.scratch_quants(hidden.elements) if by_quants and lowering.act("act-quantize") else None


def _launch(
    lowering: Lowering, name: str, operand: tuple[str, Buffer], weights: Sequence[tuple[str, str]],
    rest: Sequence[Parameter], blocks: int, ending: str = "", made: Buffer | None = None,
) -> None:  # fmt: skip
    """The kernel `name` for how the weights, (parameter, hole), are stored; the operand is quantized where it must and
    `made` does not have it so. `ending` is of a kernel that quantizes what it makes."""
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
        lowering.launch(call, "experts_exact.cuh", call, exact, blocks, registers=True)
        return
    passes, suffix = (1, "") if lowering.storage.single_pass else (2, "_two_pass")
    lowering.notes.append(f"{names} in Q8_0, multiplied dp4a in {('one pass', 'two passes')[passes - 1]}")
    if made is None and of == "x" and passes == 1:
        made = lowering.quantized("X")
    elif made is None:
        made = lowering.scratch_quants(passes * x.elements)
        lowering.quantize(x, made)
    parameters = [*quants(of, made, True), *stored, *rest]
    if ending:
        name = f"{name}{ending}"
        lowering.launch(name, f"experts{ending}.cuh", name, parameters, blocks, registers=True)
        return
    lowering.launch(f"{name}_q8{suffix}", "experts_q8.cuh", f"{name}_q8<{passes}>", parameters, blocks, registers=True)
