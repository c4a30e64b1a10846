"""The sentences of a program as records, in order: what `read_tensor_sentences` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logos.loops.records import Repeat
from logos.op import Hole, Op
from logos.source import Source, Span


def _span() -> Span:
    """A span for a record made without a source."""
    return Span(Source("program", ""), 1, 1, 1)


@dataclass(frozen=True)
class Sentence:
    """What every record has: its place, and the place of each hole. Neither counts in a comparison."""

    span: Span = field(default_factory=_span, compare=False, repr=False, kw_only=True)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    def at(self, hole: str) -> Span:
        """The place of a hole's word, or the whole sentence."""
        return self.spans.get(hole, self.span)


@dataclass(frozen=True)
class Declaration(Sentence):
    """`Let V be a R by C tensor of Real.` (`real` False: of Int)."""

    variable: str
    rows: int
    columns: int
    real: bool


@dataclass(frozen=True)
class Fill(Sentence):
    """`Set item N of V to VALUE.` `index` is N, counted from 1; `value` is an int where it has neither point nor
    exponent. `text` is the value as written (−0 is a Real of its own)."""

    variable: str
    index: int
    value: int | float
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Use:
    """An op with what stands at its holes: variables by name, literals as numbers, None for an absent part."""

    decl: Op
    operands: Mapping[str, str | int | float | None]

    @property
    def name(self) -> str:
        return self.decl.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables it reads, in the sentence's order."""
        return tuple(operand for operand in self.operands.values() if isinstance(operand, str))

    @property
    def writes(self) -> tuple[str, ...]:
        """The states it writes."""
        return tuple(str(self.operands[hole]) for hole in self.decl.writes)


@dataclass(frozen=True)
class Operation(Sentence):
    """`Let OUT be <op>.`, or a statement that only writes (`Set row`), whose `out` is the state it writes."""

    out: str
    op: Use


@dataclass(frozen=True)
class Loop(Sentence):
    """`Repeat for I from A to B:` and its body: a loop at the left edge. The place of a hole is that of the first use
    of the tensor of that name."""

    loop: Repeat


@dataclass(frozen=True)
class Show(Sentence):
    """`Show V.`, `Show item N of V.` (from 1), `Show row P of V.` (from 0)."""

    variable: str
    item: int | None = None
    row: int | None = None


@dataclass(frozen=True)
class Broken(Sentence):
    """A refused sentence; `out` is the name it seems to make, whose shape is then unknown."""

    out: str | None


AnySentence = Declaration | Fill | Operation | Loop | Show | Broken

HOLE_WORDS: Mapping[Hole, str] = {
    Hole.TENSOR: "a name",
    Hole.NEW: "a name",
    Hole.INDEX: "a name or a row counted from 0",
    Hole.COUNT: "a count",
    Hole.VALUE: "a value",
    Hole.TYPE: "Real or Int",
}
