"""The driver's tables: what its text takes from a program and from where a target keeps its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from logos.driver.text import c_comment, c_double, c_integer, c_string, one_line
from logos.graph import Graph, Leaf, Node, Value
from logos.reference import row_outside
from logos.refusal import Refusal
from logos.source import Source, Span

_ROW, _NAN, _OVERFLOW = "FAULT_ROW", "FAULT_NAN", "FAULT_OVERFLOW"

_NUMBER = 4611686018427387903
"""Stands for the row in a message until the text is a format."""


class HeldValue(NamedTuple):
    """Where a value lies: its buffer's number, as C++, and whether it lies there transposed."""

    buffer: str
    transposed: bool = False


class DriverTables:
    """The tables of a program, for the driver of its emitted source.

    held    where each value lies that can be read out, leaves among them
    stages  the nodes that each stage makes, in order; a node made by several is done with the last
    files   by leaf, the stem of its files' names where that is not the leaf's own
    """

    def __init__(
        self,
        graph: Graph,
        held: Mapping[Value, HeldValue],
        stages: Sequence[Sequence[Node]],
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.graph, self.held, self.stages, self.files = graph, held, stages, files or {}

    @cached_property
    def file(self) -> str:
        """The program's file without its folder, which would make the text another on another machine."""
        return PurePath(self.graph.source.name).name

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """The values that can be read out, by the names of `Graph.taps`, in the order of the table."""
        return {tap: value for tap, value in self.graph.taps.items() if value in self.held}

    def text(self) -> str:
        """The C++ text: counts, the program's name, and the tables, one line an entry. The names of buffers stand
        before it."""
        leaves = [leaf for leaf in self.graph.leaves if leaf.value in self.held]
        items = [item for leaf in leaves for item in _items(leaf)]
        rows, messages = list(self._rows()), list(self._messages())
        counts = {"STAGES": len(self.stages), "LEAVES": len(leaves), "VALUES": len(self.values), "ROWS": len(rows)}
        counts |= {"MESSAGES": len(messages), "OUTPUT": list(self.values.values()).index(self.graph.output)}
        parts = [
            c_block("enum {", (f"{name} = {count}," for name, count in counts.items()), "};"),
            f"const char *const PROGRAM = {c_string(one_line(self.file))};",
            c_table("Item", "items", items),
            c_table("Leaf", "leaves", self._leaves(leaves)),
            c_table("Value", "values", map(self._value, self.values, self.values.values())),
            c_table("Row", "rows", rows),
            c_table("Message", "messages", messages),
        ]
        return "\n\n".join(parts)

    def origin(self, node: Node) -> str:
        """A comment's text: what a node makes, its op, and where its sentence is."""
        return f"{node.results[0].name}: {node.op.name}, {c_comment(self.file)}:{node.line}"

    @cached_property
    def _stage_of(self) -> Mapping[int, int]:
        """The stage with which each node is done, by the node's index."""
        return {node.index: number for number, nodes in enumerate(self.stages) for node in nodes}

    def _leaves(self, leaves: Iterable[Leaf]) -> Iterator[str]:
        first = 0
        for leaf in leaves:
            value, held = leaf.value, self.held[leaf.value]
            flags = ", ".join(map(_bool, (value.real, held.transposed, leaf.state)))
            start = "FILLS" if leaf.fills or leaf.state else "ROW" if self._is_row(leaf) else "RAMP"
            name, count = c_string(leaf.name), len(leaf.fills)
            stem = c_string(self.files[leaf.name]) if leaf.name in self.files else "nullptr"
            shape = f"{value.rows}, {value.columns}"
            yield f"{{{name}, {held.buffer}, {shape}, {flags}, {start}, {first}, {count}, {stem}}}"
            first += count

    def _is_row(self, leaf: Leaf) -> bool:
        return any(hole in node.op.indexes for node, hole in self.graph.readers(leaf.name))

    def _value(self, tap: str, value: Value) -> str:
        held, node = self.held[value], self.graph.producer(value)
        flags = ", ".join(map(_bool, (value.real, held.transposed)))
        stage = -1 if node is None else self._stage_of[node.index]
        return f"{{{c_string(tap)}, {held.buffer}, {value.rows}, {value.columns}, {flags}, {stage}}}"

    def _rows(self) -> Iterator[str]:
        """The row numbers that are leaves, in the order that a step reads them; of equal bounds the first says it."""
        leaves = {leaf.value for leaf in self.graph.leaves}
        seen: set[tuple[Value, int]] = set()
        for node in self.graph.nodes:
            for hole in node.op.indexes:
                row = node.operands[hole]
                bound = node.sizes[node.op.indexes[hole]]
                if isinstance(row, Value) and row in leaves and (row, bound) not in seen:
                    seen.add((row, bound))
                    yield f"{{{self.held[row].buffer}, {bound}, {self._row_words(node, hole)}}}"

    def _messages(self) -> Iterator[str]:
        for number, nodes in enumerate(self.stages):
            for node in nodes:
                yield from (f"{{{number}, {kind}, {words}}}" for kind, words in self._faults(node))

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
        return Source("", self.graph.source.text)

    def _words(self, code: str, what: str, node: Node, next_: str) -> str:
        """A refusal without its label, as a format that takes the row, and where it is."""
        span = node.span
        place = Span(self._unnamed, span.line, span.column, span.length)
        text = Refusal(code, what, place, next_).text().removeprefix(f"{place.label()}: ")
        text = text.replace("%", "%%").replace(str(_NUMBER), "%lld", 1)
        return f"{{{span.line}, {span.column}, {c_string(text + chr(10))}}}"


def _items(leaf: Leaf) -> Iterator[str]:
    for place, value in leaf.fills:
        real = c_double(float(value)) if leaf.value.real else "0"
        yield f"{{{place}, {real}, {'0' if leaf.value.real else c_integer(int(value))}}}"


def _bool(flag: bool) -> str:
    return "true" if flag else "false"


def c_block(opening: str, lines: Iterable[str], closing: str) -> str:
    """Lines of C++, further in, between two others."""
    return "\n".join([opening, *(f"    {line}" for line in lines), closing])


def c_table(kind: str, name: str, entries: Iterable[str], notes: Iterable[str] = ()) -> str:
    """A constant array of `kind`, an entry a line; it has at least one element, as C++ wants it: the last is no entry.

    `notes` are comments' texts: none, or one for each entry.
    """
    lines = [f"{entry}," for entry in entries]
    ends = [f"  // {c_comment(note)}" for note in notes] or [""] * len(lines)
    return c_block(f"const {kind} {name}[] = {{", (*map("".join, zip(lines, ends, strict=True)), "{},"), "};")
