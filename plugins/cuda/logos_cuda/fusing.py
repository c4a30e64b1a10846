"""Which operations become one stage: the groups of the core's fusion table, as far as kernels take them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logos import Graph, Node, Value, plan_fusion
from logos_cuda.lowering import Lowering, Memory, Runs
from logos_cuda.spelling import chains, inputs, products


@dataclass(frozen=True, slots=True)
class Piece:
    """Operations that become one stage: one alone, or several by a step, in program order. `inner` are their values
    that nothing else reads; `note` says why an operation that a step would join stands alone."""

    nodes: tuple[Node, ...]
    step: str = ""
    inner: frozenset[Value] = field(default=frozenset())
    note: str = ""


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
}

FUSES: tuple[str, ...] = tuple(FUSED)
"""The steps of the core's table that the target takes."""


def pieces(graph: Graph, memory: Memory, held: Collection[str]) -> Iterator[Piece]:
    """The operations of a graph as stages, in an order in which they may run. `memory` holds the leaves' buffers;
    `held` are steps that are not to act."""

    def stored(variable: str) -> str:
        return "q8_0" if variable in memory.storage.q8 else "float32"

    for group in plan_fusion(graph, FUSES, [step for step in held if step in FUSED], stored):
        if len(group.nodes) == 1:
            yield Piece(group.nodes)
            continue
        step = group.steps[0]
        runs, alone = FUSED[step].runs(group.nodes, memory)
        yield from _pieces(group.nodes, step, runs, alone, group.inner)


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
