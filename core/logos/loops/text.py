"""Text → loops. Lines below a line that ends with a colon, and further in, are its body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from logos.grammar import COUNT, LONGEST_LITERAL, VALUE, is_name
from logos.loops.records import (
    COMPARISONS,
    FUNCTIONS,
    Binary,
    Call,
    Expression,
    If,
    Item,
    LetScalar,
    LetTensor,
    Name,
    Negative,
    Number,
    Repeat,
    SetItem,
    SetScalar,
    Statement,
)
from logos.refusal import Refusal, Refused
from logos.source import Source, Span, brief, printable

_TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9.])|[A-Za-z_][A-Za-z_0-9]*|<=|>=|[^ \t]")
_SIGNS = frozenset("+-*/(),:=<>")
_DEEPEST = 16
"""Bodies inside each other, at most."""
_LONGEST = 100
"""Numbers, names, items and brackets of a line, at most."""
_FORMS = {
    "Repeat": "Repeat for I from A to B:",
    "If": "If A > B:",
    "Let": "Let S be E.",
    "Set": "Set S to E., or Set item I, J of V to E.",
}


class Misread(Exception):
    """A line that is no statement of a loop: what is wrong, where, and what to do."""

    def __init__(self, what: str, where: Span, next: str) -> None:
        super().__init__(what)
        self.refusal = Refusal("loop-misread", brief(printable(what)), where, next)


def opens_loop(text: str) -> bool:
    """Whether a line at the left edge begins a loop."""
    return text.split(None, 2)[:2] == ["Repeat", "for"]


def read_loops(text: str) -> tuple[Statement, ...]:
    """The statements of a text of loops alone, such as an op's own. Raises `Refused` with every line that is wrong."""
    source = Source("loops", text)
    body = _Body(source, [number for number, line in enumerate(source.lines, 1) if line.strip(" \t")])
    found = body.read()
    if body.faults:
        raise Refused(body.faults)
    return found


def loop_lines(source: Source, start: int) -> tuple[int, ...]:
    """The numbers of the lines of the loop that begins in line `start`: it and what stands further in below it,
    without blank lines and comments."""
    depth, found = _depth(source.lines[start - 1]), [start]
    for number in range(start + 1, len(source.lines) + 1):
        text = source.lines[number - 1]
        stripped = text.strip(" \t")
        if not stripped or stripped[0] == "#":
            continue
        if _depth(text) <= depth:
            break
        found.append(number)
    return tuple(found)


def read_loop(source: Source, numbers: Sequence[int]) -> tuple[Repeat | None, list[Refusal]]:
    """The loop that stands in these lines; None, and every line that is wrong, where some are."""
    body = _Body(source, numbers)
    found = body.read()
    if body.faults:
        return None, body.faults
    (loop,) = found
    assert isinstance(loop, Repeat)
    return loop, []


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


