"""Program text → sentences. Every fault is collected; nothing stops at the first."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from logos.grammar import Grammar, Rule, fits, make_grammar
from logos.loops.text import loop_lines, opens_loop, read_loop
from logos.loops.uses import accesses
from logos.misread import misread
from logos.op import Hole, Op
from logos.refusal import Refusal, Refused
from logos.sentences import AnySentence, Broken, Declaration, Fill, Loop, Operation, Show, Use
from logos.source import Source, Span, brief

LARGEST = 2**48
"""Rows × columns of a tensor stay below this."""
Made = tuple[AnySentence, list[Refusal]]
_WORD = re.compile(r"[^ \t]+")
_PLAIN = re.compile(r"[!-~ \t]*\Z")
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
    """One sentence's words without its period; `body` is the line's text up to there."""

    span: Span
    words: tuple[str, ...]
    body: str

    def places(self) -> tuple[Span, ...]:
        """The place of each word."""
        source, line = self.span.source, self.span.line
        found = _WORD.finditer(self.body)
        return tuple(Span(source, line, match.start() + 1, len(match.group())) for match in found)


@dataclass(frozen=True, slots=True)
class Places(Mapping[str, Span]):
    """The place of each hole of a sentence, found when a message asks for it."""

    rule: Rule
    line: Line

    def __getitem__(self, hole: str) -> Span:
        return self.line.places()[self.rule.places[hole]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rule.places)

    def __len__(self) -> int:
        return len(self.rule.places)


def parse(source: Source, grammar: Grammar) -> Parsed:
    """Reads a whole program; see language.md for the sentences."""
    sentences: list[AnySentence] = []
    refusals: list[Refusal] = []
    done = 0
    for number, text in enumerate(source.lines, 1):
        stripped = text.strip(" \t")
        if number <= done or not stripped or stripped[0] == "#":
            continue
        if opens_loop(stripped):
            lines = loop_lines(source, number)
            sentence, faults = _loop(source, lines)
            sentences.append(sentence)
            refusals += faults
            done = lines[-1]
            continue
        line, has_period = _line(source, number, text)
        if not has_period and not stripped.endswith(":"):
            refusals.append(_no_period(line))
        rule = grammar.match(line.words)
        if rule is not None:
            sentence, faults = _record(rule, line)
            sentences.append(sentence)
        else:
            sentences += [Broken(out, span=line.span) for out in _seems_to_make(line.words)]
            faults = misread(grammar, line.span, line.words, line.places(), advise=len(refusals) < ADVISED)
        if faults:
            refusals += faults
    return Parsed(source, tuple(sentences), tuple(refusals))


def read_tensor_sentences(source: str, ops: Iterable[Op] | None = None) -> tuple[AnySentence, ...]:
    """A program's sentences in order: `Declaration(variable, rows, columns, real)`, `Fill(variable, index, value)` with
    the index from 1, `Operation(out, op)` with `op.name`, `op.inputs` and `op.writes`, `Loop(loop)`,
    `Show(variable, item, row)`.

    Reads the sentences alone, with the core's ops unless others are given; what they mean together is for
    `read_program` to check. Raises `Refused` with every sentence that is none.
    """
    from logos.ops import OPS

    parsed = parse(Source("program", source), make_grammar(OPS if ops is None else ops))
    if parsed.refusals:
        raise Refused(parsed.refusals)
    return parsed.sentences


def _line(source: Source, number: int, text: str) -> tuple[Line, bool]:
    body = text.rstrip(" \t")
    has_period = body.endswith(".")
    if has_period:
        body = body[:-1]
    # str.split breaks at further characters, which are no blanks in the language.
    words = body.split() if _PLAIN.match(body) else _WORD.findall(body)
    start = len(text) - len(text.lstrip(" \t"))
    length = len(body.rstrip(" \t")) - start if words else 1
    return Line(Span(source, number, start + 1, length), tuple(words), body), has_period


def _loop(source: Source, lines: tuple[int, ...]) -> Made:
    text = source.lines[lines[0] - 1].rstrip(" \t")
    start = len(text) - len(text.lstrip(" \t"))
    span = Span(source, lines[0], start + 1, len(text) - start)
    loop, faults = read_loop(source, lines)
    if loop is None:
        return Broken(None, span=span), faults
    places: dict[str, Span] = {}
    for access in accesses(loop):
        places.setdefault(access.item.tensor, access.item.span)
    return Loop(loop, span=span, spans=places), []


def _no_period(line: Line) -> Refusal:
    end = Span(line.span.source, line.span.line, line.span.column + line.span.length, 1)
    return Refusal("no-period", "the sentence does not end with a period", end, "end it with a period (.)")


def _seems_to_make(words: tuple[str, ...]) -> list[str | None]:
    """The names that a misread line would make, so reading them is no further fault; [None] where there are none."""
    names = [word for i, word in enumerate(words) if fits(Hole.NEW, word) and _made(words, i)]
    return [*dict.fromkeys(names)] or [None]


def _made(words: tuple[str, ...], place: int) -> bool:
    """Whether the word at a place stands where a sentence names what it makes: after a `Let` or before a `be`."""
    before, after = words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    first = place < 2 or words[place - 2].endswith(".")
    return first and (before.lower() == "let" or (after in ("be", "=") and before != "be"))


def _record(rule: Rule, line: Line) -> Made:
    """The sentence that a rule's match says."""
    words = {name: line.words[place] for place, name in rule.holes}
    spans = Places(rule, line)
    if rule.op is not None:
        return _operation(rule.op, words, line.span, spans)
    return _STATEMENTS[rule.name](words, line.span, spans)


def _value(text: str, place: Span) -> tuple[float | None, list[Refusal]]:
    value = float(text)
    if math.isfinite(value):
        return value, []
    what = f"the value {text} is too large for a 64-bit float"
    return None, [Refusal("value-not-finite", what, place, "write a finite value")]


def _operation(op: Op, words: Mapping[str, str], span: Span, spans: Mapping[str, Span]) -> Made:
    faults: list[Refusal] = []
    operands: dict[str, str | int | float | None] = {}
    for word in op.pattern.holes:
        name, kind = word.text, word.hole
        if kind is Hole.NEW:
            continue
        text = words.get(name)
        if text is None:
            operands[name] = op.values.get(name)
        elif kind is Hole.COUNT:
            operands[name] = int(text)
        elif kind is Hole.VALUE:
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
