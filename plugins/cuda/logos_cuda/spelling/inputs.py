"""What stands between an attention or a gated delta rule and its projections, as one stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from logos import Node, Value
from logos_cuda.lowering import ABSENT, THREADS, Lowering, Memory, Parameter, Runs
from logos_cuda.spelling.rows import NARROW, epsilon, runs_of, shape_of
from logos_cuda.stages import Element

_MOST_BLOCKS = 4096
_BY = {"silu": "BY_SILU", "sigmoid": "BY_SIGMOID", "decay": "BY_DECAY"}
"""What delta_inputs.cuh calls the op that makes a row."""


@dataclass
class Row:
    """Ops of a group that follow each other, by name."""

    nodes: dict[str, Node] = field(default_factory=dict)

    @property
    def ends(self) -> Value | None:
        return next(reversed(self.nodes.values())).out

    @property
    def start(self) -> tuple[Node, str]:
        """The first node, and its hole that the row comes in by."""
        first = next(iter(self.nodes.values()))
        return first, next(hole for hole in ("X", "Q", "R", "AR") if hole in first.operands)


def rows_of(nodes: Sequence[Node]) -> tuple[Row, ...]:
    """The rows of a group, in the order of their first nodes."""
    rows: list[Row] = []
    for node in nodes:
        row = next((row for row in rows if row.ends is not None and row.ends in node.inputs), None)
        if row is None:
            rows.append(row := Row())
        row.nodes[node.op.name] = node
    return tuple(rows)


def input_runs(nodes: Sequence[Node], memory: Memory) -> Runs:
    """The whole group, or nothing of it."""
    why = next(iter([*_shared(nodes), *_lanes_differ(nodes), *_heads_differ(nodes), *_appends(nodes, memory)]), "")
    return ((), {node.index: why for node in nodes}) if why else ([nodes], {})


def _shared(nodes: Iterable[Node]) -> Iterator[str]:
    """A state that one op writes and another op reads as it was: in one launch they would race."""
    for node in nodes:
        for hole, written in node.writes.items():
            for other in nodes:
                read = [name for name, value in other.operands.items()
                        if isinstance(value, Value) and value.name == written.name]  # fmt: skip
                if [name for name in read if other is not node or name != hole]:
                    yield f"{written.name} is written and read"


def _lanes_differ(nodes: Iterable[Node]) -> Iterator[str]:
    widths = [_run(node) for node in nodes if node.op.name in ("rmsnorm", "l2norm")]
    if len({width > NARROW for width in widths}) > 1:
        yield f"rows of {min(widths)} and of {max(widths)} are not summed alike"


def _run(node: Node) -> int:
    """The length of the runs that a norm or a rotation takes."""
    hole = "Q" if node.op.name == "rope" else "X"
    value, heads = node.operands[hole], node.operands["H"]
    assert isinstance(value, Value)
    if node.op.name == "rope" and not isinstance(heads, int):
        half = node.operands["RC"]
        assert isinstance(half, Value)
        return 2 * half.columns
    return value.size // heads if isinstance(heads, int) else value.columns


def _heads_differ(nodes: Sequence[Node]) -> Iterator[str]:
    for row in rows_of(nodes):
        runs = {_run(row.nodes[op]) for op in ("rmsnorm", "rope") if op in row.nodes}
        if len(runs) > 1:
            yield f"heads of {min(runs)} and of {max(runs)} elements"


def _appends(nodes: Sequence[Node], memory: Memory) -> Iterator[str]:
    """Why the rows that a group appends cannot be part of it."""
    elements = set()
    for node in (node for node in nodes if node.op.name == "set row"):
        table, row = node.operands["T"], node.operands["P"]
        assert isinstance(table, Value)
        elements.add(memory.held[table].element)
        if memory.held[table].element is Element.INT:
            yield f"{table.name} is of Int"
        if isinstance(row, Value) and (row.version > 0 or row.name in memory.states):
            yield f"{row.name} is computed, and tells its own row outside {table.name}"
    if len(elements) > 1:
        yield "its tables are not stored alike"


def append_heads(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """Norms across heads, rotation, rows of tables: a launch over all of their heads."""
    rows = rows_of(nodes)
    appended = [lowering.beside(node) for node in nodes if node.op.name == "set row"]
    kind = appended[0].state("T").element.value if appended else "Real"
    lanes = _lanes(rows, ("rmsnorm", "rope"))
    number = appended[0].node.operands["P"] if appended else 0
    parameters: list[Parameter] = [
        ("const Int *number", appended[0].buffer("P")) if isinstance(number, Value) else ABSENT,
        ("Size literal", number if isinstance(number, int) else 0),
    ]  # fmt: skip
    words, total = [], 0
    for place, row in enumerate(rows):
        blocks = _heads(lowering, row, place, lanes, kind, parameters)
        total += blocks
        words.append("_".join(_words(row)))
    suffix = ("narrow" if lanes == 32 else "wide") + ("_at" if isinstance(number, int) else "")
    name = "_".join(["heads", "_and_".join(words), suffix, *(["half"] if kind == "Half" else [])])
    lowering.launch(name, "heads.cuh", f"heads<{lanes}, {kind}>", parameters, total, registers=True)


def _words(row: Row) -> Iterator[str]:
    for op, node in row.nodes.items():
        weighted = op == "rmsnorm" and node.operands["W"] is not None
        yield {"rmsnorm": "weighted" if weighted else "norm", "rope": "rope", "set row": "append"}.get(op, op)


def _lanes(rows: Iterable[Row], ops: Sequence[str]) -> int:
    """The threads that take a run: as many as its norm alone; without a norm by the longest run."""
    nodes = [row.nodes[op] for row in rows for op in ops if op in row.nodes]
    normed = [_run(node) for node in nodes if node.op.name in ("rmsnorm", "l2norm")]
    return shape_of(1, max(normed or [_run(node) for node in nodes] or [1]))[1]


def _blocks(n: int, width: int, lanes: int) -> int:
    runs = -(-n // width)
    return min(-(-runs // (THREADS // lanes)), _MOST_BLOCKS)


def _heads(
    lowering: Lowering, row: Row, place: int, lanes: int, kind: str, parameters: list[Parameter]
) -> int:
    """Adds a row's parameters; the blocks that it takes."""
    norm, rope, append = (_beside(lowering, row, op) for op in ("rmsnorm", "rope", "set row"))
    first, hole = row.start
    start = lowering.beside(first)
    n = start.value(hole).size
    shaped = norm or rope
    width = _run(shaped.node) if shaped else min(n, NARROW)
    eps = epsilon(norm) if norm else 0.0
    blocks = _blocks(n, width, lanes)
    parameters += _named(place, [
        ("const Real *x", start.real(hole)),
        ("const Real *w", norm.real("W")) if norm and norm.node.operands["W"] is not None else ABSENT,
        ("const Real *cosines", rope.real("RC")) if rope else ABSENT,
        ("const Real *sines", rope.real("RS")) if rope else ABSENT,
        ("Real *normed", norm.out) if norm else ABSENT,
        ("Real *turned", rope.out) if rope else ABSENT,
        (f"{kind} *table", append.state("T")) if append else ABSENT,
        ("Size n", n), ("Size width", width), ("Size half", rope.value("RC").columns if rope else 0),
        ("Size norms", int(norm is not None)), ("Size rows", append.sizes["n"] if append else 0),
        ("Size blocks", blocks), ("float eps", eps or 0.0),
    ])  # fmt: skip
    return blocks