class _Body:
    """Reads lines into nested statements by how far in they stand."""

    def __init__(self, source: Source, numbers: Sequence[int]) -> None:
        self.source, self.numbers, self.at = source, numbers, 0
        self.faults: list[Refusal] = []

    def read(self) -> tuple[Statement, ...]:
        return self.body(-1, 0)

    def body(self, above: int, level: int) -> tuple[Statement, ...]:
        found: list[Statement] = []
        depth: int | None = None
        while self.at < len(self.numbers):
            number = self.numbers[self.at]
            text = self.source.lines[number - 1]
            if _depth(text) <= above:
                break
            if depth is not None and _depth(text) != depth:
                where = Span(self.source, number, 1, max(1, _depth(text)))
                self.say(Misread("this line stands neither in the body above it nor beside it", where, _ALIGN))
            depth = _depth(text) if depth is None else depth
            self.at += 1
            statement = self.statement(number, text, depth, level)
            found += [] if statement is None else [statement]
        return tuple(found)

    def say(self, misread: Misread) -> None:
        self.faults.append(misread.refusal)

    def statement(self, number: int, text: str, depth: int, level: int) -> Statement | None:
        """The statement of a line and of its body; None, with what is wrong said, where the line is none."""
        made: Statement | None = None
        try:
            made = _Line.of(self.source, number, text).statement()
        except Misread as misread:
            self.say(misread)
        if made is not None and not isinstance(made, (Repeat, If)):
            return made
        place = Span(self.source, number, _depth(text) + 1, max(1, len(text.strip(" \t"))))
        if level == _DEEPEST:
            self.say(Misread(f"bodies stand more than {_DEEPEST} deep", place, "split the loop"))
        before = self.at
        body = self.body(depth, level + 1) if level < _DEEPEST else self.skip(depth)
        if made is None:
            return None
        if self.at == before:
            self.say(Misread("this line has no body", place, "write the body below it, two blanks further in"))
        if isinstance(made, Repeat):
            return Repeat(made.name, made.first, made.last, body, span=made.span)
        return If(made.sign, made.left, made.right, body, span=made.span)

    def skip(self, depth: int) -> tuple[Statement, ...]:
        while self.at < len(self.numbers) and _depth(self.source.lines[self.numbers[self.at] - 1]) > depth:
            self.at += 1
        return ()


_ALIGN = "begin the lines of one body at the same column"


