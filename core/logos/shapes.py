"""Solving a shape rule: the sizes of its symbols from the operands' shapes, or what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from logos.op import Op, Shapes, factors

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a rule does not hold: a refusal's `code`, `what` and `next`; `hole` is where to point, None the sentence."""

    code: str
    what: str
    next: str
    hole: str | None = None


@dataclass(frozen=True)
class Solution:
    """The symbols' sizes as far as known shapes tell them, and the misfits."""

    rule: Shapes
    sizes: Mapping[str, int]
    misfits: tuple[Misfit, ...]

    @cached_property
    def out(self) -> Shape | None:
        """OUT's shape; None where the rule makes none or an unknown operand leaves it open."""
        if self.rule.out is None:
            return None
        rows, columns = (evaluate(dimension, self.sizes) for dimension in self.rule.out)
        return None if rows is None or columns is None else (rows, columns)


def evaluate(dimension: str, sizes: Mapping[str, int]) -> int | None:
    """A dimension's size, None where a symbol is unknown."""
    number, symbols = factors(dimension)
    for symbol in symbols:
        if symbol not in sizes:
            return None
        number *= sizes[symbol]
    return number


def rules_for(op: Op, present: Iterable[str]) -> tuple[Shapes, ...]:
    """The rules of an op for the optional parts at hand."""
    here = set(present)
    return tuple(rule for rule in op.shapes if here.issuperset(rule.given) and here.isdisjoint(rule.absent))


def solve(
    op: Op, names: Mapping[str, str], shapes: Mapping[str, Shape | None], counts: Mapping[str, int]
) -> Solution:
    """The first rule that fits; where none does, the first one's misfits.

    `names` are the operands' variables by hole, for messages; a shape of None is unknown and fits everything.
    """
    rules = rules_for(op, {*names, *counts})
    solutions = []
    for rule in rules:
        solution = _Solving(rule, names, shapes, counts).run()
        if not solution.misfits:
            return solution
        solutions.append(solution)
    if len(solutions) > 1:
        misfit = _shapes_misfit(rules, names, shapes)
        return Solution(rules[0], {}, (misfit,))
    return solutions[0]


def solve_rule(
    rule: Shapes, names: Mapping[str, str], shapes: Mapping[str, Shape | None], counts: Mapping[str, int]
) -> Solution:
    """One rule held against operands and counts, as `solve` holds each."""
    return _Solving(rule, names, shapes, counts).run()


