"""From a program's graph to the stages that compute it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logos import Graph, MoeWeights, Node, Q8Reference, Value
from logos_cuda.fusing import FUSED, FUSES, Piece, pieces
from logos_cuda.lowering import Lowering, Memory
from logos_cuda.quantizing import quantizing_step
from logos_cuda.spelling.steps import STEPS_SPELLINGS
from logos_cuda.spelling.table import SPELLINGS
from logos_cuda.stages import Buffer, Element, ForwardError, ForwardGraph, Stage, StageRefusal
from logos_cuda.storage import EXPERTS, Multiply, Storage, half_tables, is_transposed, keeps_q8, name_of, storage_by


def forward_graph(
    graph: Graph,
    q8: Mapping[str, Q8Reference] | None = None,
    moe: Mapping[str, MoeWeights] | None = None,
    *,
    multiply: Multiply = Multiply.DP4A,
    single_pass: bool = True,
    half: bool = False,
) -> ForwardGraph:
    """The stages of a program, in dataflow order, and its buffers, with every step of fusion: see
    `forward_graph_holding`."""
    return forward_graph_holding(graph, q8, moe, multiply=multiply, single_pass=single_pass, half=half)


def forward_graph_holding(
    graph: Graph,
    q8: Mapping[str, Q8Reference] | None = None,
    moe: Mapping[str, MoeWeights] | None = None,
    held: Collection[str] = (),
    *,
    multiply: Multiply = Multiply.DP4A,
    single_pass: bool = True,
    half: bool = False,
) -> ForwardGraph:
    """The stages of a program, in dataflow order, and its buffers; the steps of fusion in `held` do not act.

    `q8` are weights stored in Q8_0, by variable, and `moe` the weights of routed experts, by the moe's output; both are
    multiplied as `multiply` says, experts in one pass of dp4a or in two. `half` keeps the tables that attention reads
    as float16. Raises ForwardError with everything that no kernel takes: an op, a shape beyond a kernel's limits, a
    dtype.
    """
    routed = [node for node in graph.nodes if node.out is not None and node.out.name in (moe or {})]
    experts = {name_of(node, hole) for node in routed for hole in EXPERTS}
    return stored_graph(graph, storage_by(frozenset({*(q8 or {}), *experts}), multiply, single_pass, half), held)


def stored_graph(
    graph: Graph, storage: Storage, held: Collection[str] = (), beside: ForwardGraph | None = None
) -> ForwardGraph:
    """The same, of a program whose weights are kept as `storage` says; leaves that `beside` has are in its buffers."""
    memory = _memory(graph, storage, beside)
    stages: list[Stage] = []
    refusals: list[StageRefusal] = []
    unread = _unread(graph, storage)
    for piece in pieces(graph, memory, held):
        for node in piece.nodes:
            _hold(node, memory, piece)
        lowering = Lowering(piece.nodes[-1], memory, piece.marks, _quants(piece, memory))
        if piece.quantized is not None:
            lowering.act(quantizing_step(piece.nodes[-1]))
        if piece.step:
            FUSED[piece.step].spell(lowering, piece.nodes)
        else:
            _spell_alone(lowering, unread)
        refusals += lowering.refusals
        notes = (*lowering.notes, *([piece.note] if piece.note else []))
        marks = tuple(step for step in FUSES if step in lowering.acted)
        stages.append(Stage(piece.nodes, tuple(lowering.launches), notes, piece.step, marks))
    if refusals:
        raise ForwardError(tuple(sorted(refusals, key=lambda refusal: refusal.statement)))
    return ForwardGraph(graph, tuple(stages), memory.held, (*memory.quantized.values(), *memory.scratch.values()))


def _hold(node: Node, memory: Memory, piece: Piece) -> None:
    """Buffers for what a node makes; a state is written in place."""
    if node.out is not None:
        memory.hold(node.out, inner=node.out in piece.inner)
    for hole, value in node.writes.items():
        memory.held[value] = memory.held[_operand(node.operands[hole])]


def _quants(piece: Piece, memory: Memory) -> Buffer | None:
    """The quants that a piece makes beside its numbers, from then on there for all that read them."""
    if piece.quantized is None:
        return None
    made = memory.quants(f"{piece.quantized.name}_q", piece.quantized.size)
    memory.quantized[piece.quantized] = made
    return made


def _spell_alone(lowering: Lowering, unread: Mapping[Value, str]) -> None:
    node = lowering.node
    spelling = SPELLINGS.get(node.op.name) or STEPS_SPELLINGS.get(node.op.name)
    odd = [unread[value] for value in dict.fromkeys(node.inputs) if value in unread]
    if spelling is None:
        lowering.refuse("no kernel computes it")
    elif odd:
        lowering.refuse(f"no kernel reads {' and '.join(odd)}")
    else:
        spelling(lowering)


def collect_inits(graph: Graph) -> dict[str, list[tuple[int, int | float]]]:
    """What a program fills, by variable: (index from 0, row-major, and the value), in order of index."""
    return {leaf.name: sorted(leaf.fills) for leaf in graph.leaves if leaf.fills}


def _memory(graph: Graph, storage: Storage, beside: ForwardGraph | None) -> Memory:
    readers: dict[Value, list[tuple[Node, str]]] = {}
    for node in graph.nodes:
        for hole, operand in node.operands.items():
            if isinstance(operand, Value):
                readers.setdefault(operand, []).append((node, hole))
    memory = Memory(storage, frozenset(leaf.name for leaf in graph.states), readers)
    shared = {} if beside is None else beside.held
    memory.made = 0 if beside is None else len(beside.buffers)
    halves = half_tables(graph) if storage.half else frozenset()
    for leaf in graph.leaves:
        if leaf.value in shared:
            memory.held[leaf.value] = shared[leaf.value]
            continue
        quant = leaf.name in storage.q8 and keeps_q8(graph, leaf) is None
        element = Element.QUANT if quant else Element.HALF if leaf.name in halves else None
        memory.hold(leaf.value, is_transposed(graph, leaf), element)
    return memory


def _unread(graph: Graph, storage: Storage) -> Mapping[Value, str]:
    """Why weights that are asked for in Q8_0 cannot be kept so."""
    asked = [leaf for leaf in graph.leaves if leaf.name in storage.q8]
    return {leaf.value: f"{leaf.name} in Q8_0: {why}" for leaf in asked if (why := keeps_q8(graph, leaf)) is not None}


def _operand(operand: object) -> Value:
    assert isinstance(operand, Value)
    return operand
