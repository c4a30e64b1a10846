"""Which operations become one stage: the groups of the core's fusion table, as far as kernels take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logos import Graph, Node, Value, plan_fusion
from logos_cuda.lowering import Lowering, Memory, Runs
from logos_cuda.quantizing import ACT, NORM, goes_on_quantized, reads_quants_alone
from logos_cuda.spelling import chains, experts, inputs, products
from logos_cuda.storage import Multiply

COMBINE = "combine"


@dataclass(frozen=True, slots=True)
class Piece:
    """Operations that become one stage: one alone, or several by a step, in program order. `inner` are their values
    that nothing else reads; `note` says why an operation that a step would join stands alone. `marks` are the steps
    that mark it, and `quantized` is the value that it stores in Q8_0."""

    nodes: tuple[Node, ...]
    step: str = ""
    inner: frozenset[Value] = field(default=frozenset())
    note: str = ""
    marks: frozenset[str] = field(default=frozenset())
    quantized: Value | None = None


@dataclass(frozen=True, slots=True)
class Fused:
    """A step of the core's table as this target takes it.

    runs   the nodes of a group, in runs that one stage computes each, and why those that are in none stand alone
    spell  adds a run's launches
    """

    runs: Callable[[Sequence[Node], Memory], Runs]
    spell: Callable[[Lowering, Sequence[Node]], None]


FUSED: dict[str, Fused] = {
    "gate-up": Fused(products.gated_runs, products.gate_up),
    "norm-rope-append": Fused(inputs.input_runs, inputs.append_heads),
    "delta-inputs": Fused(inputs.input_runs, inputs.delta_inputs),
    "qkv": Fused(products.product_runs, products.parts),
    "residual": Fused(products.residual_runs, products.residual),
    "add-norm": Fused(chains.norm_runs, chains.add_norm),
    "chain": Fused(chains.chain_runs, chains.chain),
    "router": Fused(experts.router_runs, experts.routed),
}

FUSES: tuple[str, ...] = (*FUSED, COMBINE, NORM, ACT)
"""The steps of the core's table that the target takes."""


def pieces(graph: Graph, memory: Memory, held: Collection[str]) -> Iterator[Piece]:
    """The operations of a graph as stages, in an order in which they may run. `memory` holds the leaves' buffers;
    `held` are steps that are not to act."""

    def stored(variable: str) -> str:
        return "q8_0" if variable in memory.storage.q8 else "float32"

    idle = () if memory.storage.multiply is Multiply.DP4A else (NORM, ACT)
    for group in plan_fusion(graph, FUSES, [*idle, *(step for step in held if step in FUSES)], stored):
        marks = frozenset(group.steps)
        if len(group.nodes) == 1:
            yield _marked(Piece(group.nodes, marks=marks), graph, memory)
            continue
        step = group.steps[0]
        runs, alone = FUSED[step].runs(group.nodes, memory)
        for piece in _pieces(group.nodes, step, runs, alone, group.inner):
            yield _marked(replace(piece, marks=marks), graph, memory)


def _marked(piece: Piece, graph: Graph, memory: Memory) -> Piece:
    """A piece with what it stores in Q8_0. A value that is read so alone takes no memory as it is, but for one that
    several blocks make."""
    value, why = goes_on_quantized(piece.nodes, piece.step, piece.marks, memory)
    if value is None:
        return replace(piece, note=piece.note or why)
    alone = piece.step != "gate-up" and value != graph.output and reads_quants_alone(value, memory)
    return replace(piece, quantized=value, inner=piece.inner | {value} if alone else piece.inner)


def _pieces(
    nodes: Sequence[Node], step: str, runs: Iterable[Sequence[Node]], alone: Mapping[int, str], inner: Iterable[Value]
) -> Iterator[Piece]:
    """A group's pieces, each where its last node stands: what it reads is above that."""
    found = {run[-1].index: tuple(run) for run in runs if len(run) > 1}
    taken = {node.index for run in found.values() for node in run}
    for node in nodes:
        if node.index in found:
            run = found[node.index]
            yield Piece(run, step, frozenset(_inside(run, inner)))
        elif node.index not in taken:
            why = alone.get(node.index, "")
            yield Piece((node,), note=f"not in {step}: {why}" if why else "")


def _inside(run: Sequence[Node], inner: Iterable[Value]) -> Iterator[Value]:
    """The inner values that the run itself makes and reads."""
    read = {value for node in run for value in node.inputs}
    made = {node.out for node in run}
    yield from (value for value in inner if value in read and value in made)
