"""Where a run first leaves the reference machine: every stage of every step held to its bound, and to what the
reference machine makes of the stage's own operands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.bounds import BOUNDS
from logos.graph import Graph, Node, Value
from logos.measure import Gap, Measure, beyond_rounding, gap_between, largest
from logos.reference import evaluate
from logos.refusal import Refused
from logos.verification import bound_of, is_near

Array = NDArray[Any]
Found = Mapping[Value, Array]
"""What was read of a run: values over all steps, (steps, rows, columns)."""


@dataclass(frozen=True)
class Stage:
    """One node at one step.

    results   what it made, as far as it was read, against the reference machine's
    operands  what it read that stages made (of a state: in the step before), as far as it was read, against the
              reference machine's
    leaves    the other things it read, as far as they were read; not held where rounding does not explain a difference
    alone     its results against what the reference machine makes of these very operands and leaves; None where an
              operand was not read, or gives no value
    """

    step: int
    node: Node
    results: tuple[Measure, ...]
    operands: tuple[Measure, ...]
    leaves: tuple[Measure, ...]
    alone: tuple[Measure, ...] | None

    @property
    def worst(self) -> Measure:
        return max(self.results, key=lambda measure: measure.part)

    @property
    def right_alone(self) -> bool | None:
        """Whether it made what its own operands give; None where that is not known."""
        return None if self.alone is None else all(measure.holds for measure in self.alone)

    @property
    def wrong_leaves(self) -> tuple[Measure, ...]:
        return tuple(measure for measure in self.leaves if not measure.holds)


Place = tuple[int, int]
"""A stage in the order of execution: the step, from 0, and the node's index."""


@dataclass(frozen=True)
class Scan:
    """What a pass over all steps found, value by value, largest gaps alone: `apart` from the reference machine's
    values, `alone` from what it makes of each stage's own operands."""

    apart: tuple[tuple[Place, Measure], ...] = ()
    alone: tuple[tuple[Place, Measure], ...] = ()

    def joined(self, other: Scan) -> Scan:
        """This pass and one over other nodes."""
        return Scan(self.apart + other.apart, self.alone + other.alone)

    @property
    def first(self) -> Place | None:
        """The first stage beyond its bound."""
        return min((place for place, measure in self.apart if not measure.holds), default=None)

    @property
    def first_alone(self) -> Place | None:
        """The first stage that did not make what its own operands give."""
        return min((place for place, measure in self.alone if not measure.holds), default=None)

    @property
    def nearest(self) -> tuple[Place, Measure] | None:
        """What comes nearest to its bound."""
        return max(self.apart, key=lambda pair: pair[1].part, default=None)

    def most_alone(self, until: Place) -> tuple[Place, Measure] | None:
        """The stage that adds most of its own, up to a place."""
        return max((pair for pair in self.alone if pair[0] <= until), key=lambda pair: pair[1].part, default=None)


