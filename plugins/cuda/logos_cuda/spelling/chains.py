"""Elementwise ops one after another as one stage, and a sum with the norm of it."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Node, Value
from logos_cuda.lowering import ABSENT, Lowering, Memory, Parameter, Runs, blocks_for, q8_of
from logos_cuda.spelling.rows import epsilon, runs_of, shape_of

LONGEST = 16
"""Ops of one chain kernel: each adds two pointers to its registers."""


def chain_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """Runs of LONGEST. Of Int none: each op tells its own overflow."""
    if any(node.out is None or not node.out.real for node in nodes):
        return (), {node.index: "an op of Int tells its own overflow" for node in nodes}
    return [nodes[start : start + LONGEST] for start in range(0, len(nodes), LONGEST)], {}


def norm_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """The whole group."""
    return chain_runs(nodes, memory)


def chain(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """One kernel for each distinct run of functions, the first op's first operand carried from then on."""
    first = lowering.beside(nodes[0])
    hole = _first_hole(nodes[0])
    start = first.value(hole)
    words, steps, links = linked(lowering, nodes, hole)
    q8 = q8_of(lowering)
    parameters: list[Parameter] = [
        *lowering.made_quants(), ("Size n", start.size), ("Size columns", start.columns),
        ("const Real *x", first.real(hole)), *links,
    ]  # fmt: skip
    call = f"chain{q8}<{', '.join(steps)}>"
    name = "_".join(["chain", *words]) + q8
    lowering.launch(name, f"chain{q8}.cuh", call, parameters, blocks_for(-(-start.size // 4)))


def linked(
    lowering: Lowering, nodes: Sequence[Node], carried: str
) -> tuple[list[str], list[str], list[Parameter]]:
    """Ops of which each carries on what the one before made, the first what comes in by its hole `carried`: their words
    in a kernel's name, their types, and the parameters of their other operands and of what they make."""
    links: list[Parameter] = []
    words, steps = [], []
    for number, node in enumerate(nodes):
        of = lowering.beside(node)
        word, step, other = _step(of, carried)
        words.append(word)
        steps.append(step)
        links.append(ABSENT if other is None else (f"const Real *b{number}", of.real(other)))
        links.append((f"Real *y{number}", of.out))
        carried = hole_of(nodes[number + 1], node.out) if number + 1 < len(nodes) else ""
    return words, steps, links


def _first_hole(node: Node) -> str:
    return next(iter(node.op.tensors))


def hole_of(node: Node, value: Value | None) -> str:
    return next(hole for hole, operand in node.operands.items() if operand == value)


def _step(lowering: Lowering, carried: str) -> tuple[str, str, str | None]:
    """An op of a chain: its word in the kernel's name, its type, and the hole of its other operand."""
    op = lowering.node.op.name
    others = [hole for hole in lowering.node.op.tensors if hole != carried]
    if not others:
        return op, f"Unary<{op.capitalize()}>", None
    (other,) = others
    whole, b = lowering.value(carried), lowering.value(other)
    spread = "same" if whole.shape == b.shape else "scalar" if b.size == 1 else "row"
    second = carried != _first_hole(lowering.node)
    word = "_".join([op, *([spread] if spread != "same" else []), *(["second"] if second else [])])
    return word, f"Binary<{op.capitalize()}, {spread.upper()}, {str(second).lower()}>", other


def add_norm(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """The norm of a sum, which is stored where something else reads it."""
    added, norm = (lowering.beside(node) for node in nodes)
    eps = epsilon(norm)
    if eps is None:
        return
    rows, columns = runs_of(norm)
    width, lanes, blocks = shape_of(rows, columns)
    parameters: list[Parameter] = [
        ("const Real *a", added.real("A")), ("const Real *b", added.real("B")), ("const Real *w", norm.real("W")),
        ("Real *sum", added.out), ("Real *y", norm.out), *lowering.made_quants(),
        ("Size rows", rows), ("Size columns", columns), ("float eps", eps),
    ]  # fmt: skip
    q8 = q8_of(lowering)
    name, call = f"add_rmsnorm_{width}{q8}", f"add_rmsnorm{q8}<{lanes}>"
    lowering.launch(name, f"rmsnorm{q8}.cuh", call, parameters, blocks, registers=bool(q8))
