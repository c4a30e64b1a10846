"""What a target makes of a program on its device: stages of launches, their bytes, its memory; and sums by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logos.graph import Graph, Value

_LAYER = re.compile(r"(?<![0-9])[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True)
class DeviceStage:
    """Operations that act as one.

    nodes     their indexes in the graph, in program order
    launches  the kernels that are launched, by name, in order
    reads     bytes of the program's values that it reads in a step, at the whole context
    writes    the same of those that it writes
    step      the fusion step that joined them; empty for an operation alone
    marks     the steps that changed its launches without joining operations
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

    @property
    def steps(self) -> tuple[str, ...]:
        """All steps that act."""
        return (*((self.step,) if self.step else ()), *self.marks)


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """The stages in the order in which they run; the device's memory by class, in bytes; `notes` on how weights are
    kept and multiplied, what that costs and what else could be chosen, a line each."""

    stages: tuple[DeviceStage, ...]
    memory: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()


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
