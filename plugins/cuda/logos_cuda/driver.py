"""The driver's tables and stage functions: what its template takes from a stage graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath

from logos import (
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
from logos_cuda.stages import Argument, Arrivals, Buffer, Element, ForwardGraph, Kernel, Launch, Record, Stage

_ROW, _NAN, _OVERFLOW = "FAULT_ROW", "FAULT_NAN", "FAULT_OVERFLOW"
_STATIC_SHARED = 48 * 1024
_ACCESS = {Element.REAL: "real", Element.INT: "integer", Element.QUANT: "quants", Element.HALF: "halves"}
"""The driver's functions that give a buffer as a pointer to its elements."""

_NUMBER = 4611686018427387903
"""Stands for the row in a message until the text is a format."""


class Driver:
    """The driver of one stage graph."""

    def __init__(self, graph: ForwardGraph, checksum: bool, files: Mapping[str, str] | None = None) -> None:
        self.graph, self.program, self.checksum, self.files = graph, graph.graph, checksum, files or {}
        self.file = PurePath(graph.graph.source.name).name

    @cached_property
    def values(self) -> dict[str, Value]:
        """The values that can be read out, by the names of `Graph.taps`."""
        return {tap: value for tap, value in self.program.taps.items() if value in self.graph.held}

    @cached_property
    def stage_of(self) -> dict[int, int]:
        """The stage that computes each node, by the node's index."""
        return {node.index: number for number, stage in enumerate(self.graph.stages) for node in stage.nodes}

    def tables(self) -> str:
        """Constants and tables, one line an entry."""
        leaves = [leaf for leaf in self.program.leaves if leaf.value in self.graph.held]
        items = [item for leaf in leaves for item in self._items(leaf)]
        rows, messages = list(self._rows()), list(self._messages())
        counts = {"STAGES": len(self.graph.stages), "LEAVES": len(leaves), "VALUES": len(self.values)}
        counts |= {"ROWS": len(rows), "MESSAGES": len(messages), "OUTPUT": self._output()}
        counts["ARRIVALS"] = self.arrivals()
        counts["KEPT"] = sum(not buffer.inner for buffer in self.graph.buffers)
        names = [*(f"{buffer.name}," for buffer in self.graph.buffers), "BUFFERS,"]
        parts = [
            _block("enum {", names, "};"),
            _block("enum {", (f"{name} = {count}," for name, count in counts.items()), "};"),
            f"const bool CHECKSUM = {_bool(self.checksum)};\n"
            f"const char *const PROGRAM = {c_string(one_line(self.file))};",
            _table("Memory", "buffers", map(_memory, self.graph.buffers)),
            _table("Item", "items", items),
            _table("Leaf", "leaves", self._leaves(leaves)),
            _table("Value", "values", map(self._value, self.values, self.values.values())),
            _table("Row", "rows", rows),
            _table("Message", "messages", messages),
        ]
        return "\n\n".join(parts)

    def arrivals(self) -> int:
        """The counters that launches share."""
        return self.graph.arrivals

    def _output(self) -> int:
        return list(self.values.values()).index(self.program.output)

    def stages(self) -> str:
        """One function a stage, each with the places of the sentences that it computes, and the list of them."""
        return "\n\n".join([*self.functions("stages", self.graph.stages), self.allow_shared(self.graph.stages)])

    def functions(self, name: str, stages: Sequence[Stage], first: int = 0) -> Iterator[str]:
        """One function a stage, numbered from `first` on, and the list of them."""
        yield from (self._stage(first + number, stage) for number, stage in enumerate(stages))
        names = (f"stage_{first + number}," for number in range(len(stages)))
        yield _block(f"void (*const {name}[])() = {{", (*names, *(() if stages else ("nullptr,",))), "};")

    def _stage(self, number: int, stage: Stage) -> str:
        file = c_comment(self.file)
        lines = [f"// {node.results[0].name}: {node.op.name}, {file}:{node.line}" for node in stage.nodes]
        as_one = [f"as one by {stage.step}"] if stage.step else []
        as_one += [f"with {mark}" for mark in stage.marks]
        lines[-1] = "; ".join([lines[-1], *map(c_comment, [*as_one, *stage.notes])])
        lines.append(f"void stage_{number}() {{")
        lines += [f"    {self._launch(number, launch)}" for launch in stage.launches]
        return "\n".join([*lines, "}"])

    def _launch(self, number: int, launch: Launch) -> str:
        grid = ", ".join(f"{size}u" for size in launch.grid)
        arguments = [text for one in launch.arguments for text in _argument(one, number)]
        first = f"{launch.kernel.name}, dim3({grid}), dim3({launch.kernel.threads}u), {launch.shared}"
        return f"LAUNCH({', '.join([first, *arguments])});"

    def allow_shared(self, stages: Iterable[Stage]) -> str:
        """Kernels that take more dynamic shared memory than one may take unasked; the first is asked what all were made
        for."""
        most: dict[Kernel, int] = {}
        for launch in (launch for stage in stages for launch in stage.launches):
            most[launch.kernel] = max(most.get(launch.kernel, 0), launch.shared)
        lines = [
            f"    CHECK(cudaFuncSetAttribute({kernel.name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared}));"
            for kernel, shared in most.items()
            if shared > _STATIC_SHARED
        ]
        lines += [f"    may_begin_early({kernel.name});" for kernel in list(most)[:1]]
        return "\n".join(["void allow_shared() {", *lines, "}"])

    def _leaves(self, leaves: Iterable[Leaf]) -> Iterator[str]:
        first = 0
        for leaf in leaves:
            value, buffer = leaf.value, self.graph.held[leaf.value]
            flags = ", ".join(map(_bool, (value.real, buffer.transposed, leaf.state)))
            start = "FILLS" if leaf.fills or leaf.state else "ROW" if self._is_row(leaf) else "RAMP"
            shape = f"{value.rows}, {value.columns}"
            stem = f", {c_string(self.files[leaf.name])}" if leaf.name in self.files else ""
            name, count = c_string(leaf.name), len(leaf.fills)
            yield f"{{{name}, {buffer.name}, {shape}, {flags}, {start}, {first}, {count}{stem}}}"
            first += len(leaf.fills)

    def _is_row(self, leaf: Leaf) -> bool:
        return any(hole in node.op.indexes for node, hole in self.program.readers(leaf.name))

    def _items(self, leaf: Leaf) -> Iterator[str]:
        for place, value in leaf.fills:
            real = c_double(float(value)) if leaf.value.real else "0"
            yield f"{{{place}, {real}, {'0' if leaf.value.real else c_integer(int(value))}}}"

    def _value(self, tap: str, value: Value) -> str:
        buffer = self.graph.held[value]
        node = self.program.producer(value)
        flags = ", ".join(map(_bool, (value.real, buffer.transposed)))
        stage = -1 if node is None else self.stage_of[node.index]
        return f"{{{c_string(tap)}, {buffer.name}, {value.rows}, {value.columns}, {flags}, {stage}}}"

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
                    yield f"{{{self.graph.held[row].name}, {bound}, {self._row_words(node, hole)}}}"

    def _messages(self) -> Iterator[str]:
        for number, stage in enumerate(self.graph.stages):
            for node in stage.nodes:
                yield from (f"{{{number}, {kind}, {words}}}" for kind, words in self._faults(node))

    def _faults(self, node: Node) -> Iterator[tuple[str, str]]:
        """What the device can report of a node, with its words."""
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


