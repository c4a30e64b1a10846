"""The driver's tables: what its template takes from a program's stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath

from logos import (
    Graph,
    Leaf,
    Node,
    Refusal,
    Source,
    Span,
    Value,
    c_comment,
    c_double,
    c_integer,
    c_string,
    one_line,
    row_outside,
)
from logos_cpu.lowering import MOST_THREADS
from logos_cpu.stages import Buffer, Call, Stages, meetings

_ROW, _NAN, _OVERFLOW = "FAULT_ROW", "FAULT_NAN", "FAULT_OVERFLOW"

_NUMBER = 4611686018427387903
"""Stands for the row in a message until the text is a format."""


class Tables:
    """The tables of a step's stages and, beside them, of many steps' at once. `kernels` are the distinct calls."""

    def __init__(self, step: Stages, many: Stages | None = None, steps: int = 1, alone: Sequence[str] = ()) -> None:
        self.step, self.many, self.steps, self.alone = step, many, steps, alone
        self.program: Graph = step.graph
        self.file = PurePath(self.program.source.name).name
        calls = (*step.calls, *(() if many is None else many.calls))
        self.kernels: dict[str, int] = {}
        for call in calls:
            self.kernels.setdefault(call.text, len(self.kernels))
        self.calls: Sequence[Call] = calls

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """The values that can be read out, by the names of `Graph.taps`."""
        return dict(self.program.taps)

    def text(self) -> str:
        """Constants and tables, one line an entry."""
        leaves = self.program.leaves
        items = [item for leaf in leaves for item in self._items(leaf)]
        rows, messages = list(self._rows()), list(self._messages())
        many = self.many
        buffers = self.step.buffers if many is None else many.buffers
        operands: list[int] = []
        own, more = self._stages(self.step.calls, operands), self._stages(many.calls if many else (), operands)
        counts: dict[str, int] = {"STAGES": len(own), "LEAVES": len(leaves), "VALUES": len(self.values)}
        counts |= {"ROWS": len(rows), "MESSAGES": len(messages), "BUFFERS": len(buffers), "KEPT": self.step.own}
        counts |= {"OUTPUT": list(self.values.values()).index(self.program.output), "MOST_THREADS": MOST_THREADS}
        counts |= {"TOKEN": _fed(self.step, "tok"), "POSITION": _fed(self.step, "pos")}
        counts |= {"CHUNK_STEPS": self.steps if many else 1, "CHUNK_STAGES": len(more)}
        counts |= {"CHUNK_TOKEN": _fed(many, "tok"), "CHUNK_POSITION": _fed(many, "pos")}
        counts["CHUNK_OUTPUT"] = -1 if many is None else many.held[many.graph.output].number
        scratch = max(self.step.scratch, 0 if many is None else many.scratch)
        parts = [
            _block("enum {", (f"{name} = {count}," for name, count in counts.items()), "};"),
            f"const Size SCRATCH = {scratch};\n"
            f"const char *const PROGRAM = {c_string(one_line(self.file))};\n"
            f"const char *const ALONE = {c_string(one_line('; '.join(self.alone)))};",
            _table("Memory", "buffers", map(_memory, buffers)),
            _table("Item", "items", items),
            _table("Leaf", "leaves", self._leaves(leaves)),
            _table("Value", "values", map(self._value, self.values, self.values.values())),
            _table("Row", "rows", rows),
            _table("Message", "messages", messages),
            _block("const int operands[] = {", (f"{place}," for place in _lines(operands)), "};"),
            _table("Stage", "stages", own),
            _table("Stage", "chunk_stages", more),
        ]
        return "\n\n".join(parts)

    def _stages(self, calls: Sequence[Call], operands: list[int]) -> list[str]:
        found = []
        for call, meets in zip(calls, meetings(calls), strict=True):
            numbers = [use.buffer.number for use in call.uses]
            node = call.node
            origin = f"{node.results[0].name}: {node.op.name}, {self.file}:{node.line}"
            entry = f"{{{self.kernels[call.text]}, {_bool(meets)}, {len(operands)}, {len(numbers)}}}"
            found.append(f"{entry},  // {c_comment(origin)}")
            operands += numbers
        return found

    def _leaves(self, leaves: Iterable[Leaf]) -> Iterator[str]:
        first = 0
        for leaf in leaves:
            value, buffer = leaf.value, self.step.held[leaf.value]
            flags = ", ".join(map(_bool, (value.real, buffer.transposed, leaf.state)))
            start = "FILLS" if leaf.fills or leaf.state else "ROW" if self._is_row(leaf) else "RAMP"
            shape = f"{value.rows}, {value.columns}"
            yield f"{{{c_string(leaf.name)}, {buffer.number}, {shape}, {flags}, {start}, {first}, {len(leaf.fills)}}}"
            first += len(leaf.fills)

    def _is_row(self, leaf: Leaf) -> bool:
        return any(hole in node.op.indexes for node, hole in self.program.readers(leaf.name))

    def _items(self, leaf: Leaf) -> Iterator[str]:
        for place, value in leaf.fills:
            real = c_double(float(value)) if leaf.value.real else "0"
            yield f"{{{place}, {real}, {'0' if leaf.value.real else c_integer(int(value))}}}"

    def _value(self, tap: str, value: Value) -> str:
        buffer = self.step.held[value]
        node = self.program.producer(value)
        flags = ", ".join(map(_bool, (value.real, buffer.transposed)))
        stage = -1 if node is None else self.step.last[node.index]
        return f"{{{c_string(tap)}, {buffer.number}, {value.rows}, {value.columns}, {flags}, {stage}}}"

    def _rows(self) -> Iterator[str]:
        """The row numbers that are leaves, in the order that a step reads them; of equal bounds the first says it."""
        leaves = {leaf.value for leaf in self.program.leaves}
        seen: set[tuple[Value, int]] = set()
        for node in self.program.nodes:
            for hole in node.op.indexes:
                row = node.operands[hole]
                bound = node.sizes[node.op.indexes[hole]]
                if isinstance(row, Value) and row in leaves and (row, bound) not in seen:
                    seen.add((row, bound))
                    yield f"{{{self.step.held[row].number}, {bound}, {self._row_words(node, hole)}}}"

    def _messages(self) -> Iterator[str]:
        for number, call in enumerate(self.step.calls):
            yield from (f"{{{number}, {kind}, {words}}}" for kind, words in self._faults(call.node))

    def _faults(self, node: Node) -> Iterator[tuple[str, str]]:
        """What a kernel can report of a node, with its words."""
        for hole in node.op.indexes:
            if isinstance(node.operands[hole], Value):
                yield _ROW, self._row_words(node, hole)
        tensors = [node.operands[hole] for hole in node.op.tensors]
        real = any(isinstance(value, Value) and value.real for value in tensors)
        if node.op.name == "argmax" and real:
            yield _NAN, self._no_value(node, "the operand holds a NaN, so it has no largest element")
        if node.op.exact and not real:
            yield _OVERFLOW, self._no_value(node, "a result does not fit 64 bits")

    def _no_value(self, node: Node, what: str) -> str:
        next_ = "look at its operands: end the program above this sentence and run it with `--get`"
        return self._words("no-value", f"{node.op.name}: {what}", node, next_)

    def _row_words(self, node: Node, hole: str) -> str:
        row, table = node.operands[hole], node.operands[node.op.table(hole)]
        assert isinstance(row, Value)
        assert isinstance(table, Value)
        what = row_outside(row.name, _NUMBER, node.sizes[node.op.indexes[hole]], table.name)
        return self._words("row-outside-table", what, node, f"give {row.name} a row that {table.name} has")

    @cached_property
    def _unnamed(self) -> Source:
        return Source("", self.program.source.text)

    def _words(self, code: str, what: str, node: Node, next_: str) -> str:
        """A refusal without its label, as a format that takes the row, and where it is."""
        span = node.span
        place = Span(self._unnamed, span.line, span.column, span.length)
        text = Refusal(code, what, place, next_).text().removeprefix(f"{place.label()}: ")
        text = text.replace("%", "%%").replace(str(_NUMBER), "%lld", 1)
        return f"{{{span.line}, {span.column}, {c_string(text + chr(10))}}}"


def fed(graph: Graph, name: str) -> Value | None:
    """The input of a name that each step has its own number for."""
    shape = (graph.steps, 1)
    for leaf in graph.leaves:
        if leaf.name == name and not leaf.state and not leaf.value.real and leaf.value.shape == shape:
            return leaf.value
    return None


def _fed(stages: Stages | None, name: str) -> int:
    value = None if stages is None else fed(stages.graph, name)
    return -1 if stages is None or value is None else stages.held[value].number


def _memory(buffer: Buffer) -> str:
    scales = -1 if buffer.scales is None else buffer.scales.number
    return f"{{{buffer.element.value}, {buffer.groups}, {buffer.rows}, {buffer.columns}, {scales}}}"


def _bool(flag: bool) -> str:
    return "true" if flag else "false"


def _lines(numbers: Sequence[int]) -> Iterator[str]:
    for first in range(0, len(numbers) or 1, 24):
        yield ", ".join(map(str, numbers[first : first + 24])) or "0"


def _block(opening: str, lines: Iterable[str], closing: str) -> str:
    return "\n".join([opening, *(f"    {line}" for line in lines), closing])


def _table(kind: str, name: str, entries: Iterable[str]) -> str:
    """An array of at least one element, as C++ wants it: the last is no entry."""
    lines = (entry if "},  // " in entry else f"{entry}," for entry in (*entries, "{}"))
    return _block(f"const {kind} {name}[] = {{", lines, "};")
