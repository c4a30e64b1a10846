"""What an op is: one declaration from which parser, checks, printer, reference and documentation are derived."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logos.loops.records import Repeat


class Hole(Enum):
    """What may stand at a hole of a sentence."""

    TENSOR = "name"
    INDEX = "name of a 1 by 1 Int tensor, or a row counted from 0"
    COUNT = "count"
    VALUE = "value"
    NEW = "new name"
    TYPE = "type"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a pattern: a literal, or a hole by name."""

    text: str
    hole: Hole | None = None


@dataclass(frozen=True)
class Pattern:
    """A sentence with holes (upper-case words) and optional parts in square brackets, in a fixed order.

    `variants` are the flat word sequences, one for each choice of optional parts, fullest first.
    """

    text: str
    kinds: Mapping[str, Hole] = field(default_factory=dict)

    def _word(self, text: str) -> Word:
        if not re.fullmatch(r"[A-Z][A-Z0-9]*", text):
            return Word(text)
        return Word(text, self.kinds.get(text, Hole.TENSOR))

    @cached_property
    def parts(self) -> tuple[tuple[bool, tuple[Word, ...]], ...]:
        """(optional, words) runs in order."""
        runs = []
        for optional, plain in re.findall(r"\[([^\]]*)\]|([^\[\]]+)", self.text):
            words = tuple(self._word(word) for word in (optional or plain).split())
            if words:
                runs.append((bool(optional), words))
        return tuple(runs)

    def part_of(self, hole: str) -> str:
        """The words of the part that has a hole, such as `with weight W`."""
        return next(" ".join(word.text for word in words) for _, words in self.parts
                    if any(word.hole is not None and word.text == hole for word in words))  # fmt: skip

    @cached_property
    def variants(self) -> tuple[tuple[Word, ...], ...]:
        choices = [((words, ()) if optional else (words,)) for optional, words in self.parts]
        return tuple(sum(choice, ()) for choice in product(*choices))

    @cached_property
    def holes(self) -> tuple[Word, ...]:
        """Every hole, in the sentence's order."""
        return tuple(word for _, words in self.parts for word in words if word.hole is not None)


@dataclass(frozen=True)
class Shapes:
    """One shape rule as data: `A (m, k), B (k, n) -> (m, n)`.

    A dimension is a product of symbols and numbers (`H*hd`); counts of the sentence are symbols too. The rule holds
    where every hole of `given` is present and none of `absent`. `equal` and `most` are further conditions on
    symbols: `divides` pairs (a divides b), `most` pairs (a is at most b).
    """

    text: str
    given: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    divides: tuple[tuple[str, str], ...] = ()
    most: tuple[tuple[str, str], ...] = ()

    @cached_property
    def operands(self) -> dict[str, tuple[str, str]]:
        head = self.text.split("->")[0]
        return {
            name: (rows.replace(" ", ""), columns.replace(" ", ""))
            for name, rows, columns in re.findall(r"([A-Z][A-Z0-9]*) *\(([^,()]+),([^,()]+)\)", head)
        }

    @cached_property
    def out(self) -> tuple[str, str] | None:
        if "->" not in self.text:
            return None
        rows, columns = self.text.split("->")[1].strip(" ()").split(",")
        return rows.strip(), columns.strip()


def factors(dimension: str) -> tuple[int, tuple[str, ...]]:
    """A dimension as its number and its symbols: `2*half` is (2, ("half",))."""
    number, symbols = 1, []
    for part in dimension.split("*"):
        if part.isdigit():
            number *= int(part)
        else:
            symbols.append(part)
    return number, tuple(symbols)


class TypeRule(Enum):
    """The type of OUT. REAL: a function of reals. SAME: Int when every tensor operand is Int, else Real."""

    SAME = "same"
    REAL = "real"
    INT = "int"


@dataclass(frozen=True)
class Rows:
    """How an op makes T steps at once, where operands of one row a step hold T rows, one for each step.

    holes    the holes that may hold T rows: tensors, and rows given by a variable (then T by 1 of Int)
    rowwise  the rows of the op's own operands do not act on each other: where its shapes take T rows, the op is its
             own rule
    value    the op on T rows: called like the op's value, but every hole of `holes` that is there has T rows (a row
             hole is an array of T integers). Returns OUT of T rows and, for an op that writes, its states after the
             last step. None: the op's value step after step, states carried
    sets     state → the row hole: the op writes this row of it and neither reads nor writes another
    reads    operand → the row hole: the op reads its rows 0 to this one and no other
    """

    holes: tuple[str, ...]
    rowwise: bool = False
    value: Callable[..., Any] | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoopForm:
    """The form of a sentence that loops are asked for: the holes that it has, the shape rule that holds for it, and the
    row holes that are numbers in the sentence, not variables."""

    present: frozenset[str]
    rule: Shapes
    literal: frozenset[str] = frozenset()

    def row(self, hole: str) -> str:
        """The row at a hole, counted from 0, as an expression of a loop."""
        return hole if hole in self.literal else f"item 1, 1 of {hole}"