def _argument(argument: Argument, stage: int) -> Iterator[str]:
    if isinstance(argument, Buffer):
        yield f"{_ACCESS[argument.element]}({argument.name})"
    elif isinstance(argument, Record):
        yield from ("fault", str(stage))
    elif isinstance(argument, Arrivals):
        yield "arrivals"
    elif isinstance(argument, int):
        yield f"Size({c_integer(argument)})"
    else:  # the double nearest to what the program says, rounded once
        yield f"static_cast<float>({c_double(argument)})"


def _memory(buffer: Buffer) -> str:
    """A buffer's name and bytes; for what the driver rounds, how, and where the scales are."""
    parts = [c_string(buffer.name), f"Size({buffer.elements}LL) * Size(sizeof({buffer.element.value}))"]
    if buffer.element is Element.HALF and buffer.value is not None:
        parts.append("HALVES")
    if buffer.scales is not None:
        parts += ["QUANTS", buffer.scales.name]
    return f"{{{', '.join(parts)}}}"


def _bool(flag: bool) -> str:
    return "true" if flag else "false"


def _block(opening: str, lines: Iterable[str], closing: str) -> str:
    return "\n".join([opening, *(f"    {line}" for line in lines), closing])


def _table(kind: str, name: str, entries: Iterable[str]) -> str:
    """An array of at least one element, as C++ wants it: the last is no entry."""
    return _block(f"const {kind} {name}[] = {{", (f"{entry}," for entry in (*entries, "{}")), "};")
