"""Two readers held against each other: what a sentence says, and what its loops are recognized as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from logos.desugar import node_loop, read_twice, sets_whole
from logos.graph import Graph, Node, Operand, Value
from logos.loops.block import NAME
from logos.loops.check import Tensor, check_loop
from logos.loops.recognize import recognize_loop
from logos.loops.records import Repeat, lines
from logos.loops.text import read_loops
from logos.op import Op
from logos.refusal import Refusal
from logos.source import Source, Span

Reading = tuple[str, tuple[tuple[str, "str | int | float | None"], ...]]
"""An op's name, and what stands at its holes: tensors by name, counts and literals as numbers."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """One operation by both readers. `loops` is what its loops are read as; None where its op says none. The tensors
    are called v1, v2, … in the order of the holes."""

    node: Node
    sentence: Reading
    loops: Reading | None

    @property
    def agrees(self) -> bool:
        return self.loops is None or self.loops == self.sentence


def lift(graph: Graph, ops: tuple[Op, ...]) -> tuple[Lifted, ...]:
    """Every operation of a program, in order, with what its printed loops are read as by `ops`.

    Operations that differ in the names of their tensors alone are read once.
    """
    return tuple(Lifted(node, *_readings(*_unnamed(node), ops)) for node in graph.nodes)


def disagreements(lifted: tuple[Lifted, ...]) -> Iterator[Refusal]:
    """A refusal for each operation whose readers disagree: a fault of the op's declaration, or of LOGOS."""
    for one in lifted:
        if not one.agrees and one.loops is not None:
            op = one.node.op.name
            what = f"the sentence is {_said(one.sentence)}, but its loops are read as {_said(one.loops)}"
            next_ = f"tell the authors of the op {op}: its sentence and its loops mean different things"
            yield Refusal("readers-disagree", what, one.node.span, next_)


def _said(reading: Reading) -> str:
    return f"{reading[0]} ({', '.join(f'{hole} {operand}' for hole, operand in reading[1] if operand is not None)})"


_NOWHERE = Span(Source("loops", ""), 1, 1, 1)
_Unnamed = tuple[Op, tuple[tuple[str, Operand], ...], tuple[tuple[str, int], ...], "Value | None"]


def _unnamed(node: Node) -> _Unnamed:
    """A node without its program's names: equal for operations that say the same of other tensors."""
    names: dict[str, str] = {}
    operands: list[tuple[str, Operand]] = []
    twice = read_twice(node)
    for hole, operand in node.operands.items():
        if isinstance(operand, Value):
            read = operand in twice and hole not in node.op.writes
            # The loops of a sentence that reads a state twice read a copy of it.
            name = names.setdefault(f"{operand.name} before" if read else operand.name, f"v{len(names) + 1}")
            operand = Value(name, 0, operand.rows, operand.columns, operand.real)
        operands.append((hole, operand))
    out = node.out and Value("out", 1, node.out.rows, node.out.columns, node.out.real)
    return node.op, tuple(operands), tuple(node.sizes.items()), out


@lru_cache(maxsize=4096)
def _readings(
    op: Op,
    operands: tuple[tuple[str, Operand], ...],
    sizes: tuple[tuple[str, int], ...],
    out: Value | None,
    ops: tuple[Op, ...],
) -> tuple[Reading, Reading | None]:
    said = op.name, tuple((hole, one.name if isinstance(one, Value) else one) for hole, one in operands)
    if op.block is not None:
        return said, said
    values = {one.name: one for _, one in operands if isinstance(one, Value)}
    written = {hole: values[one.name] for hole, one in operands if hole in op.writes and isinstance(one, Value)}
    node = Node(0, _NOWHERE, op, dict(operands), dict(sizes), out, written)
    if out is not None:
        values["out"] = out
    loop = node_loop(node, {value: name for name, value in values.items()})
    if loop is None:
        return said, None
    if sets_whole(node, loop, {value: name for name, value in values.items()}) is None:
        return said, (NAME, ())
    tensors = {name: Tensor(value.rows, value.columns, value.real) for name, value in values.items()}
    return said, _read("\n".join(lines((loop,))), tensors, None if out is None else "out", ops)


def _read(text: str, tensors: dict[str, Tensor], out: str | None, ops: tuple[Op, ...]) -> Reading:
    """What printed loops are read as."""
    (loop,) = read_loops(text)
    assert isinstance(loop, Repeat)
    faults: list[str] = []
    check_loop(loop, tensors, lambda code, what, where, next_: faults.append(what))
    found = None if faults else recognize_loop(loop, tensors, out, ops)
    return (NAME, ()) if found is None else (found[0].name, tuple(found[1].items()))