@dataclass(frozen=True, eq=False)
class Op:
    """An operation of the language, declared once.

    name       as messages and tables call it
    pattern    the sentence after `Let OUT be`; with `statement` True the whole sentence (`Set row P of T to R`)
    shapes     the shape rules, tried in order
    type       the type rule of OUT
    value      the reference semantics: a function of the holes by name (numpy arrays, float64 or int64; counts and
               literals as Python numbers; None for an absent optional part) that returns OUT, or, for an op that
               writes, (OUT, new states by hole); a statement returns the new states alone. Its docstring is the
               op's reference page. It may raise ArithmeticError with a message for a value that has no meaning.
    counts, values, indexes   the holes that are counts; literals with their defaults; rows, each with the symbol
               that bounds it (INDEX holes take an integer literal too, unless in `variables`)
    writes     the holes of states that the op writes
    exact      True where Int is computed exactly; otherwise an Int operand counts as Real
    integers   tensor holes that must be Int (1 by 1): rows given by a variable only
    requires   hole → hole that must be present with it
    negative   holes that noise fills with −|u| (the rate of a decay)
    rows       how T steps are made at once; None where nobody said, and programs run it one step at a time
    loops      what the sentence stands for: one loop, as text, whose tensors are called as the holes and whose sizes
               are the symbols of the form's shape rule, the counts and literals of the sentence, and for a pair of
               `divides` the quotient (`H_per_KV`). None where nobody said
    other_loops   loops that say the same in another way, which are read as the op too
    block      of a loop in a program that no op computes, the loop; None of every op that has a sentence
    """

    name: str
    pattern_text: str
    shapes: tuple[Shapes, ...]
    value: Callable[..., Any]
    type: TypeRule = TypeRule.REAL
    counts: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    indexes: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    exact: bool = False
    requires: Mapping[str, str] = field(default_factory=dict)
    negative: tuple[str, ...] = ()
    statement: bool = False
    rows: Rows | None = None
    loops: Callable[[LoopForm], str] | None = None
    other_loops: tuple[Callable[[LoopForm], str], ...] = ()
    block: Repeat | None = None

    @cached_property
    def pattern(self) -> Pattern:
        """The whole sentence's pattern, `Let OUT be …` included."""
        kinds = dict.fromkeys(self.counts, Hole.COUNT) | dict.fromkeys(self.values, Hole.VALUE)
        for hole in self.indexes:
            kinds[hole] = Hole.TENSOR if hole in self.variables else Hole.INDEX
        if self.statement:
            return Pattern(self.pattern_text, kinds)
        return Pattern(f"Let OUT be {self.pattern_text}", kinds | {"OUT": Hole.NEW})

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The holes of tensor operands, in the sentence's order; rows given by a variable are none."""
        holes = self.pattern.holes
        return tuple(word.text for word in holes if word.hole is Hole.TENSOR and word.text not in self.indexes)

    def table(self, index: str) -> str:
        """The operand whose rows a row hole counts."""
        symbol = self.indexes[index]
        return next(hole for hole, dims in self.shapes[0].operands.items() if dims[0] == symbol)

    @property
    def doc(self) -> str:
        return self.value.__doc__ or ""

    def __repr__(self) -> str:
        return f"Op({self.name!r})"


def collisions(patterns: Mapping[str, Pattern]) -> Iterator[tuple[str, str, str]]:
    """Pairs of names whose patterns could match one sentence (a name with itself: two of its variants), with it."""
    flat = [(name, variant) for name, pattern in patterns.items() for variant in pattern.variants]
    for number, (name, one) in enumerate(flat):
        for other, two in flat[:number]:
            sentence = _common(one, two)
            if sentence is not None:
                yield other, name, sentence


_NAMES = {Hole.TENSOR, Hole.NEW, Hole.INDEX, Hole.TYPE}
_NUMBERS = {Hole.COUNT, Hole.VALUE, Hole.INDEX}


def _common(one: tuple[Word, ...], two: tuple[Word, ...]) -> str | None:
    if len(one) != len(two):
        return None
    words = []
    for a, b in zip(one, two, strict=True):
        if a.hole is None and b.hole is None:
            if a.text != b.text:
                return None
            words.append(a.text)
        elif a.hole is None or b.hole is None:
            literal, hole = (a, b.hole) if a.hole is None else (b, a.hole)
            if hole not in _NAMES:
                return None
            words.append(literal.text)
        elif a.hole in _NAMES and b.hole in _NAMES:
            words.append("x")
        elif a.hole in _NUMBERS and b.hole in _NUMBERS:
            words.append("1")
        else:
            return None
    return " ".join(words)
