"""The finding of a bisection: the first stage of a run beyond its bound, and where the fault lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from logos.bisection import Array, Comparer, Found, Place, Scan, Stage, between, reads
from logos.graph import Graph, Node, Value
from logos.measure import Measure
from logos.reference import Machine, each_step, fed_by_tokens

Read = Callable[[Sequence[Value], bool], Found]
"""Reads values of a run over all steps or, with True, over the first alone; what cannot be read is left out."""

ROOM = 2**30
"""Bytes that the values read of a run take at once: a longer program is compared in groups of stages, each of which
runs it again."""
_ITEM = 8


@dataclass(frozen=True)
class Finding:
    """What bisecting a run found.

    first    the first stage beyond its bound in the order of execution; None: every stage holds
    cause    an earlier stage, or one where all hold, that did not make what its own operands give
    fault    where the fault of `first` lies, None where all hold:
             `stage`     in the stage (`cause`, else `first`): its operands do not give what it made
             `leaf`      in a leaf that it reads, and not in what it does
             `rounding`  in no stage alone: each gives what its operands give, within the bound of one op
             `unread`    in one of the stages `inside`, whose values were not all read, behind the values of `border`
             `program`   in neither: the reference machine makes no number there itself
    most     for `rounding`: the stage that adds most of its own
    nearest  what came nearest to its bound
    read, unread   the values of stages that were read, and not
    """

    first: Stage | None
    cause: Stage | None
    fault: str | None
    inside: tuple[Node, ...]
    border: tuple[Value, ...]
    most: tuple[Place, Measure] | None
    nearest: tuple[Place, Measure] | None
    read: tuple[Value, ...]
    unread: tuple[Value, ...]
    steps: int

    @property
    def culprit(self) -> Stage | None:
        """The stage that the fault is said of."""
        return self.cause or self.first


@dataclass
class Bisection:
    """A program on the reference machine's values beside a run of it, from which `read` reads.

    `kinds` is the dtype that each value is held to, `room` the bytes of values that are read at once.
    """

    graph: Graph
    values: Mapping[str, Array]
    tokens: Sequence[int]
    read: Read
    kinds: Mapping[Value, str]
    room: int = ROOM
    progress: Callable[[int, int], None] = lambda done, total: None
    _last: Found = field(default_factory=dict)

    def find(self) -> Finding:
        """Compares every stage at every step, then looks closely at the first that errs. Refused as
        `Machine.step` says."""
        scan, seen = Scan(), set[Value]()
        groups = tuple(self._groups())
        for number, nodes in enumerate(groups):
            values = reads(self.graph, nodes)
            # Nothing but what was read last may hold on to it: the next group takes its room.
            scan = scan.joined(self._compared(nodes, self._made(values)).scan())
            seen.update(value for value in values if value in self._last)
            self.progress(number + 1, len(groups))
        return self._finding(scan, seen)

    def _finding(self, scan: Scan, seen: set[Value]) -> Finding:
        first = None if scan.first is None else self._look(scan.first)
        cause = None
        if scan.first_alone is not None and (scan.first is None or scan.first_alone < scan.first):
            cause = self._look(scan.first_alone)
        fault = most = None
        inside: tuple[Node, ...] = ()
        border: tuple[Value, ...] = ()
        culprit = cause or first
        if first is not None and culprit is not None:
            fault = _fault(culprit, scan.first_alone)
            if fault == "unread":
                inside, border = between(self.graph, (first.step, first.node.index), seen)
            elif fault == "rounding":
                most = scan.most_alone((first.step, first.node.index))
        made = [value for node in self.graph.nodes for value in node.results]
        read, unread = (tuple(value for value in made if (value in seen) is there) for there in (True, False))
        steps = max(len(self.tokens), 1)
        return Finding(first, cause, fault, inside, border, most, scan.nearest, read, unread, steps)

    def _groups(self) -> Iterator[tuple[Node, ...]]:
        """The nodes in runs of which all that is read fits the room, one node at least."""
        group: list[Node] = []
        steps = max(len(self.tokens), 1)
        for node in self.graph.nodes:
            size = sum(value.size for value in reads(self.graph, [*group, node]))
            if group and steps * size * _ITEM > self.room:
                yield tuple(group)
                group = []
            group.append(node)
        yield tuple(group)

    def _made(self, values: Sequence[Value]) -> Found:
        """What stages made, over all steps; read anew where it is not among what was read last."""
        if not self._last.keys() >= set(values):
            self._last = {}  # its memory is free before more is read
            self._last = self.read(values, False)
        return {value: self._last[value] for value in values if value in self._last}

    def _compared(self, nodes: Sequence[Node], found: Found) -> Comparer:
        comparer = Comparer(self.graph, nodes, found, self.kinds)
        for step, due in enumerate(each_step(Machine(self.graph, self.values), self.tokens)):
            comparer.step(step, due)
        return comparer

    def _look(self, place: Place) -> Stage:
        step, index = place
        node = self.graph.nodes[index]
        leaves = [value for value in dict.fromkeys(node.inputs) if self.graph.producer(value) is None]
        names = fed_by_tokens(self.graph) if self.tokens else ()
        fed = tuple(value for value in leaves if value.name in names)
        still = tuple(value for value in leaves if value.name not in names)
        found = {**self.read(still, True), **self.read(fed, False), **self._made(reads(self.graph, [node]))}
        comparer = self._compared([node], found)
        for at, due in enumerate(each_step(Machine(self.graph, self.values), self.tokens)):
            if at == step:
                return comparer.stage(node, step, due)
        raise AssertionError("a stage lies within the steps")


def _fault(culprit: Stage, first_alone: Place | None) -> str:
    if culprit.right_alone is None:
        return "unread"
    if not culprit.right_alone:
        return "stage"
    if any(measure.gap is not None and measure.gap.due != measure.gap.due for measure in culprit.results):
        return "program"  # a NaN that both make agrees with nothing, itself included
    # It is right with the leaves that the run had: was it wrong with those that are due?
    blamed = (culprit.step, culprit.node.index) == first_alone
    return "leaf" if blamed and culprit.wrong_leaves else "rounding"