def _beside(lowering: Lowering, row: Row, op: str) -> Lowering | None:
    return lowering.beside(row.nodes[op]) if op in row.nodes else None


def _named(place: int, parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Parameters with their row's number after their names."""
    for text, argument in parameters:
        yield ABSENT if text == ABSENT[0] else (f"{text}{place}", argument)


def delta_inputs(lowering: Lowering, nodes: Sequence[Node]) -> None:
    """Convolution, silu, l2norm, sigmoid and decay of the rows that a delta rule takes."""
    rows = rows_of(nodes)
    lanes = _lanes(rows, ("l2norm",))
    parameters: list[Parameter] = []
    total = 0
    for place, row in enumerate(rows):
        total += _delta_row(lowering, row, place, lanes, parameters)
    words = ["_".join(op.replace(" ", "_") for op in row.nodes) for row in rows]
    name = f"delta_{'_and_'.join(words)}_{'narrow' if lanes == 32 else 'wide'}"
    by = [next((_BY[op] for op in row.nodes if op in _BY), "AS_IT_IS") for row in rows]
    call = f"delta_inputs<{', '.join([str(lanes), *by])}>"
    lowering.launch(name, "delta_inputs.cuh", call, parameters, total, registers=True)


def _delta_row(lowering: Lowering, row: Row, place: int, lanes: int, parameters: list[Parameter]) -> int:
    conv, norm = _beside(lowering, row, "causal conv"), _beside(lowering, row, "l2norm")
    by = next((op for op in _BY if op in row.nodes), "")
    made = _beside(lowering, row, by)
    first, hole = row.start
    start = lowering.beside(first)
    n = start.value(hole).size
    width = n // runs_of(norm)[0] if norm else min(n, NARROW)
    blocks = _blocks(n, width, lanes)
    parameters += _named(place, [
        ("const Real *x", start.real(hole)),
        ("const Real *w", conv.real("WC")) if conv else ABSENT,
        ("const Real *bias", made.real("DT")) if made and by == "decay" else ABSENT,
        ("const Real *rate", made.real("AL")) if made and by == "decay" else ABSENT,
        ("Real *ring", conv.state("CS")) if conv else ABSENT,
        ("Real *convolved", conv.out) if conv else ABSENT,
        ("Real *result", made.out) if made else ABSENT,
        ("Real *normed", norm.out) if norm else ABSENT,
        ("Size n", n), ("Size width", width), ("Size taps", conv.sizes["TAPS"] if conv else 0),
        ("Size blocks", blocks), ("float eps", (epsilon(norm) if norm else 0.0) or 0.0),
    ])  # fmt: skip
    return blocks