@dataclass(frozen=True)
class _Solving:
    """One rule held against one sentence."""

    rule: Shapes
    names: Mapping[str, str]
    shapes: Mapping[str, Shape | None]
    counts: Mapping[str, int]

    def run(self) -> Solution:
        sizes = dict(self.counts)
        # Counts that contradict each other make every shape that follows from them wrong: they are all there is to say.
        misfits = self.divisions(sizes)
        if not misfits:
            misfits = [*self.limits(sizes), *self.settle(sizes)]
        if not misfits:
            misfits = [*self.divisions(sizes), *self.limits(sizes)]
        return Solution(self.rule, sizes, tuple(misfits))

    def dimensions(self) -> list[tuple[str, int, str, int]]:
        """(hole, axis, dimension, size) for every operand of known shape."""
        found = []
        for hole, dims in self.rule.operands.items():
            shape = self.shapes.get(hole)
            if shape is not None:
                found += [(hole, axis, dims[axis], shape[axis]) for axis in (0, 1)]
        return found

    def settle(self, sizes: dict[str, int]) -> list[Misfit]:
        """Fixes symbols one unknown at a time, until no dimension tells a new one."""
        waiting = self.dimensions()
        undivided: dict[str, Misfit] = {}
        while True:
            later = []
            for hole, axis, dimension, size in waiting:
                number, symbols = factors(dimension)
                unknown = [symbol for symbol in symbols if symbol not in sizes]
                for symbol in symbols:
                    number *= sizes.get(symbol, 1)
                if len(unknown) > 1:
                    later.append((hole, axis, dimension, size))
                elif not unknown:
                    if number != size:
                        where = f": {self.names[hole]} has {_counted(size, axis)}, not {_valued(dimension, number)}"
                        return [_shapes_misfit((self.rule,), self.names, self.shapes, where)]
                elif size % number:
                    known = "*".join(part for part in dimension.split("*") if part != unknown[0])
                    undivided.setdefault(known, self.undivided(known, number, hole, axis, size))
                else:
                    sizes[unknown[0]] = size // number
            if undivided or len(later) == len(waiting):
                return list(undivided.values())
            waiting = later

    def undivided(self, known: str, number: int, hole: str, axis: int, size: int) -> Misfit:
        what = f"{_valued(known, number)} does not divide the {_counted(size, axis)} of {self.names[hole]}"
        next_ = f"change {self.deciding(known)}, or the shape of {self.names[hole]}, so that it divides"
        what += "".join(
            f"; {symbol} is the {_counted(size, axis)} of {self.names[hole]}"
            for symbol, (hole, axis, size) in self.sayers(known).items()
        )
        return Misfit("does-not-divide", what, next_, known if known in self.counts else hole)

    def deciding(self, dimension: str) -> str:
        """What of the sentence decides a dimension: its counts, and the variables whose shapes say the rest."""
        said = self.sayers(dimension)
        symbols = dict.fromkeys(factors(dimension)[1])
        return " or ".join(f"the shape of {self.names[said[s][0]]}" if s in said else s for s in symbols)

    def sayers(self, dimension: str) -> dict[str, tuple[str, int, int]]:
        """The symbols of a dimension that no word of the sentence says, each with the (hole, axis, size) that does:
        the simplest one."""
        found: dict[str, tuple[str, int, int]] = {}
        for hole, axis, other, size in sorted(self.dimensions(), key=lambda one: len(factors(one[2])[1])):
            for symbol in set(factors(other)[1]) & set(factors(dimension)[1]) - set(self.counts):
                found.setdefault(symbol, (hole, axis, size))
        return found

    def divisions(self, sizes: Mapping[str, int]) -> list[Misfit]:
        found = []
        for part, whole in self.rule.divides:
            if part in sizes and whole in sizes and sizes[whole] % sizes[part]:
                what = f"{part} = {sizes[part]} does not divide {whole} = {sizes[whole]}"
                next_ = f"change {part} or {whole} so that it divides"
                found.append(Misfit("does-not-divide", what, next_, part if part in self.counts else None))
        return found

    def limits(self, sizes: Mapping[str, int]) -> list[Misfit]:
        found = []
        for low, high in self.rule.most:
            a, b = evaluate(low, sizes), evaluate(high, sizes)
            if a is not None and b is not None and a > b:
                what = f"{low} = {a} is more than {high} = {b}"
                if low not in self.counts:
                    what += f"; expected {_expected(self.rule, self.names)}"
                next_ = f"make {low} smaller, or {high} larger"
                if low not in self.counts or high not in self.counts:
                    next_ = f"change {self.deciding(low)}, or {self.deciding(high)}, so that it is not"
                found.append(Misfit("more-than-there-are", what, next_, low if low in self.counts else None))
        return found


def _valued(dimension: str, number: int) -> str:
    return dimension if dimension == str(number) else f"{dimension} = {number}"


def _counted(size: int, axis: int) -> str:
    return f"{size} {('row', 'column')[axis]}{'' if size == 1 else 's'}"


def _expected(rule: Shapes, names: Mapping[str, str]) -> str:
    """The rule's text, of the operands that the sentence has."""
    here = [(hole, *dimensions) for hole, dimensions in rule.operands.items() if hole in names]
    operands = ", ".join(f"{hole} ({rows}, {columns})" for hole, rows, columns in here)
    return operands if rule.out is None else f"{operands} -> ({rule.out[0]}, {rule.out[1]})"


def _shapes_misfit(
    rules: Iterable[Shapes], names: Mapping[str, str], shapes: Mapping[str, Shape | None], where: str = ""
) -> Misfit:
    said = []
    for hole, name in names.items():
        shape = shapes.get(hole)
        if shape is not None:
            said.append(f"{name} ({hole}) is {shape[0]} by {shape[1]}")
    expected = " or ".join(_expected(rule, names) for rule in rules)
    what = f"the shapes do not fit: {', '.join(said)}; expected {expected}{where}"
    return Misfit("shapes-do-not-fit", what, "change an operand or its declaration so that the shapes fit")
