"""What the stages of a program read and write, and the memory that they take, for `logos explain`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logos import Binding, DevicePlan, DeviceStage, Node, Value
from logos_cuda.cards import CARDS
from logos_cuda.generate import Generation
from logos_cuda.stages import Buffer, ForwardGraph, Stage
from logos_cuda.work import bytes_of, work_of


def device_plan(graph: ForwardGraph, binding: Binding) -> DevicePlan:
    """The stages with the bytes of the program's values that they touch: a value once a stage, of a table the rows that
    are read, of experts those that are chosen. Scratch is left out of them."""
    stages = tuple(_stage(graph, stage) for stage in graph.stages)
    return DevicePlan(stages, tuple(_memory(graph, binding)), cards=CARDS)


def _stage(graph: ForwardGraph, stage: Stage) -> DeviceStage:
    made = {value for node in stage.nodes for value in node.results}
    inner = tuple(value for node in stage.nodes for value in node.results if graph.held[value].inner)
    reads: dict[Buffer, float] = {}
    for node in stage.nodes:
        for value, share in touched(node):
            if value not in made:
                reads[graph.held[value]] = max(share, reads.get(graph.held[value], 0.0))
    writes = {graph.held[value]: share for node in stage.nodes for value, share in _written(node) if value not in inner}
    names = tuple(launch.kernel.name.removesuffix("_kernel") for launch in stage.launches)
    indexes = tuple(node.index for node in stage.nodes)
    sums = _sum(reads.items()), _sum(writes.items())
    work = work_of(graph, stage.nodes, touched, _written)
    return DeviceStage(indexes, names, *sums, stage.step, inner, stage.notes, stage.marks, work)


def touched(node: Node) -> Iterator[tuple[Value, float]]:
    """The values that a node reads, and how much of each."""
    tables = {node.op.table(hole) for hole in node.op.indexes} if node.op.name in ("embedding", "set row") else set()
    for hole, value in node.operands.items():
        if not isinstance(value, Value):
            continue
        if hole in tables:
            # A row that is set replaces what was there.
            if hole not in node.writes:
                yield value, 1 / value.rows
        elif node.op.name == "moe" and hole in ("WG", "WU", "WD"):
            yield value, min(1.0, node.sizes["t"] * node.sizes["TOP"] / node.sizes["EXPERTS"])
        else:
            yield value, 1.0


def _written(node: Node) -> Iterator[tuple[Value, float]]:
    if node.out is not None:
        yield node.out, 1.0
    for value in node.writes.values():
        yield value, 1 / value.rows if node.op.name == "set row" else 1.0


def _sum(shares: Iterable[tuple[Buffer, float]]) -> int:
    return round(sum(share * bytes_of(buffer) for buffer, share in shares))


def prompt_memory(graph: ForwardGraph, made: Generation) -> Iterator[tuple[str, int]]:
    """What the steps of a prompt that are made at once take beside those of a single step: every row between stages."""
    if made.many is not None:
        own = set(graph.scratch)
        more = {buffer: 1.0 for buffer in made.step.scratch if buffer not in own and not buffer.inner}
        yield "many steps of a prompt at once", _sum(more.items())


def _memory(graph: ForwardGraph, binding: Binding) -> Iterator[tuple[str, int]]:
    leaves = {bound.leaf.value: bound.role.value for bound in binding.leaves}
    attended = {node.operands[hole] for node in graph.graph.nodes if node.op.name == "attention" for hole in "KV"}
    tables = {value.name for value in attended if isinstance(value, Value)}
    leaves |= {leaf.value: "keys and values" for leaf in graph.graph.states if leaf.name in tables}
    classes: dict[str, dict[Buffer, float]] = {}
    for value, buffer in graph.held.items():
        role = leaves.get(value, "where they are read out" if buffer.inner else "computed")
        if buffer.value == value:
            classes.setdefault(role, {})[buffer] = 1.0
    for buffer in graph.scratch:
        classes.setdefault("scratch", {})[buffer] = 1.0
    yield from ((role, _sum(buffers.items())) for role, buffers in classes.items())
