"""What differs from step to step in a program, what of it every step needs, and what T steps at once cannot give."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from logos.graph import Graph, Node, Value, token_inputs
from logos.op import Op, TypeRule
from logos.refusal import Refusal
from logos.source import Place, Span, Spot

NEXT = "run it one step at a time (`--prefill off`)"


@dataclass(frozen=True)
class Variation:
    """A graph of one step, seen from many steps of it.

    rows  the values asked for at every step; `last` those asked for at the last one
    """

    graph: Graph
    rows: Collection[Value] = ()
    last: Collection[Value] = ()

    @cached_property
    def fed(self) -> frozenset[Value]:
        """The leaves that come with each step."""
        names = token_inputs(self.graph)
        return frozenset(leaf.value for leaf in self.graph.leaves if leaf.name in names)

    @cached_property
    def position(self) -> Value | None:
        """The one row number that counts up from step to step."""
        return next((value for value in self.fed if value.name == "pos"), None)

    @cached_property
    def states(self) -> frozenset[str]:
        return frozenset(leaf.name for leaf in self.graph.states)

    @cached_property
    def writers(self) -> dict[str, list[Node]]:
        """The nodes that write each state."""
        found: dict[str, list[Node]] = {name: [] for name in self.states}
        for node in self.graph.nodes:
            for value in node.writes.values():
                found[value.name].append(node)
        return found

    @cached_property
    def varying(self) -> frozenset[Value]:
        """The values that may differ from step to step; of a state, all its versions but one that is set alike each
        time."""
        found = {*self.fed, *(leaf.value for leaf in self.graph.states)}
        for node in self.graph.nodes:
            sets = node.op.rows.sets if node.op.rows is not None else {}
            others = [operand for hole, operand in node.operands.items() if hole not in node.writes]
            if any(operand in found for operand in others) or any(hole not in sets for hole in node.writes):
                found.update(node.results)
        return frozenset(found)

    @cached_property
    def every(self) -> frozenset[int]:
        """The nodes whose results every step needs: those of the states and of `rows`, and those that could be an
        error; what varies beside them is due at the last step alone."""
        found: set[int] = set()
        pending = [node for node in self.graph.nodes if self._due(node)]
        while pending:
            node = pending.pop()
            if node.index not in found:
                found.add(node.index)
                makers = (self.graph.producer(value) for value in node.inputs if value in self.varying)
                pending += [maker for maker in makers if maker is not None]
        return frozenset(found)

    def _due(self, node: Node) -> bool:
        if not self.varying.intersection(node.results):
            return False
        if any(not self.overwrites(node, hole) for hole in node.writes) or node.out in self.rows:
            return True
        rows = [node.operands[hole] for hole in node.op.indexes]
        if any(row in self.varying and row not in self.fed for row in rows):
            return True
        # Sums and products of Int may overflow; what takes one operand alone moves or chooses.
        whole = node.out is not None and not node.out.real
        return whole and node.op.type is TypeRule.SAME and len(node.op.tensors) > 1

    def overwrites(self, node: Node, hole: str) -> bool:
        """Whether a node sets one and the same row of a state at every step, so that the last step's is what stays."""
        rule = node.op.rows
        return rule is not None and hole in rule.sets and node.operands[rule.sets[hole]] not in self.varying

    def refusals(self) -> Iterator[Refusal]:
        """Everything that keeps T steps at once from equalling T single steps."""
        lost: dict[Op, list[Span]] = {}
        for node in self.graph.nodes:
            if node.index in self.every and node.op.rows is None:
                lost.setdefault(node.op, []).append(node.span)
        for op, places in lost.items():
            what = f"the op {op.name} has no rule for many steps at once"
            yield Refusal("no-row-rule", what, places[0], NEXT, tuple(places[1:]))
        yield from self._asked()
        for node in self.graph.nodes:
            yield from (_refusal(node.span, what) for what in self._faults(node))

    def _asked(self) -> Iterator[Refusal]:
        whole = Spot(self.graph.source.name)
        before = {leaf.value for leaf in self.graph.states}
        for value in dict.fromkeys(self.rows):
            if value.name in self.states:
                yield _refusal(whole, f"the state {value.name} is asked for at every step")
        shown: list[tuple[Value, Place]] = [(shown.value, shown.span) for shown in self.graph.shows]
        for value, place in (*shown, *((value, whole) for value in self.last)):
            if value in before:
                yield _refusal(place, f"what {value.name} was before the last step is asked for")

    def _faults(self, node: Node) -> Iterator[str]:
        for hole, state in node.writes.items():
            if self.writers[state.name][0] is not node:
                yield f"{state.name} is written a second time in a step"
            yield from self._of_write(node, hole)
        for hole, operand in node.operands.items():
            if isinstance(operand, Value) and operand in self.varying and hole not in node.writes:
                if operand.name in self.states and operand.version == 0:
                    yield f"{operand.name} is read above the sentence that writes it"
                elif node.index in self.every:
                    yield from self._of_read(node, hole, operand)
        if node.index in self.every and node.out is not None and node.out.rows != 1:
            yield f"{node.out.name} has {node.out.rows} rows at every step"

    def _of_write(self, node: Node, hole: str) -> Iterator[str]:
        row = node.operands[node.op.rows.sets[hole]] if node.op.rows and hole in node.op.rows.sets else None
        if isinstance(row, Value) and row in self.varying and row != self.position:
            yield f"{node.op.name} writes row {row.name} of {node.writes[hole].name}; pos alone counts up step by step"

    def _of_read(self, node: Node, hole: str, value: Value) -> Iterator[str]:
        rule = node.op.rows
        if rule is None:
            return
        if value.name in self.states:
            if not self._reads_to_position(node, hole, value):
                yield f"{node.op.name} reads of {value.name} what each step alone has of it"
        elif hole not in rule.holes:
            yield f"{node.op.name} takes one {hole} for all steps, and {value.name} differs from step to step"

    def _reads_to_position(self, node: Node, hole: str, state: Value) -> bool:
        """Whether a node reads the rows 0 to `pos` of a state of which each step sets row `pos`: what the steps to come
        have set already lies beyond."""
        rule, writer = node.op.rows, self.graph.producer(state)
        if rule is None or hole not in rule.reads or writer is None or writer.op.rows is None:
            return False
        (written,) = [own for own, value in writer.writes.items() if value == state]
        if written not in writer.op.rows.sets or self.position is None:
            return False
        return node.operands[rule.reads[hole]] == self.position == writer.operands[writer.op.rows.sets[written]]


def _refusal(place: Place, what: str) -> Refusal:
    return Refusal("steps-not-at-once", what, place, NEXT)
