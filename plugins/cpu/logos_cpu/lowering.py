"""What a spelling works with: the buffers of one operation's operands, and the calls it adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from logos import Node, Value
from logos_cpu.stages import Buffer, Call, Element, Use
from logos_cpu.storage import BLOCK, Storage

MOST_THREADS = 256

Argument = Use | str | int
"""An operand, or C++ text."""

_ACCESS = {Element.REAL: "reals", Element.INT: "ints", Element.TILES: "bytes", Element.QUANTS: "quants"}


@dataclass
class Memory:
    """Every buffer of a program so far. Those of values serve again once nobody reads what they hold. `stepwise` are
    the values that hold a row for each of several steps, and `tails` what is read out of them for the last alone."""

    storage: Storage
    made: int = 0
    held: dict[Value, Buffer] = field(default_factory=dict)
    quantized: dict[Value, Buffer] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    free: dict[tuple[Element, int, int], list[Buffer]] = field(default_factory=dict)
    stepwise: frozenset[Value] = frozenset()
    tails: frozenset[Value] = frozenset()

    def add(self, buffer: Buffer) -> Buffer:
        """The buffer with a number of its own."""
        own = replace(buffer, number=self.made)
        self.made += 1
        self.buffers.append(own)
        return own

    def take(self, element: Element, rows: int, columns: int) -> Buffer:
        """Memory that is not needed now."""
        if free := self.free.get((element, rows, columns)):
            return free.pop()
        return self.add(Buffer(0, element, rows, columns))

    def give(self, buffer: Buffer) -> None:
        """What it holds is needed no more."""
        self.free.setdefault((buffer.element, buffer.rows, buffer.columns), []).append(buffer)


@dataclass
class Lowering:
    """One node on its way to calls."""

    node: Node
    memory: Memory
    calls: list[Call] = field(default_factory=list)
    lent: list[Buffer] = field(default_factory=list)

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.node.sizes

    @property
    def exact(self) -> bool:
        return self.memory.storage.exact

    @property
    def out(self) -> Value:
        assert self.node.out is not None
        return self.node.out

    @property
    def name(self) -> str:
        return self.node.op.name

    def value(self, hole: str) -> Value:
        operand = self.node.operands[hole]
        assert isinstance(operand, Value)
        return operand

    def has(self, hole: str) -> bool:
        return self.node.operands[hole] is not None

    def buffer(self, hole: str) -> Buffer:
        return self.memory.held[self.value(hole)]

    def rows(self, value: Value) -> str:
        """How many rows a value has, as C++: of several steps' as many as are made now."""
        return "w.steps" if value in self.memory.stepwise else str(value.rows)

    def step(self, hole: str) -> int:
        """Elements from a row of an operand to the next; 0 where it has one for all."""
        operand = self.node.operands[hole]
        return operand.columns if isinstance(operand, Value) and operand.rows > 1 else 0

    def scratch(self, element: Element, rows: int, columns: int) -> Buffer:
        """Memory for this node alone."""
        taken = self.memory.take(element, rows, columns)
        self.lent.append(taken)
        return taken

    def real(self, hole: str, unit: int | None = BLOCK) -> Use:
        """An operand as Real, read by threads in runs of `unit` columns, or by any thread (None)."""
        value = self.value(hole)
        spread = None if unit is None else (value.columns, unit)
        buffer = self.buffer(hole)
        if buffer.element is not Element.INT:
            return Use(buffer, spread=spread)
        made = self.scratch(Element.REAL, value.rows, value.columns)
        sizes = (self.rows(value), value.columns)
        self.call("elementwise.h", "convert", self.whole(hole), written(made, value.columns), *sizes)
        return Use(made, spread=spread)

    def whole(self, hole: str, unit: int | None = BLOCK) -> Use:
        """An operand as it is."""
        value = self.value(hole)
        return Use(self.buffer(hole), spread=None if unit is None else (value.columns, unit))

    def made(self, unit: int | None = BLOCK) -> Use:
        """OUT, written by threads in runs of `unit` columns, or by any thread (None)."""
        spread = None if unit is None else (self.out.columns, unit)
        return Use(self.memory.held[self.out], writes=True, spread=spread)

    def activations(self, hole: str) -> Use:
        """An operand in quants, made once for all who read it so."""
        value = self.value(hole)
        if value not in self.memory.quantized:
            made = self.memory.take(Element.ACTIVATIONS, value.rows, value.columns)
            self.memory.quantized[value] = made
            self.quantize(self.real(hole), made, self.rows(value))
        return Use(self.memory.quantized[value])

    def quantize(self, rows: Use, into: Buffer, count: str) -> None:
        """Rows of Real into quants."""
        self.call("q8.h", "quantize", rows, written(into, into.columns), count, into.columns)

    def call(self, header: str, function: str, *arguments: Argument, scratch: int = 0) -> None:
        """Adds a call `function(w, …)`."""
        uses: list[Use] = []
        words = ["w"]
        for argument in arguments:
            if not isinstance(argument, Use):
                words.append(str(argument))
                continue
            place, buffer = len(uses), argument.buffer
            uses.append(argument)
            if buffer.element is Element.ACTIVATIONS:
                size = buffer.rows * buffer.columns
                words.append(f"activations({{{place}}}, {size})")
            else:
                words.append(f"{_ACCESS[buffer.element]}({{{place}}})")
        self.calls.append(Call(self.node, header, f"{function}({', '.join(words)})", tuple(uses), scratch))


def written(buffer: Buffer, columns: int | None, unit: int = BLOCK) -> Use:
    """A buffer that a call writes; `columns` is what threads share of it."""
    return Use(buffer, writes=True, spread=None if columns is None else (columns, unit))
