"""What a target makes of a program on its device: stages of launches, their bytes, its memory; and sums by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from logos.graph import Graph, Value

_LAYER = re.compile(r"(?<![0-9])[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True)
class Work:
    """What decides how long a step takes, or a part of one.

    weights       bytes of weights and tables that are read, whatever the position
    states        bytes of states that are read and written, whatever the position
    cached        bytes of attention's tables that are read for each position that is attended to
    flops         multiplications and additions, whatever the position
    cached_flops  those for each position that is attended to
    """

    weights: int = 0
    states: int = 0
    cached: int = 0
    flops: int = 0
    cached_flops: int = 0

    def bytes_at(self, positions: int) -> int:
        """The bytes of a step that attends to so many positions."""
        return self.weights + self.states + self.cached * positions

    def flops_at(self, positions: int) -> int:
        """Its multiplications and additions."""
        return self.flops + self.cached_flops * positions


@dataclass(frozen=True, slots=True)
class Card:
    """A device that may run a step: its memory in bytes as its maker says it and what of it a program has, its
    bandwidth in bytes a second, and the seconds between one launch of a graph and the next."""

    name: str
    memory: int
    usable: int
    bandwidth: float
    gap: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A step on a card: whether its memory holds the program, and the seconds that it takes at least, of its bytes at
    the card's bandwidth and of the gaps between its launches."""

    card: Card
    fits: bool
    reading: float
    gaps: float

    @property
    def rate(self) -> float:
        """The most steps a second."""
        return 1 / (self.reading + self.gaps)


@dataclass(frozen=True, slots=True)
class DeviceStage:
    """Operations that act as one.

    nodes     their indexes in the graph, in program order
    launches  the kernels that are launched, by name, in order
    reads     bytes of the program's values that it reads in a step, at the whole context
    writes    the same of those that it writes
    step      the fusion step that joined them; empty for an operation alone
    marks     the steps that changed its launches without joining operations
    work      what decides how long it takes
    inner     the values that nothing outside reads: no memory is written for them
    notes     what else there is to say, such as how a weight is stored or why a step does not act
    """

    nodes: tuple[int, ...]
    launches: tuple[str, ...]
    reads: int
    writes: int
    step: str = ""
    inner: tuple[Value, ...] = ()
    notes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    work: Work = Work()

    @property
    def steps(self) -> tuple[str, ...]:
        """All steps that act."""
        return (*((self.step,) if self.step else ()), *self.marks)


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The stages in the order in which they run; the device's memory by class, in bytes; `notes` on how weights are
    kept and multiplied, what that costs and what else could be chosen, a line each; `cards` that may run it."""

    stages: tuple[DeviceStage, ...]
    memory: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()

    @property
    def work(self) -> Work:
        """A step's."""
        return Work(*(sum(getattr(stage.work, one.name) for stage in self.stages) for one in fields(Work)))

    def fits(self, positions: int) -> tuple[Fit, ...]:
        """A step that attends to so many positions, on each card."""
        need = sum(count for _, count in self.memory)
        launches, reading = sum(len(stage.launches) for stage in self.stages), self.work.bytes_at(positions)
        return tuple(
            Fit(card, need <= card.usable, reading / card.bandwidth, launches * card.gap) for card in self.cards
        )


@dataclass(frozen=True, slots=True)
class Sum:
    """Stages together: a layer's, by its number; those of none (None)."""

    layer: int | None
    stages: int
    launches: int
    reads: int
    writes: int


def sum_of(stages: Iterable[DeviceStage], layer: int | None = None) -> Sum:
    """What stages come to together."""
    found = tuple(stages)
    launches = sum(len(stage.launches) for stage in found)
    reads, writes = sum(stage.reads for stage in found), sum(stage.writes for stage in found)
    return Sum(layer, len(found), launches, reads, writes)


def by_layer(graph: Graph, plan: DevicePlan) -> tuple[Sum, ...]:
    """The sums of each layer in order, then of what is in none. A stage's layer is the number at the end of the leaves
    that it reads; without one, that of the values, where some leaf has it too."""
    known = {number for leaf in graph.leaves for number in _numbers([leaf.name])}
    found: dict[int | None, list[DeviceStage]] = {}
    for stage in plan.stages:
        found.setdefault(_layer(graph, stage, known), []).append(stage)
    order = sorted(found, key=lambda layer: (layer is None, layer or 0))
    return tuple(sum_of(found[layer], layer) for layer in order)


def _layer(graph: Graph, stage: DeviceStage, known: set[int]) -> int | None:
    leaves = {leaf.name for leaf in graph.leaves}
    names = [value.name for index in stage.nodes for value in graph.nodes[index].inputs]
    for chosen in ([name for name in names if name in leaves], [name for name in names if name not in leaves]):
        numbers = Counter(number for number in _numbers(chosen) if number in known)
        if numbers:
            return min(numbers, key=lambda number: (-numbers[number], number))
    return None


def _numbers(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        found = _LAYER.search(name)
        if found is not None:
            yield int(found[0])
