"""A checked program: leaves, operations in order, and which value each operation reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from logos.op import Op
from logos.source import Source, Span


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor at one moment of a step.

    A name may be produced again and a state is written, so a value is a name with a version: 0 is the leaf (for a
    state, what the last step left), then one more for every sentence that produces or writes the name.
    """

    name: str
    version: int
    rows: int
    columns: int
    real: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def size(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Leaf:
    """A declared name that no operation produces; `fills` are (index from 0, value), the newest of an item alone."""

    value: Value
    span: Span = field(compare=False, repr=False)
    fills: tuple[tuple[int, int | float], ...] = ()
    state: bool = False

    @property
    def name(self) -> str:
        return self.value.name


Operand = Value | int | float | None


@dataclass(frozen=True, slots=True)
class Node:
    """One operation.

    `operands` gives for every hole of the op's pattern (OUT excepted), in the sentence's order, the value it reads,
    the literal (a count, a row, an EPS with its default filled in), or None for an absent optional part. `sizes` are
    the solved symbols of the op's shape rule. `writes` gives for each state hole the state's value after the node.
    """

    index: int
    span: Span = field(compare=False, repr=False)
    op: Op
    operands: Mapping[str, Operand]
    sizes: Mapping[str, int]
    out: Value | None
    writes: Mapping[str, Value]

    @property
    def line(self) -> int:
        return self.span.line

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values read, in the sentence's order."""
        return tuple(operand for operand in self.operands.values() if isinstance(operand, Value))

    @property
    def results(self) -> tuple[Value, ...]:
        """The values made: OUT, then the states written."""
        return (*(() if self.out is None else (self.out,)), *self.writes.values())


@dataclass(frozen=True, slots=True)
class Shown:
    """A `Show` sentence below `after` nodes: a value, or one item (from 1) or row (from 0) of it."""

    span: Span = field(compare=False, repr=False)
    after: int
    value: Value
    item: int | None = None
    row: int | None = None


@dataclass(frozen=True)
class Graph:
    """A program that passed every check. Leaves stand in the order of their declarations, nodes in program order.

    Graphs compare by what they say: where their sentences stand does not count. `steps` is above 1 where a pass made
    the graph of so many steps at once (`logos.unroll`).
    """

    source: Source = field(compare=False, repr=False)
    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    shows: tuple[Shown, ...]
    output: Value
    steps: int = 1

    @property
    def states(self) -> tuple[Leaf, ...]:
        return tuple(leaf for leaf in self.leaves if leaf.state)

    def newest(self) -> dict[str, Value]:
        """Every name's value at the end of a step, leaves first, then in order of first production."""
        values = {leaf.name: leaf.value for leaf in self.leaves}
        for node in self.nodes:
            for value in node.results:
                values[value.name] = value
        return values

    @cached_property
    def taps(self) -> Mapping[str, Value]:
        """Every value of a step by the name that it is read out under: `x` for a name's newest value, `x@1` for an
        earlier version (of a state `x@0` too, what the last step left). Leaves first, then in program order."""
        newest = self.newest()
        values = [*(leaf.value for leaf in self.leaves), *self._producers]
        old = {value: f"{value.name}@{value.version}" for value in values if newest[value.name] != value}
        return {old.get(value, value.name): value for value in values}

    @property
    def made(self) -> tuple[str, ...]:
        """The taps of what the nodes make, in program order: `--get *`."""
        return tuple(tap for tap, value in self.taps.items() if value in self._producers)

    def producer(self, value: Value) -> Node | None:
        """The node that made a value; None for a leaf's first value."""
        return self._producers.get(value)

    def readers(self, name: str) -> Sequence[tuple[Node, str]]:
        """Every (node, hole) that reads some version of a name, in order."""
        return self._readers.get(name, ())

    @cached_property
    def _producers(self) -> Mapping[Value, Node]:
        return {value: node for node in self.nodes for value in node.results}

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[tuple[Node, str]]]:
        found: dict[str, list[tuple[Node, str]]] = {}
        for node in self.nodes:
            for hole, operand in node.operands.items():
                if isinstance(operand, Value):
                    found.setdefault(operand.name, []).append((node, hole))
        return found


def token_inputs(graph: Graph) -> tuple[str, ...]:
    """`tok`, and `pos` where the program has it, one Int a step; empty for a program that takes no tokens."""
    fed = tuple(leaf.name for leaf in graph.leaves if leaf.name in ("tok", "pos") and _takes_a_number(leaf, graph))
    return fed if "tok" in fed else ()


def _takes_a_number(leaf: Leaf, graph: Graph) -> bool:
    return not leaf.state and not leaf.value.real and leaf.value.shape == (graph.steps, 1)
