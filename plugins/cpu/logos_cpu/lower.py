"""From a program's graph to the calls that compute it."""

from __future__ import annotations

from collections.abc import Mapping

from logos import Graph, Leaf, Node, Unrolled, Value
from logos_cpu.lowering import Lowering, Memory
from logos_cpu.spelling import SPELLINGS
from logos_cpu.stages import Buffer, Call, Element, Stages
from logos_cpu.storage import Storage, is_transposed, op_of


def lower(graph: Graph, storage: Storage) -> Stages:
    """A program's calls, in its order. Every op has a spelling; what Q8_0 is asked of can be kept so."""
    memory = Memory(storage)
    for leaf in graph.leaves:
        memory.held[leaf.value] = _leaf(graph, leaf, memory)
    return _lower(graph, memory, memory.made)


def lower_many(unrolled: Unrolled, step: Stages, storage: Storage) -> Stages:
    """The calls of several steps at once, over the leaves and behind the buffers of a single one's."""
    stepwise = frozenset(unrolled.rows(value) for value in unrolled.stepwise)
    memory = Memory(storage, len(step.buffers), buffers=list(step.buffers), stepwise=stepwise)
    memory.tails = frozenset(unrolled.last.values())
    for leaf in unrolled.graph.leaves:
        value = leaf.value
        own = step.held.get(value)
        memory.held[value] = memory.add(Buffer(0, _element(value), *value.shape)) if own is None else own
    return _lower(unrolled.graph, memory, step.own)


def _element(value: Value) -> Element:
    return Element.REAL if value.real else Element.INT


def _leaf(graph: Graph, leaf: Leaf, memory: Memory) -> Buffer:
    value, turned = leaf.value, is_transposed(graph, leaf)
    rows, columns = (value.columns, value.rows) if turned else value.shape
    if leaf.name not in memory.storage.q8:
        return memory.add(Buffer(0, _element(value), rows, columns, transposed=turned))
    reader = graph.readers(leaf.name)[0][0]
    if op_of(reader) == "embedding":
        scales = memory.add(Buffer(0, Element.REAL, rows, columns // 32))
        return memory.add(Buffer(0, Element.QUANTS, rows, columns, scales=scales))
    groups = reader.sizes["EXPERTS"] if op_of(reader) == "moe" else 1
    return memory.add(Buffer(0, Element.TILES, rows // groups, columns, groups, transposed=turned))


def _lower(graph: Graph, memory: Memory, own: int) -> Stages:
    ends = _ends(graph)
    calls: list[Call] = []
    last: dict[int, int] = {}
    leaves = {leaf.value for leaf in graph.leaves}
    for node in graph.nodes:
        if node.out is not None:
            memory.held[node.out] = memory.take(_element(node.out), *node.out.shape)
        for hole, value in node.writes.items():
            memory.held[value] = memory.held[_operand(node, hole)]
        lowering = Lowering(node, memory)
        SPELLINGS[op_of(node)](lowering)
        calls += lowering.calls
        last[node.index] = len(calls) - 1
        for buffer in lowering.lent:
            memory.give(buffer)
        for value in ends.get(node.index, ()):
            if quants := memory.quantized.pop(value, None):
                memory.give(quants)
            if value not in leaves:
                memory.give(memory.held[value])
    return Stages(graph, tuple(calls), memory.held, tuple(memory.buffers), own, last)


def _ends(graph: Graph) -> Mapping[int, list[Value]]:
    """By a node's index, the values that nothing reads after it; states and the output are read after all."""
    states = {leaf.name for leaf in graph.states}
    final: dict[Value, int] = {}
    for node in graph.nodes:
        for value in (*node.inputs, *((node.out,) if node.out is not None else ())):
            final[value] = node.index
    found: dict[int, list[Value]] = {}
    for value, index in final.items():
        if value.name not in states and value != graph.output:
            found.setdefault(index, []).append(value)
    return found


def _operand(node: Node, hole: str) -> Value:
    operand = node.operands[hole]
    assert isinstance(operand, Value)
    return operand
