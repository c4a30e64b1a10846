"""Program text → sentences. Every fault is collected; nothing stops at the first."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from logos.grammar import Grammar, Rule, fits, make_grammar
from logos.misread import misread
from logos.op import Hole, Op
from logos.refusal import Refusal, Refused
from logos.sentences import AnySentence, Broken, Declaration, Fill, Operation, Show, Use
from logos.source import Source, Span, brief

LARGEST = 2**48
"""Rows × columns of a tensor stay below this."""
ADVISED = 200
"""Below so many refusals a misread sentence is held against every pattern to find the nearest."""


@dataclass(frozen=True)
class Parsed:
    """A program's sentences in order, and what was refused in them."""

    source: Source
    sentences: tuple[AnySentence, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence's words without its period; `starts` are the columns, from 0, where they begin."""

    span: Span
    words: tuple[str, ...]
    starts: tuple[int, ...]

    def place(self, index: int) -> Span:
        """The place of a word."""
        return Span(self.span.source, self.span.line, self.starts[index] + 1, len(self.words[index]))


def parse(source: Source, grammar: Grammar) -> Parsed:
    """Reads a whole program; see language.md for the sentences."""
    sentences: list[AnySentence] = []
    refusals: list[Refusal] = []
    for number, text in enumerate(source.lines, 1):
        stripped = text.strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        line, has_period = _words(source, number, text)
        if not has_period and not text.rstrip(" \t").endswith(":"):
            refusals.append(_no_period(line))
        rule = _match(grammar, line.words)
        if rule is not None:
            sentence, faults = _record(rule, line)
            sentences.append(sentence)
        else:
            sentences += [Broken(out, span=line.span) for out in _seems_to_make(line.words)]
            places = tuple(map(line.place, range(len(line.words))))
            faults = misread(grammar, line.span, line.words, places, advise=len(refusals) < ADVISED)
        refusals.extend(faults)
    return Parsed(source, tuple(sentences), tuple(refusals))


def read_tensor_sentences(source: str, ops: Iterable[Op] | None = None) -> tuple[AnySentence, ...]:
    """A program's sentences in order: `Declaration(variable, rows, columns, real)`, `Fill(variable, index, value)` with
    the index from 1, `Operation(out, op)` with `op.name`, `op.inputs` and `op.writes`, `Show(variable, item, row)`.

    Reads the sentences alone, with the core's ops unless others are given; what they mean together is for
    `read_program` to check. Raises `Refused` with every sentence that is none.
    """
    from logos.ops import OPS

    parsed = parse(Source("program", source), make_grammar(OPS if ops is None else ops))
    if parsed.refusals:
        raise Refused(parsed.refusals)
    return parsed.sentences


def _words(source: Source, number: int, text: str) -> tuple[Line, bool]:
    body = text.rstrip(" \t")
    has_period = body.endswith(".")
    if has_period:
        body = body[:-1]
    found = [(match.start(), match.group()) for match in re.finditer(r"[^ \t]+", body)]
    first = found[0][0] if found else len(text) - len(text.lstrip(" \t"))
    last = found[-1][0] + len(found[-1][1]) if found else first + 1
    starts, words = tuple(start for start, _ in found), tuple(word for _, word in found)
    return Line(Span(source, number, first + 1, last - first), words, starts), has_period


def _no_period(line: Line) -> Refusal:
    end = Span(line.span.source, line.span.line, line.span.column + line.span.length, 1)
    return Refusal("no-period", "the sentence does not end with a period", end, "end it with a period (.)")


def _match(grammar: Grammar, words: tuple[str, ...]) -> Rule | None:
    for rule in grammar.by_length.get(len(words), ()):
        if rule.says(words) and all(fits(hole, words[place]) for place, hole, _ in rule.holes):
            return rule
    return None


def _seems_to_make(words: tuple[str, ...]) -> list[str | None]:
    """The names that a misread line would make, so reading them is no further fault; [None] where there are none."""
    names = [word for i, word in enumerate(words) if fits(Hole.NEW, word) and _made(words, i)]
    return [*dict.fromkeys(names)] or [None]


def _made(words: tuple[str, ...], place: int) -> bool:
    """Whether the word at a place stands where a sentence names what it makes: after a `Let` or before a `be`."""
    before, after = words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    first = place < 2 or words[place - 2].endswith(".")
    return first and (before.lower() == "let" or (after in ("be", "=") and before != "be"))


def _record(rule: Rule, line: Line) -> tuple[AnySentence, list[Refusal]]:
    """The sentence that a rule's match says."""
    words: dict[str, str] = {}
    spans: dict[str, Span] = {}
    for place, _, name in rule.holes:
        words[name], spans[name] = line.words[place], line.place(place)
    if rule.op is not None:
        return _operation(rule, words, line.span, spans)
    return _STATEMENTS[rule.name](words, line.span, spans)


Made = tuple[AnySentence, list[Refusal]]


def _value(text: str, place: Span) -> tuple[float | None, list[Refusal]]:
    value = float(text)
    if math.isfinite(value):
        return value, []
    what = f"the value {text} is too large for a 64-bit float"
    return None, [Refusal("value-not-finite", what, place, "write a finite value")]


def _operation(rule: Rule, words: Mapping[str, str], span: Span, spans: Mapping[str, Span]) -> Made:
    op = rule.op
    assert op is not None
    faults: list[Refusal] = []
    operands: dict[str, str | int | float | None] = {}
    for word in op.pattern.holes:
        name, text = word.text, words.get(word.text)
        if word.hole is Hole.NEW:
            continue
        if text is None:
            operands[name] = op.values.get(name)
        elif word.hole is Hole.COUNT:
            operands[name] = int(text)
        elif word.hole is Hole.VALUE:
            operands[name], found = _value(text, spans[name])
            faults += found
        else:
            operands[name] = int(text) if text.isdigit() else text
    out = words[op.writes[0]] if op.statement else words["OUT"]
    if faults:
        return Broken(out, span=span), faults
    return Operation(out, Use(op, operands), span=span, spans=spans), []


def _declaration(words: Mapping[str, str], span: Span, spans: Mapping[str, Span]) -> Made:
    rows, columns = int(words["R"]), int(words["C"])
    if rows * columns >= LARGEST:
        what = f"{brief(words['V'])} would have {rows} by {columns} elements; a tensor has fewer than 2^48"
        fault = Refusal("tensor-too-large", what, spans["R"], "declare fewer rows or columns")
        return Broken(words["V"], span=span), [fault]
    return Declaration(words["V"], rows, columns, words["TYPE"] == "Real", span=span, spans=spans), []


def _fill(words: Mapping[str, str], span: Span, spans: Mapping[str, Span]) -> Made:
    text = words["VALUE"]
    whole = re.fullmatch(r"[+-]?[0-9]+", text) is not None
    value, faults = _value(text, spans["VALUE"])
    if value is None:
        return Broken(None, span=span), faults
    number = int(text) if whole else value
    return Fill(words["V"], int(words["N"]), number, text, span=span, spans=spans), []


def _show(words: Mapping[str, str], span: Span, spans: Mapping[str, Span]) -> Made:
    item = int(words["N"]) if "N" in words else None
    if "P" not in words:
        return Show(words["V"], item, span=span, spans=spans), []
    if not words["P"].isdigit():
        what = f"a row is due here, counted from 0, but {brief(words['P'])} stands here"
        fault = Refusal("row-expected", what, spans["P"], "write a number of a row, such as 0")
        return Broken(None, span=span), [fault]
    return Show(words["V"], row=int(words["P"]), span=span, spans=spans), []


_STATEMENTS: Mapping[str, Callable[[Mapping[str, str], Span, Mapping[str, Span]], Made]] = {
    "declaration": _declaration,
    "fill": _fill,
    "show": _show,
    "show item": _show,
    "show row": _show,
}
