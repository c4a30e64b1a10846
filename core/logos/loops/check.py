"""What a loop means: which name is which, Int or Real, and indexes proved in range where they can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from logos.loops.affine import constant
from logos.loops.records import (
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
    parts,
    walk,
)
from logos.near import nearest
from logos.source import Span

Range = tuple[int, int]
_ANY: Range = (-(2**200), 2**200)
"""What is not known; Ints have no limit, so it proves nothing, whatever is added to it."""
_FAR = 2**160
"""Ends of a range that are kept: products of products would soon fill the memory with digits."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that a loop uses: rows by columns of Real or of Int."""

    rows: int
    columns: int
    real: bool


@dataclass(slots=True)
class Scalar:
    """A scalar of a body. It is Real where anything that it is set to is; `count` for the count of a `Repeat`."""

    name: str
    real: bool = False
    count: bool = False
    range: Range = _ANY
    feeds: list[Scalar] = field(default_factory=list)
    """What is set to a sum or product of this one, and so is Real where this one is."""


Refuse = Callable[[str, str, Span, str], None]


def _kept(low: int, high: int) -> Range:
    return (low, high) if low > -_FAR and high < _FAR else _ANY


def check_loop(loop: Repeat, tensors: Mapping[str, Tensor | None], refuse: Refuse) -> frozenset[int]:
    """Checks a loop: the identities of its items that are proved in range, the others being for the run to check.

    `tensors` gives the tensors of the program, None for one of unknown shape, which fits everything. `refuse` is told
    everything that is wrong: code, what, where, next.
    """
    scalars: dict[int, Scalar] = {}
    _Pass(scalars, tensors, lambda *_: None).body((loop,), {})
    turned = [scalar for scalar in scalars.values() if scalar.real]
    while turned:
        fed = [scalar for scalar in turned.pop().feeds if not scalar.real]
        for scalar in fed:
            scalar.real = True
        turned += fed
    last = _Pass(scalars, tensors, refuse)
    last.body((loop,), {})
    return frozenset(last.proved)


Known = dict[str, "Scalar | Tensor"]


