"""A graph's nodes in an order in which they may run, some of them joined into one."""

from __future__ import annotations

from collections.abc import Sequence

from logos.graph import Graph, Value


class Dataflow:
    """The nodes in an order in which each stands below what it needs; it begins as the program's own.

    A node needs what makes the values that it reads. Since a state is written in place, a write also needs every
    reader of the state as it was.
    """

    def __init__(self, graph: Graph) -> None:
        self.needed_by: list[list[int]] = [[] for _ in graph.nodes]
        self.places = list(range(len(graph.nodes)))
        self.slots: list[tuple[int, ...]] = [(index,) for index in self.places]
        read: dict[Value, list[int]] = {}
        for node in graph.nodes:
            for value in node.inputs:
                read.setdefault(value, []).append(node.index)
                maker = graph.producer(value)
                if maker is not None:
                    self.needed_by[maker.index].append(node.index)
        for node in graph.nodes:
            for hole in node.writes:
                before = node.operands[hole]
                assert isinstance(before, Value)
                for reader in read[before]:
                    if reader != node.index:
                        self.needed_by[reader].append(node.index)

    def join(self, members: Sequence[int]) -> bool:
        """Joins nodes that are not joined to others yet into one; False, with nothing changed, where another node would
        have to run between them."""
        first, last = min(self.places[index] for index in members), max(self.places[index] for index in members)
        below = self._below(members, last)
        if below is None:
            return False
        own = {self.places[index] for index in members}
        window = [place for place in range(first, last + 1) if place not in own]
        above = [self.slots[place] for place in window if place not in below]
        later = [self.slots[place] for place in window if place in below]
        gaps: list[tuple[int, ...]] = [()] * (len(members) - 1)
        for place, slot in enumerate([*above, tuple(sorted(members)), *later, *gaps], first):
            self.slots[place] = slot
            for index in slot:
                self.places[index] = place
        return True

    def _below(self, members: Sequence[int], last: int) -> set[int] | None:
        """The places up to `last` of what needs the members, members excepted; None where a member needs one of those:
        the order lets nothing beyond `last` come back."""
        own = {self.places[index] for index in members}
        below: set[int] = set()
        pending = list(members)
        while pending:
            index = pending.pop()
            for needing in self.needed_by[index]:
                place = self.places[needing]
                if place > last or place in below:
                    continue
                if place in own:
                    if self.places[index] not in own:
                        return None
                    continue
                below.add(place)
                pending += self.slots[place]
        return below

    def order(self) -> list[tuple[int, ...]]:
        """The joined nodes, each in program order, in an order in which they may run."""
        return [slot for slot in self.slots if slot]