@dataclass
class _Line:
    """One line's tokens, read from the left."""

    span: Span
    tokens: tuple[tuple[str, Span], ...]
    opens: bool
    at: int = 0
    operands: int = 0

    @staticmethod
    def of(source: Source, number: int, text: str) -> _Line:
        body = text.rstrip(" \t")
        start = _depth(text)
        span = Span(source, number, start + 1, max(1, len(body) - start))
        mark = body[-1:]
        if mark not in (".", ":"):
            end = Span(source, number, len(body) + 1, 1)
            due = "a colon" if text.split(None, 1)[:1] in (["Repeat"], ["If"]) else "a period"
            raise Misread("the line ends with neither a period nor a colon", end, f"end it with {due}")
        found = _TOKEN.finditer(body[:-1], start)
        tokens = [(one.group(), Span(source, number, one.start() + 1, len(one.group()))) for one in found]
        for word, place in tokens:
            if not (is_name(word) or VALUE.match(word) or set(word) <= _SIGNS):
                raise Misread(f"{word} is no part of a loop", place, _PARTS)
            if len(word) > LONGEST_LITERAL and not is_name(word):
                raise Misread(f"a literal has at most {LONGEST_LITERAL} characters", place, "write the number shorter")
        return _Line(span, tuple(tokens), mark == ":")

    def word(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place][0] if place < len(self.tokens) else ""

    def place(self) -> Span:
        if self.at < len(self.tokens):
            return self.tokens[self.at][1]
        last = self.tokens[-1][1] if self.tokens else self.span
        return Span(last.source, last.line, last.column + last.length, 1)

    def take(self, word: str) -> bool:
        if self.word() != word:
            return False
        self.at += 1
        return True

    def due(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.misread(f"`{word}`")

    def misread(self, what: str) -> Misread:
        found = self.word() or "the end of the line"
        form = _FORMS.get(self.tokens[0][0]) if self.tokens else None
        next_ = f"the line is `{form}`" if form else f"a line of a loop is one of: {'; '.join(_FORMS.values())}"
        return Misread(f"{what} is due here, but {found} stands here", self.place(), next_)

    def name(self) -> str:
        if not is_name(self.word()):
            raise self.misread("a name")
        self.at += 1
        return self.tokens[self.at - 1][0]

    def scalar(self) -> str:
        """A name of a body. `item` is none: it begins an item wherever a number may stand."""
        if self.word() == "item":
            raise Misread("item is a word of loops, so no name of a body", self.place(), "choose another name")
        return self.name()

    def statement(self) -> Statement:
        made = self.line()
        if self.at < len(self.tokens):
            raise self.misread("the end of the line")
        if self.opens != isinstance(made, (Repeat, If)):
            end = Span(self.span.source, self.span.line, self.span.column + self.span.length - 1, 1)
            mark = "a period" if self.opens else "a colon"
            raise Misread(f"this line ends with {mark}", end, f"the line is `{_FORMS[self.tokens[0][0]]}`")
        return made

    def line(self) -> Statement:
        if self.take("Repeat"):
            self.due("for")
            name = self.scalar()
            self.due("from")
            first = self.sum()
            self.due("to")
            return Repeat(name, first, self.sum(), (), span=self.span)
        if self.take("If"):
            left, sign = self.sum(), self.word()
            if sign not in COMPARISONS:
                raise self.misread("a comparison (<, <=, >, >= or =)")
            self.at += 1
            return If(sign, left, self.sum(), (), span=self.span)
        if self.take("Let"):
            return self.let()
        if self.take("Set"):
            return self.set()
        raise self.misread("`Let`, `Set`, `If` or `Repeat`")

    def let(self) -> LetScalar | LetTensor:
        name = self.scalar()
        self.due("be")
        if self.word() == "a" and (is_name(self.word(1)) or COUNT.match(self.word(1)) or self.word(1) == "("):
            self.at += 1
            rows = self.sum()
            self.due("by")
            columns = self.sum()
            self.due("tensor", "of")
            if self.word() not in ("Real", "Int"):
                raise self.misread("`Real` or `Int`")
            self.at += 1
            return LetTensor(name, rows, columns, self.tokens[self.at - 1][0] == "Real", span=self.span)
        return LetScalar(name, self.sum(), span=self.span)

    def set(self) -> SetScalar | SetItem:
        if self.word() == "item":
            item = self.item(self.place())
            self.due("to")
            return SetItem(item, self.sum(), span=self.span)
        name = self.name()
        self.due("to")
        return SetScalar(name, self.sum(), span=self.span)

    # Expressions: sums of products of operands, each from the left.

    def sum(self) -> Expression:
        found = self.product()
        while self.word() in ("+", "-"):
            sign = self.word()
            self.at += 1
            found = Binary(sign, found, self.product(), span=found.span)
        return found

    def product(self) -> Expression:
        found = self.operand()
        while self.word() in ("*", "/"):
            sign = self.word()
            self.at += 1
            found = Binary(sign, found, self.operand(), span=found.span)
        return found

    def operand(self) -> Expression:
        word, place = self.word(), self.place()
        self.operands += 1
        if self.operands > _LONGEST:
            raise Misread(f"a line has more than {_LONGEST} parts", place, "split the expression with a `Let`")
        if self.take("("):
            found = self.sum()
            self.due(")")
            return found
        if self.take("-"):
            inner = self.operand()
            if isinstance(inner, Number):
                return Number(-inner.value, span=place)
            return Negative(inner, span=place)
        if word == "item":
            return self.item(place)
        if word in FUNCTIONS and self.word(1) == "(":
            return self.call(word, place)
        if is_name(word):
            self.at += 1
            return Name(word, span=place)
        if not VALUE.match(word):
            raise self.misread("a number, a name, an item or a bracket")
        self.at += 1
        value = int(word) if word.isdigit() else float(word)
        if value == float("inf"):
            raise Misread(f"the value {word} is too large for a 64-bit float", place, "write a finite value")
        return Number(value, span=place)

    def item(self, place: Span) -> Item:
        self.due("item")
        indexes = [self.sum()]
        if self.take(","):
            indexes.append(self.sum())
        self.due("of")
        return Item(self.name(), tuple(indexes), span=place)

    def call(self, function: str, place: Span) -> Call:
        self.due(function, "(")
        arguments = [self.sum()]
        for _ in range(FUNCTIONS[function] - 1):
            self.due(",")
            arguments.append(self.sum())
        self.due(")")
        return Call(function, tuple(arguments), span=place)


_PARTS = "expressions are made of numbers, names, `item I, J of V`, exp, sqrt, pow, + - * / and brackets"