@dataclass
class _Pass:
    """One walk over a loop. The first one finds which scalar feeds which, the last one knows which are Real."""

    scalars: dict[int, Scalar]
    tensors: Mapping[str, Tensor | None]
    refuse: Refuse
    proved: set[int] = field(default_factory=set)
    idle: bool = False

    def body(self, statements: tuple[Statement, ...], above: Known) -> None:
        known = dict(above)
        changed = {one.name for one in walk(statements) if isinstance(one, SetScalar)}
        for statement in statements:
            self.statement(statement, known, changed)

    def statement(self, statement: Statement, known: Known, changed: set[str]) -> None:
        if isinstance(statement, LetScalar):
            real, span = self.value(statement.value, known)
            self.new(statement.name, statement.span, known)
            scalar = self.scalar(statement, statement.name, real)
            scalar.range = _ANY if statement.name in changed else span
            self.feed(statement.value, scalar, known)
            known[statement.name] = scalar
        elif isinstance(statement, LetTensor):
            self.local(statement, known)
        elif isinstance(statement, SetScalar):
            self.set_scalar(statement, known)
        elif isinstance(statement, SetItem):
            self.set_item(statement, known)
        elif isinstance(statement, If):
            self.value(statement.left, known)
            self.value(statement.right, known)
            self.body(statement.body, known)
        else:
            low, high = self.whole(statement.first, known), self.whole(statement.last, known)
            self.new(statement.name, statement.span, known)
            count = self.scalar(statement, statement.name, False)
            count.count, count.range = True, (low[0], max(low[0], high[1]))
            before, self.idle = self.idle, self.idle or high[1] < low[0]
            self.body(statement.body, {**known, statement.name: count})
            self.idle = before

    def scalar(self, statement: Statement, name: str, real: bool) -> Scalar:
        scalar = self.scalars.setdefault(id(statement), Scalar(name))
        scalar.real = scalar.real or real
        return scalar

    def feed(self, value: Expression, scalar: Scalar, known: Known) -> None:
        """Notes the scalars that make a value Real where they are."""
        pending = [value]
        while pending:
            one = pending.pop()
            if isinstance(one, Name):
                found = known.get(one.name)
                if isinstance(found, Scalar):
                    found.feeds.append(scalar)
            elif not isinstance(one, (Item, Call)):
                pending += parts(one)

    def new(self, name: str, span: Span, known: Known) -> None:
        if name in known:
            what = f"{name} is already a name of this loop"
            self.refuse("loop-name-taken", what, span, "choose another name")

    def local(self, statement: LetTensor, known: Known) -> None:
        rows, columns = constant(statement.rows), constant(statement.columns)
        self.new(statement.name, statement.span, known)
        if rows is None or columns is None or rows < 1 or columns < 1 or rows * columns >= 2**31:
            what = f"the size of {statement.name} is not two counts of fewer than 2^31 elements"
            self.refuse("loop-size", what, statement.span, "write its rows and columns as whole numbers from 1")
            rows = columns = 1
        known[statement.name] = Tensor(rows, columns, statement.real)

    def set_scalar(self, statement: SetScalar, known: Known) -> None:
        real, _ = self.value(statement.value, known)
        scalar = known.get(statement.name)
        if isinstance(scalar, Scalar) and not scalar.count:
            scalar.real = scalar.real or real
            self.feed(statement.value, scalar, known)
        elif isinstance(scalar, Scalar):
            what = f"{statement.name} counts a `Repeat`, so it cannot be set"
            self.refuse("loop-name-taken", what, statement.span, "give the value a name of its own with `Let`")
        elif isinstance(scalar, Tensor):
            self.no_scalar(statement.name, statement.span)
        else:
            self.unknown(statement.name, statement.span, known)

    def set_item(self, statement: SetItem, known: Known) -> None:
        tensor = self.indexes(statement.item, known)
        real, _ = self.value(statement.value, known)
        if tensor is not None and real and not tensor.real:
            what = f"{statement.item.tensor} is of Int, and this sets an item of it to a Real"
            self.refuse("loop-type", what, statement.span, f"declare {statement.item.tensor} of Real")

    def tensor(self, item: Item, known: Known) -> Tensor | None:
        found = known.get(item.tensor)
        if isinstance(found, Scalar):
            what = f"{item.tensor} is a scalar, and has no items"
            next_ = f"write {item.tensor} alone; where a tensor {item.tensor} is meant, give the scalar another name"
            self.refuse("loop-name", what, item.span, next_)
            return None
        return found or self.tensors.get(item.tensor)

    def indexes(self, item: Item, known: Known) -> Tensor | None:
        """The tensor of an item, whose indexes are proved in range or left to the run."""
        ranges = [self.whole(index, known) for index in item.indexes]
        tensor = self.tensor(item, known)
        if tensor is None:
            return None
        counts = (tensor.rows, tensor.columns) if len(ranges) == 2 else (tensor.rows * tensor.columns,)
        words = ("row", "column") if len(ranges) == 2 else ("item",)
        for word, count, (low, high) in zip(words, counts, ranges, strict=True):
            if (high < 1 or low > count) and not self.idle:
                where = str(low) if low == high else f"{low} to {high}"
                what = f"{item.tensor} has the {word}s 1 to {count}; this is {word} {where}"
                self.refuse("loop-index", what, item.span, "change the index, or the bounds of the `Repeat`")
        if all(low >= 1 and high <= count for count, (low, high) in zip(counts, ranges, strict=True)):
            self.proved.add(id(item))
        return tensor

    def whole(self, expression: Expression, known: Known) -> Range:
        """The range of an index or a bound, which is a whole number."""
        real, span = self.value(expression, known)
        if real:
            what = "a whole number is due here, and this is Real"
            self.refuse("loop-type", what, expression.span, "an index and a bound are made of Int with +, - and *")
        return span

    def value(self, expression: Expression, known: Known) -> tuple[bool, Range]:
        """Whether an expression is Real; of Int, the range that it lies in."""
        if isinstance(expression, Number):
            real = isinstance(expression.value, float)
            return real, _ANY if real else (int(expression.value), int(expression.value))
        if isinstance(expression, Name):
            return self.named(expression, known)
        if isinstance(expression, Item):
            tensor = self.indexes(expression, known)
            return tensor is not None and tensor.real, _ANY
        if isinstance(expression, Negative):
            real, (low, high) = self.value(expression.inner, known)
            return real, (-high, -low)
        if isinstance(expression, Call):
            for argument in expression.arguments:
                self.value(argument, known)
            return True, _ANY
        return self.binary(expression, known)

    def named(self, expression: Name, known: Known) -> tuple[bool, Range]:
        found = known.get(expression.name)
        if isinstance(found, Scalar):
            return found.real, found.range
        if isinstance(found, Tensor):
            self.no_scalar(expression.name, expression.span)
        else:
            self.unknown(expression.name, expression.span, known)
        return False, _ANY

    def binary(self, expression: Binary, known: Known) -> tuple[bool, Range]:
        left, (a, b) = self.value(expression.left, known)
        right, (c, d) = self.value(expression.right, known)
        if left or right or expression.sign == "/":
            return True, _ANY
        if expression.sign == "+":
            return False, _kept(a + c, b + d)
        if expression.sign == "-":
            return False, _kept(a - d, b - c)
        ends = (a * c, a * d, b * c, b * d)
        return False, _kept(min(ends), max(ends))

    def no_scalar(self, name: str, span: Span) -> None:
        self.refuse("loop-name", f"{name} is a tensor, and a number is due here", span, f"write `item 1 of {name}`")

    def unknown(self, name: str, span: Span, known: Mapping[str, object]) -> None:
        if name in self.tensors:
            self.no_scalar(name, span)
            return
        near = nearest(name, sorted(known))
        what = f"{name} is no scalar of this loop{f'; did you mean {near}?' if near else ''}"
        self.refuse("loop-name", what, span, f"write `Let {name} be E.` above; an element of a tensor is `item 1 of V`")
