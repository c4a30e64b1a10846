"""Solving a shape rule: the sizes of its symbols from the operands' shapes, or what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from logos.op import Op, Shapes, factors

Shape = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a rule does not hold. `code` is the refusal's; `hole` is where to point, None for the sentence."""

    code: str
    what: str
    hole: str | None = None


@dataclass(frozen=True)
class Solution:
    """The symbols' sizes as far as known shapes tell them, and the misfits."""

    rule: Shapes
    sizes: Mapping[str, int]
    misfits: tuple[Misfit, ...]

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
    present = {*names, *counts}
    solutions = [_solve(rule, names, shapes, counts) for rule in rules_for(op, present)]
    for solution in solutions:
        if not solution.misfits:
            return solution
    if len(solutions) > 1:
        expected = " or ".join(solution.rule.text for solution in solutions)
        misfit = _shapes_misfit(expected, names, shapes)
        return Solution(solutions[0].rule, {}, (misfit,))
    return solutions[0]


def _solve(
    rule: Shapes, names: Mapping[str, str], shapes: Mapping[str, Shape | None], counts: Mapping[str, int]
) -> Solution:
    sizes = dict(counts)
    dimensions = []
    for hole, dims in rule.operands.items():
        shape = shapes.get(hole)
        if shape is not None:
            dimensions += [(hole, axis, dims[axis], shape[axis]) for axis in (0, 1)]
    misfits = _settle(dimensions, sizes, names)
    wrong = [misfit.what for misfit in misfits if misfit.code == "shapes-do-not-fit"]
    if wrong:
        whole = _shapes_misfit(rule.text, names, shapes)
        misfits = [Misfit(whole.code, f"{whole.what}, where {wrong[0]}")]
    if not misfits:
        misfits = [*_divisions(rule, sizes), *_limits(rule, sizes, counts)]
    return Solution(rule, sizes, tuple(misfits))


def _settle(
    dimensions: list[tuple[str, int, str, int]], sizes: dict[str, int], names: Mapping[str, str]
) -> list[Misfit]:
    """Fixes symbols one unknown at a time, until no dimension tells a new one."""
    waiting, misfits = list(dimensions), []
    while True:
        later = []
        for hole, axis, dimension, size in waiting:
            axis_name = ("rows", "columns")[axis]
            number, symbols = factors(dimension)
            unknown = [symbol for symbol in symbols if symbol not in sizes]
            for symbol in symbols:
                number *= sizes.get(symbol, 1)
            if len(unknown) > 1:
                later.append((hole, axis, dimension, size))
            elif not unknown:
                if number != size:
                    due = dimension if dimension == str(number) else f"{dimension} = {number}"
                    what = f"{names[hole]} has {size} {axis_name} and {due} is due"
                    misfits.append(Misfit("shapes-do-not-fit", what, hole))
            elif size % number:
                factor = dimension.replace(f"*{unknown[0]}", "").replace(f"{unknown[0]}*", "")
                label = factor if factor == str(number) else f"{factor} = {number}"
                what = f"{label} does not divide the {size} {axis_name} of {names[hole]}"
                misfits.append(Misfit("does-not-divide", what, hole))
            else:
                sizes[unknown[0]] = size // number
        if misfits or len(later) == len(waiting):
            return misfits
        waiting = later


def _divisions(rule: Shapes, sizes: Mapping[str, int]) -> list[Misfit]:
    found = []
    for part, whole in rule.divides:
        if part in sizes and whole in sizes and sizes[whole] % sizes[part]:
            what = f"{part} = {sizes[part]} does not divide {whole} = {sizes[whole]}"
            found.append(Misfit("does-not-divide", what, part))
    return found


def _limits(rule: Shapes, sizes: Mapping[str, int], counts: Mapping[str, int]) -> list[Misfit]:
    found = []
    for low, high in rule.most:
        a, b = evaluate(low, sizes), evaluate(high, sizes)
        if a is not None and b is not None and a > b:
            what = f"{low} = {a} is more than {high} = {b}"
            found.append(Misfit("more-than-there-are", what, low if low in counts else None))
    return found


def _shapes_misfit(expected: str, names: Mapping[str, str], shapes: Mapping[str, Shape | None]) -> Misfit:
    said = []
    for hole, name in names.items():
        shape = shapes.get(hole)
        if shape is not None:
            said.append(f"{hole} {name} is {shape[0]} by {shape[1]}")
    return Misfit("shapes-do-not-fit", f"the shapes do not fit: {', '.join(said)}; expected {expected}")
