"""From a program's graph to the stages that compute it."""

from __future__ import annotations

from collections.abc import Mapping

from logos import Graph, Leaf, MoeWeights, Q8Reference, Value
from logos_cuda.lowering import Lowering, Memory
from logos_cuda.spelling.table import SPELLINGS
from logos_cuda.stages import ForwardError, ForwardGraph, Stage, StageRefusal


def forward_graph(
    graph: Graph, q8: Mapping[str, Q8Reference] | None = None, moe: Mapping[str, MoeWeights] | None = None
) -> ForwardGraph:
    """The stages of a program, in dataflow order, and its buffers.

    `q8` are weights stored in Q8_0, by variable, and `moe` the weights of routed experts, by the moe's output.
    Raises ForwardError with everything that no kernel takes: an op, a shape beyond a kernel's limits, a dtype.
    """
    memory = _memory(graph)
    stages: list[Stage] = []
    refusals: list[StageRefusal] = []
    for node in graph.nodes:
        if node.out is not None:
            memory.hold(node.out)
        for hole, value in node.writes.items():
            memory.held[value] = memory.held[_operand(node.operands[hole])]
        lowering = Lowering(node, memory)
        spelling = SPELLINGS.get(node.op.name)
        stored = sorted({value.name for value in node.inputs if value.name in (q8 or {})})
        if spelling is None:
            lowering.refuse("no kernel computes it")
        elif stored:
            lowering.refuse(f"no kernel reads {' and '.join(stored)} in Q8_0")
        else:
            spelling(lowering)
        refusals += lowering.refusals
        stages.append(Stage((node,), tuple(lowering.launches)))
    if refusals:
        raise ForwardError(tuple(refusals))
    return ForwardGraph(graph, tuple(stages), memory.held, tuple(memory.scratch.values()))


def collect_inits(graph: Graph) -> dict[str, list[tuple[int, int | float]]]:
    """What a program fills, by variable: (index from 0, row-major, and the value), in order of index."""
    return {leaf.name: sorted(leaf.fills) for leaf in graph.leaves if leaf.fills}


def _memory(graph: Graph) -> Memory:
    memory = Memory()
    for leaf in graph.leaves:
        memory.hold(leaf.value, transposed=_is_transposed(graph, leaf))
    return memory


def _is_transposed(graph: Graph, leaf: Leaf) -> bool:
    """Whether a leaf is read only as a matmul's B: then rows of its transpose are what each result reads."""
    readers = graph.readers(leaf.name)
    only = all(node.op.name == "matmul" and hole == "B" for node, hole in readers)
    return leaf.value.real and not leaf.state and bool(readers) and only


def _operand(operand: object) -> Value:
    assert isinstance(operand, Value)
    return operand