@dataclass
class Comparer:
    """Compares what was read of a run with the reference machine's values, a step at a time.

    `found` are the run's values, `kinds` the dtype that each is held to.
    """

    graph: Graph
    nodes: Sequence[Node]
    found: Found
    kinds: Mapping[Value, str]
    scales: dict[Value, float] = field(default_factory=dict)
    _apart: dict[Value, list[tuple[int, Gap]]] = field(default_factory=dict)
    _alone: dict[Value, list[tuple[int, Gap]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._newest = self.graph.newest()
        self._states = {leaf.value for leaf in self.graph.states}

    def step(self, step: int, due: Mapping[Value, Array]) -> None:
        """Takes in one step: `due` are the reference machine's values."""
        for node in self.nodes:
            read = [value for value in node.results if value in self.found]
            alone = self._alone_values(node, step, due) if read else None
            for value in (*read, *self._operands(node)):
                self.scales[value] = max(self.scales.get(value, 0.0), largest(due[value]))
            for value in read:
                _keep(self._apart, value, step, self._gap(node, value, step, due, self._bound(value)))
                if alone is not None:
                    _keep(self._alone, value, step, self._gap(node, value, step, alone, self._one(node), True))

    def scan(self) -> Scan:
        """What the steps taken in show."""
        apart, alone = [], []
        for node in self.nodes:
            for value in node.results:
                for step, gap in self._apart.get(value, ()):
                    apart.append(((step, node.index), self._measure(value, gap, self._bound(value))))
                for step, gap in self._alone.get(value, ()):
                    alone.append(((step, node.index), self._measure(value, gap, self._one(node))))
        return Scan(tuple(apart), tuple(alone))

    def stage(self, node: Node, step: int, due: Mapping[Value, Array]) -> Stage:
        """A close look at one stage, after all steps were taken in."""
        read = [value for value in node.results if value in self.found]
        results = [self._measured(node, value, step, due) for value in read]
        operands = [self._measured_operand(value, step, due) for value in self._operands(node)]
        operands += self._left(node, step, due)
        values = self._alone_values(node, step, due)
        alone = None
        if values is not None:
            alone = tuple(self._measured_alone(node, value, step, values) for value in read)
        return Stage(step, node, tuple(results), tuple(operands), tuple(self._leaves(node, step, due)), alone)

    def _operands(self, node: Node) -> Iterable[Value]:
        """What a node reads that a node of the same step made, as far as it was read."""
        return [v for v in dict.fromkeys(node.inputs) if v in self.found and self.graph.producer(v) is not None]

    def _measured(self, node: Node, value: Value, step: int, due: Mapping[Value, Array]) -> Measure:
        return self._measure(value, self._gap(node, value, step, due, self._bound(value)), self._bound(value))

    def _measured_operand(self, value: Value, step: int, due: Mapping[Value, Array]) -> Measure:
        maker = self.graph.producer(value)
        assert maker is not None
        return self._measured(maker, value, step, due)

    def _left(self, node: Node, step: int, due: Mapping[Value, Array]) -> Iterable[Measure]:
        """The states that a node reads as the step before left them."""
        for value in dict.fromkeys(node.inputs):
            newest = self._newest[value.name]
            if step and value in self._states and newest in self.found:
                gap = gap_between(due[value], self.found[newest][step - 1])
                yield Measure(value, gap, self.scales.get(newest, largest(due[value])), self._bound(newest))

    def _measured_alone(self, node: Node, value: Value, step: int, values: Mapping[Value, Array]) -> Measure:
        measure = self._measure(value, self._gap(node, value, step, values, self._one(node), True), self._one(node))
        # A wrong leaf may have made all of it larger, its rounding included.
        return replace(measure, scale=max(measure.scale, largest(values[value])))

    def _measure(self, value: Value, gap: Gap | None, bound: float) -> Measure:
        return Measure(value, gap, self.scales[value], bound if value.real else 0.0)

    def _bound(self, value: Value) -> float:
        return bound_of(self.graph, self.kinds[value])

    def _one(self, node: Node) -> float:
        """The bound of one op whose operands and results are of these dtypes."""
        kinds = (self.kinds[value] for value in (*node.results, *self._operands(node)) if value in self.kinds)
        return max(BOUNDS[kind][0] for kind in kinds)

    def _leaves(self, node: Node, step: int, due: Mapping[Value, Array]) -> Iterable[Measure]:
        for value in dict.fromkeys(node.inputs):
            if self.graph.producer(value) is None and value in self.found and (value not in self._states or step == 0):
                gap = beyond_rounding(due[value], self._leaf(value, step), self.kinds[value])
                yield Measure(value, gap, largest(due[value]), 0.0)

    def _leaf(self, value: Value, step: int) -> Array:
        array = self.found[value]
        read: Array = array[min(step, len(array) - 1)]  # what no step feeds may have been read at one step alone
        return read

    def _gap(
        self, node: Node, value: Value, step: int, due: Mapping[Value, Array], bound: float, alone: bool = False
    ) -> Gap | None:
        found = self.found[value][step]
        if node.op.name == "argmax" and is_near(due[node.inputs[0]].reshape(-1), int(found.flat[0]), bound):
            return None
        return gap_between(due[value], found, nan_is_nan=alone)

    def _alone_values(self, node: Node, step: int, due: Mapping[Value, Array]) -> dict[Value, Array] | None:
        """A node's operands as the run had them, and what the reference machine makes of them; leaves that were not
        read as the reference machine has them. None where an operand was not read or gives no value."""
        values: dict[Value, Array] = {}
        for value in node.inputs:
            array = self._own(value, step, due)
            if array is None:
                return None
            values[value] = array.astype(np.float64 if value.real else np.int64)
        try:
            with np.errstate(all="ignore"):
                return {**values, **evaluate(node, values)}
        except Refused:
            return None

    def _own(self, value: Value, step: int, due: Mapping[Value, Array]) -> Array | None:
        if value in self._states and step:
            left = self.found.get(self._newest[value.name])
            return None if left is None else left[step - 1]
        if self.graph.producer(value) is not None:
            return self.found[value][step] if value in self.found else None
        return self._leaf(value, step) if value in self.found else due[value]


def _keep(kept: dict[Value, list[tuple[int, Gap]]], value: Value, step: int, gap: Gap | None) -> None:
    """Keeps a gap that is larger than the value's before: no other can be the first beyond a bound, whatever its scale
    turns out to be."""
    gaps = kept.setdefault(value, [])
    if gap is not None and (not gaps or gap.distance > gaps[-1][1].distance):
        gaps.append((step, gap))


def reads(graph: Graph, nodes: Iterable[Node]) -> tuple[Value, ...]:
    """What has to be read of a run to compare nodes with the reference machine and with their own operands, leaves
    excepted: what they make and read, and of a state what the step before left."""
    newest, states = graph.newest(), {leaf.value for leaf in graph.states}
    wanted: dict[Value, None] = {}
    for node in nodes:
        for value in (*node.results, *node.inputs):
            if value in states:
                value = newest[value.name]
            if graph.producer(value) is not None:
                wanted[value] = None
    return tuple(wanted)


def between(graph: Graph, place: Place, found: Collection[Value]) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
    """Where a fault that shows at a stage may lie: its node and those before it whose results were not read, and the
    values that were read and bound them."""
    step, index = place
    newest, states = graph.newest(), {leaf.value for leaf in graph.states}
    inside, queue = {index: graph.nodes[index]}, list(graph.nodes[index].inputs)
    border: dict[Value, int] = {}
    seen: set[Value] = set()
    while queue:
        value = queue.pop(0)
        value = newest[value.name] if value in states and step else value
        maker = graph.producer(value)
        if value in seen or maker is None:
            continue
        seen.add(value)
        if value in found:
            border[value] = maker.index
        else:
            inside[maker.index] = maker
            queue += maker.inputs
    return tuple(inside[index] for index in sorted(inside)), tuple(sorted(border, key=border.__getitem__))
