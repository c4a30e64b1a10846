"""Programs of one op, made from its declaration: what every target's conformance is tested on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from logos.conformance.sizes import random_sizes
from logos.op import Hole, Op, Shapes, Word
from logos.shapes import evaluate

_READERS = {
    "transpose": "transpose of {}",
    "plus": "{0} plus {0}",
    "embedding": "row 0 of {}",
    "silu": "silu of {}",
    "argmax": "argmax of {}",
}
"""What may read the state that a statement writes: a program has an output. The first that the target spells does."""


@dataclass(frozen=True)
class Form:
    """One way to say an op.

    present   the holes that its sentence has
    rule      the shape rule that the sizes are drawn from
    real      whether the operands are of Real
    literal   whether its rows are numbers in the sentence, not variables
    stored    whether the operands after the first are weights, not inputs: targets may lay those out otherwise
    reader    the op that reads what a statement writes
    """

    op: Op
    present: frozenset[str]
    rule: Shapes
    real: bool = True
    literal: bool = False
    stored: bool = False
    reader: str = "transpose"

    @property
    def rows(self) -> tuple[str, ...]:
        """The holes of rows that the sentence has."""
        return tuple(hole for hole in self.op.indexes if hole in self.present)


def variants(op: Op) -> Iterator[tuple[frozenset[str], Shapes]]:
    """Every choice of optional parts with every shape rule that holds for it."""
    seen = set()
    for words in op.pattern.variants:
        present = frozenset(word.text for word in words if word.hole is not None)
        if present in seen or any(hole in present and op.requires[hole] not in present for hole in op.requires):
            continue
        seen.add(present)
        for rule in op.shapes:
            if present.issuperset(rule.given) and present.isdisjoint(rule.absent):
                yield present, rule


def forms(op: Op, spelled: Iterable[str]) -> Iterator[Form]:
    """Every form of an op: each variant with rows by variable and by number, of Real and, where the op is exact, of
    Int. `spelled` are the ops that a target spells."""
    readers = [name for name in _READERS if name in set(spelled)]
    for present, rule in variants(op):
        by_number = any(hole in present and hole not in op.variables for hole in op.indexes)
        for real in (True, False) if op.exact else (True,):
            for literal in (False, True) if by_number else (False,):
                yield Form(op, present, rule, real, literal, reader=readers[0] if readers else "transpose")


@dataclass(frozen=True)
class Case:
    """A form in one choice of sizes: a program of its own, and a part of any other, since its names are its alone.

    `number` is part of every name, and so decides the noise that they are filled with. `sizes` are the rule's symbols
    and the op's counts, `rows` the row at each hole of one.
    """

    form: Form
    number: int
    sizes: Mapping[str, int]
    rows: Mapping[str, int]

    @property
    def op(self) -> Op:
        return self.form.op

    def name(self, hole: str) -> str:
        """The variable at a hole."""
        return f"{hole.lower()}_{re.sub('[^a-z0-9]', '_', self.op.name)}_{self.number}"

    def shape(self, hole: str) -> tuple[int, int]:
        rows, columns = (evaluate(dimension, self.sizes) or 1 for dimension in self.form.rule.operands[hole])
        return rows, columns

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The holes of the operands that the sentence has, states among them."""
        return tuple(hole for hole in self.form.rule.operands if hole in self.form.present)

    @cached_property
    def size(self) -> int:
        """How large the program is, to choose the smallest by: its elements, then its optional parts."""
        elements = sum(rows * columns for rows, columns in map(self.shape, self.operands))
        return 100 * (elements + sum(self.sizes.values())) + 10 * len(self.form.present) + self.form.stored

    @property
    def weights(self) -> tuple[str, ...]:
        """The variables that are weights."""
        if not self.form.stored:
            return ()
        read = [hole for hole in self.operands if hole not in self.op.writes]
        return tuple(map(self.name, read[1:] or read))

    @property
    def output(self) -> str:
        return self.name("read" if self.op.statement else "OUT")

    @cached_property
    def text(self) -> str:
        """The program. Its leaves have no values but rows: fill them with noise, the states too."""
        return "\n".join([f"# {self.op.name}: {self.form.rule.text}", *self._lines()]) + "\n"

    def _lines(self) -> Iterator[str]:
        for hole in self.operands:
            rows, columns = self.shape(hole)
            yield f"Let {self.name(hole)} be a {rows} by {columns} tensor of {'Real' if self.form.real else 'Int'}."
        given = [hole for hole in self.form.rows if not self._is_literal(hole)]
        yield from (f"Let {self.name(hole)} be a 1 by 1 tensor of Int." for hole in given)
        yield from (f"Set item 1 of {self.name(hole)} to {self.rows[hole]}." for hole in given)
        yield " ".join(map(self._word, _words(self.form))) + "."
        if self.op.statement:
            yield f"Let {self.output} be {_READERS[self.form.reader].format(self.name(self.op.writes[0]))}."

    def _is_literal(self, hole: str) -> bool:
        return self.form.literal and hole not in self.op.variables

    def _word(self, word: Word) -> str:
        if word.hole is None:
            return word.text
        if word.hole is Hole.COUNT:
            return str(self.sizes[word.text])
        if word.hole is Hole.INDEX and self._is_literal(word.text):
            return str(self.rows[word.text])
        return "0.001" if word.hole is Hole.VALUE else self.name(word.text)

    def renumbered(self, number: int) -> Case:
        """The same program under other names, and so on other noise."""
        return replace(self, number=number)


def _words(form: Form) -> tuple[Word, ...]:
    for words in form.op.pattern.variants:
        if frozenset(word.text for word in words if word.hole is not None) == form.present:
            return words
    raise ValueError(f"{form.op.name} has no variant with {sorted(form.present)}")


def make_case(form: Form, number: int, sizes: Mapping[str, int], random: Random) -> Case:
    """The case of a form with these sizes; its rows are drawn."""
    rows = {hole: random.randrange(sizes[form.op.indexes[hole]]) for hole in form.rows}
    return Case(form, number, sizes, rows)


def program(op: Op, present: frozenset[str], rule: Shapes, random: Random, largest: int = 6, real: bool = True) -> str:
    """A program whose one operation is `op`, of random sizes up to `largest` that the rule allows, operands declared
    (of Int unless `real`), rows filled. The rest has no value: fill it with noise."""
    sizes = random_sizes(op, rule, random, range(1, largest + 1))
    return make_case(Form(op, present, rule, real), random.randrange(1000), sizes, random).text
