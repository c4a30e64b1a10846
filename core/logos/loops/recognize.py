"""Which op a loop is, with what at its holes; or the nearest op, and the first line that differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from logos.loops.check import Tensor
from logos.loops.forms import all_loops, distinct, forms_of, symbols_of
from logos.loops.records import If, Repeat, Statement, walk
from logos.loops.unify import Unifier
from logos.op import LoopForm, Op, TypeRule
from logos.shapes import solve_rule

Operands = Mapping[str, "str | int | float | None"]
_LONGEST = 100
"""Statements of a loop whose nearest op is looked for, at most."""
_Skeleton = tuple[tuple[tuple[int, str], int], ...]


@dataclass(frozen=True, slots=True)
class Nearest:
    """The op that agrees with a loop longest: how many statements do, and the line of the first that does not; None
    where all do, and shapes, types or what it makes are not the op's."""

    op: str
    agreed: int
    line: int | None


def recognize_loop(
    loop: Repeat, tensors: Mapping[str, Tensor], out: str | None, ops: tuple[Op, ...]
) -> tuple[Op, Operands] | None:
    """The op that a checked loop is, and what stands at its holes (variables by name, counts and literals as numbers,
    None for an absent part); None where it is none's.

    `tensors` are the program's tensors that it uses, `out` the one that it makes. Besides the lines, the shapes and
    types must be the op's: a product of a part of two tensors is no matmul.
    """
    mine = distinct(loop, tensors)
    for op, form, own in _candidates(ops).get(_skeleton(mine), ()):
        if (out is None) != op.statement:
            continue
        unifier = _unifier(op, form)
        if unifier.run(own, mine):
            operands = _operands(op, form, unifier, tensors, out)
            if operands is not None:
                return op, operands
    return None


def nearest_op(loop: Repeat, tensors: Mapping[str, Tensor], ops: tuple[Op, ...]) -> Nearest | None:
    """The op whose loops agree with a loop longest, line by line, and of several the one that is about as long; None
    where not even the first line does, and for a loop that is longer than any op's."""
    count = sum(1 for _ in walk((loop,)))
    if count > _LONGEST:
        return None
    mine = distinct(loop, tensors)
    best: tuple[tuple[int, int], Nearest] | None = None
    for op in ops:
        for form in forms_of(op):
            for own in _own(op, form):
                near = _near(op, form, own, mine, count)
                length = sum(1 for _ in walk((own,)))
                if near is not None and (best is None or (near.agreed, -abs(length - count)) > best[0]):
                    best = (near.agreed, -abs(length - count)), near
    return None if best is None else best[1]


def _near(op: Op, form: LoopForm, own: Repeat, mine: Repeat, count: int) -> Nearest | None:
    unifier = _unifier(op, form)
    if unifier.run(own, mine):
        return Nearest(op.name, count, None)
    agreed, statement = unifier.furthest
    return None if agreed <= 0 or statement is None else Nearest(op.name, agreed, statement.span.line)


def _unifier(op: Op, form: LoopForm) -> Unifier:
    sizes = symbols_of(op, form)
    holes = {word.text for word in op.pattern.holes} - sizes
    return Unifier(sizes, frozenset(op.values), frozenset(holes))


@lru_cache(maxsize=1024)
def _own(op: Op, form: LoopForm) -> tuple[Repeat, ...]:
    return tuple(distinct(loop) for loop in all_loops(op, form))


@lru_cache(maxsize=16)
def _candidates(ops: tuple[Op, ...]) -> Mapping[_Skeleton, list[tuple[Op, LoopForm, Repeat]]]:
    """Every form of every op, by what its statements are and how deep they stand."""
    found: dict[_Skeleton, list[tuple[Op, LoopForm, Repeat]]] = {}
    for op in ops:
        for form in forms_of(op):
            for own in _own(op, form):
                found.setdefault(_skeleton(own), []).append((op, form, own))
    return found


def _skeleton(loop: Repeat) -> _Skeleton:
    return tuple(sorted(Counter(_kinds((loop,), 0)).items()))


def _kinds(statements: tuple[Statement, ...], depth: int) -> Iterator[tuple[int, str]]:
    for statement in statements:
        yield depth, type(statement).__name__
        if isinstance(statement, (Repeat, If)):
            yield from _kinds(statement.body, depth + 1)


def _operands(
    op: Op, form: LoopForm, unifier: Unifier, tensors: Mapping[str, Tensor], out: str | None
) -> Operands | None:
    """What stands at the op's holes, where shapes and types are the op's too."""
    found, numbers = dict(unifier.tensors), dict(unifier.numbers)
    if found.pop("OUT", None) != out:
        return None
    for part, whole in form.rule.divides:
        if f"{whole}_per_{part}" in numbers and part in numbers:
            number = numbers[f"{whole}_per_{part}"] * numbers[part]
            if numbers.setdefault(whole, number) != number:
                return None
    operands: dict[str, str | int | float | None] = {}
    for word in op.pattern.holes:
        hole = word.text
        if hole == "OUT":
            continue
        value = found.get(hole, numbers.get(hole))
        if value is None and (hole in form.present or hole in op.values):
            return None
        operands[hole] = value
    counts = {hole: int(numbers[hole]) for hole in op.counts if hole in numbers}
    shapes = {hole: (tensors[name].rows, tensors[name].columns) for hole, name in found.items() if hole in op.tensors}
    solution = solve_rule(form.rule, {hole: found[hole] for hole in shapes}, shapes, counts)
    if solution.misfits or any(numbers.get(symbol, size) != size for symbol, size in solution.sizes.items()):
        return None
    made = None if out is None else tensors[out]
    if solution.out != (None if made is None else (made.rows, made.columns)):
        return None
    return operands if _types_agree(op, found, tensors, made) and _apart(op, found, out) else None


def _types_agree(op: Op, found: Mapping[str, str], tensors: Mapping[str, Tensor], made: Tensor | None) -> bool:
    """Whether rows are given by Ints alone, and OUT and the states are of the type that the op gives them."""
    rows = [tensors[found[hole]] for hole in op.indexes if hole in found]
    if any((row.rows, row.columns, row.real) != (1, 1, False) for row in rows):
        return False
    any_real = any(tensors[found[hole]].real for hole in op.tensors if hole in found)
    real = any_real if op.type is TypeRule.SAME else op.type is TypeRule.REAL
    if made is not None and made.real != real:
        return False
    written_real = any_real or not op.exact
    return all(tensors[found[hole]].real or not written_real for hole in op.writes)


def _apart(op: Op, found: Mapping[str, str], out: str | None) -> bool:
    """Whether nothing that it makes or writes is another operand too: a loop works in place, a sentence reads first."""
    names = list(found.values())
    return out not in names and all(names.count(found[hole]) == 1 for hole in op.writes)
