"""Prompts on the reference machine, many steps at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logos.graph import Graph, Operand, Value, token_inputs
from logos.passes.unroll import Unrolled, unroll
from logos.reference import Array, Machine, evaluate
from logos.refusal import Refused


@dataclass(frozen=True)
class Chunk:
    """Some steps made: how many; by tap, each step's value of those asked for; the last step's values by version (of a
    state, what it leaves)."""

    steps: int
    arrays: Mapping[str, Sequence[Array]]
    last: Mapping[Value, Array]


class Prefill:
    """Makes the steps of given tokens, at most `steps` at once; `rows` are the taps wanted at every step, `last` those
    wanted of the last one.

    Refused: a program of which that cannot be done (`no-row-rule`, `steps-not-at-once`).
    """

    def __init__(self, graph: Graph, steps: int, rows: Collection[str] = (), last: Collection[str] = ()) -> None:
        self.graph, self.steps, self.rows = graph, steps, tuple(rows)
        self._last = tuple(graph.taps[tap] for tap in last)
        self._passes: dict[int, _Pass] = {}
        self._pass(steps)
        indexes = ((node, hole, symbol) for node in graph.nodes for hole, symbol in node.op.indexes.items())
        self._limits = [(node.operands[hole], node.sizes[symbol]) for node, hole, symbol in indexes]

    def _pass(self, steps: int) -> _Pass:
        if steps not in self._passes:
            wanted = {tap: self.graph.taps[tap] for tap in self.rows}
            self._passes[steps] = _Pass(unroll(self.graph, steps, wanted.values(), self._last), wanted)
        return self._passes[steps]

    def chunks(self, machine: Machine, tokens: Sequence[int]) -> Iterator[Chunk]:
        """The steps of the tokens, from position 0 on, the machine's states carried. Refused as by `Machine.step`."""
        taken = token_inputs(self.graph)
        for first in range(0, len(tokens), self.steps):
            ids = np.array(tokens[first : first + self.steps], dtype=np.int64)
            numbers = {"tok": ids, "pos": np.arange(first, first + len(ids))}
            fed = {name: numbers[name].reshape(-1, 1) for name in taken}
            chunk = self._at_once(machine, fed, len(ids))
            yield from self._singly(machine, fed, len(ids)) if chunk is None else (chunk,)

    def _at_once(self, machine: Machine, fed: Mapping[str, Array], steps: int) -> Chunk | None:
        """None, with the machine as it was, where the steps are to be made singly: an error is then said at its own
        step and sentence, and one that the last step's row alone would hide is found."""
        if steps == 1 or not all(self._inside(fed, row, rows) for row, rows in self._limits):
            return None
        try:
            return self._pass(steps).run(machine, fed)
        except (Refused, ArithmeticError):
            return None

    def _inside(self, fed: Mapping[str, Array], row: Operand, rows: int) -> bool:
        if not isinstance(row, Value) or row.version or row.name not in fed:
            return True
        return bool(fed[row.name].min() >= 0 and fed[row.name].max() < rows)

    def _singly(self, machine: Machine, fed: Mapping[str, Array], steps: int) -> Iterator[Chunk]:
        for step in range(steps):
            now = machine.step({name: array[step : step + 1] for name, array in fed.items()})
            yield Chunk(1, {tap: (now[self.graph.taps[tap]],) for tap in self.rows}, now)


class _Pass:
    """One pass over the weights for so many steps. A value goes when its last reader has run, but for its last row."""

    def __init__(self, unrolled: Unrolled, wanted: Mapping[str, Value]) -> None:
        graph, single = unrolled.graph, unrolled.single
        self.unrolled, self.wanted = unrolled, wanted
        self._newest = {leaf.name: single.newest()[leaf.name] for leaf in single.states}
        self._tails = frozenset(unrolled.last.values())
        before = {leaf.value for leaf in single.states}
        self._single = {unrolled.rows(value): value for value in single.taps.values() if value not in before}
        kept = {*self._newest.values(), *map(unrolled.rows, wanted.values())}
        final = {value: node.index for node in graph.nodes for value in (*node.results, *node.inputs)}
        self._ending: dict[int, list[Value]] = {}
        for value, index in final.items():
            if value not in kept:
                self._ending.setdefault(index, []).append(value)

    def run(self, machine: Machine, fed: Mapping[str, Array]) -> Chunk:
        given = {**machine.values, **fed, **machine.states}
        now = {leaf.value: given[leaf.name] for leaf in self.unrolled.graph.leaves}
        last: dict[Value, Array] = {}
        with np.errstate(all="ignore"):
            for node in self.unrolled.graph.nodes:
                if node.out in self._tails and not np.isfinite(now[node.inputs[0]]).all():
                    raise ArithmeticError("steps before the last, whose results are not made, may be an error")
                now.update(evaluate(node, now))
                for value in self._ending.get(node.index, ()):
                    self._keep(value, now.pop(value), last)
        machine.states.update({name: now[value] for name, value in self._newest.items()})
        steps = self.unrolled.steps
        rows = {tap: now[self.unrolled.rows(value)] for tap, value in self.wanted.items()}
        arrays = {
            tap: [array[step : step + 1] for step in range(steps)]
            if self.wanted[tap] in self.unrolled.stepwise
            else [array] * steps
            for tap, array in rows.items()
        }
        for value, array in now.items():
            self._keep(value, array, last)
        return Chunk(steps, arrays, last)

    def _keep(self, value: Value, array: Array, last: dict[Value, Array]) -> None:
        single = self._single.get(value)
        if single is not None:
            last[single] = array[-1:].copy() if single in self.unrolled.stepwise else array
