"""Loops as records: expressions over scalars, statements with bodies, and the text that says them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from logos.source import Source, Span


def _span() -> Span:
    """A span for a record made without a source."""
    return Span(Source("loops", ""), 1, 1, 1)


@dataclass(frozen=True)
class Placed:
    """What every record has: its place, which does not count in a comparison."""

    span: Span = field(default_factory=_span, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Number(Placed):
    """A literal: Int where it has neither point nor exponent."""

    value: int | float


@dataclass(frozen=True)
class Name(Placed):
    """A scalar, or the count of a `Repeat`; in an op's own loops a size or a literal of its sentence too."""

    name: str


@dataclass(frozen=True)
class Item(Placed):
    """`item I of V` (row after row) or `item I, J of V` (row, column), counted from 1."""

    tensor: str
    indexes: tuple[Expression, ...]


@dataclass(frozen=True)
class Binary(Placed):
    """`A + B`, `A - B`, `A * B`, `A / B`."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Negative(Placed):
    """`-A`."""

    inner: Expression


@dataclass(frozen=True)
class Call(Placed):
    """`exp(A)`, `sqrt(A)`, `pow(A, B)`."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Number | Name | Item | Binary | Negative | Call


@dataclass(frozen=True)
class LetScalar(Placed):
    """`Let S be E.`: a scalar of E's type, known to the end of the body that it stands in."""

    name: str
    value: Expression


@dataclass(frozen=True)
class LetTensor(Placed):
    """`Let V be a R by C tensor of Real.` in a body: a tensor of zeros each time, known to the end of that body."""

    name: str
    rows: Expression
    columns: Expression
    real: bool


@dataclass(frozen=True)
class SetScalar(Placed):
    """`Set S to E.`"""

    name: str
    value: Expression


@dataclass(frozen=True)
class SetItem(Placed):
    """`Set item I, J of V to E.`"""

    item: Item
    value: Expression


@dataclass(frozen=True)
class Repeat(Placed):
    """`Repeat for I from A to B:` and its body, for I = A, A + 1, … B; not at all where B is below A."""

    name: str
    first: Expression
    last: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If(Placed):
    """`If A > B:` and its body, done where the comparison (<, <=, >, >=, =) holds."""

    sign: str
    left: Expression
    right: Expression
    body: tuple[Statement, ...]


Statement = LetScalar | LetTensor | SetScalar | SetItem | Repeat | If

FUNCTIONS = {"exp": 1, "sqrt": 1, "pow": 2}
"""The functions of an expression, with how many arguments each takes."""
COMPARISONS = ("<=", ">=", "<", ">", "=")
_INDENT = "  "
_SUM, _PRODUCT, _OPERAND = 1, 2, 3


def said(expression: Expression) -> str:
    """The text of an expression; reading it gives the expression again."""
    return _text(expression, _SUM)


def _text(expression: Expression, strength: int) -> str:
    text, own = _plain(expression)
    return text if own >= strength else f"({text})"


def _plain(expression: Expression) -> tuple[str, int]:
    """The text without brackets around it, and how strongly it holds together."""
    if isinstance(expression, Number):
        return repr(expression.value), _OPERAND if expression.value >= 0 else _SUM
    if isinstance(expression, Name):
        return expression.name, _OPERAND
    if isinstance(expression, Item):
        return f"item {', '.join(map(said, expression.indexes))} of {expression.tensor}", _OPERAND
    if isinstance(expression, Call):
        return f"{expression.function}({', '.join(map(said, expression.arguments))})", _OPERAND
    if isinstance(expression, Negative):
        return f"-{_text(expression.inner, _OPERAND)}", _SUM
    own = _SUM if expression.sign in "+-" else _PRODUCT
    left, right = _text(expression.left, own), _text(expression.right, own + 1)
    return f"{left} {expression.sign} {right}", own


def head(statement: Statement) -> str:
    """The line of a statement, without its body."""
    if isinstance(statement, LetScalar):
        return f"Let {statement.name} be {said(statement.value)}."
    if isinstance(statement, LetTensor):
        kind = "Real" if statement.real else "Int"
        return f"Let {statement.name} be a {said(statement.rows)} by {said(statement.columns)} tensor of {kind}."
    if isinstance(statement, SetScalar):
        return f"Set {statement.name} to {said(statement.value)}."
    if isinstance(statement, SetItem):
        return f"Set {said(statement.item)} to {said(statement.value)}."
    if isinstance(statement, Repeat):
        return f"Repeat for {statement.name} from {said(statement.first)} to {said(statement.last)}:"
    return f"If {said(statement.left)} {statement.sign} {said(statement.right)}:"


def lines(statements: tuple[Statement, ...], depth: int = 0) -> Iterator[str]:
    """The lines of statements and their bodies, each body two blanks further in."""
    for statement in statements:
        yield _INDENT * depth + head(statement)
        if isinstance(statement, (Repeat, If)):
            yield from lines(statement.body, depth + 1)


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement, bodies included, in the order of the lines."""
    for statement in statements:
        yield statement
        if isinstance(statement, (Repeat, If)):
            yield from walk(statement.body)


def expressions(statement: Statement) -> tuple[Expression, ...]:
    """The expressions of a statement's own line, in the order in which they are worked out."""
    if isinstance(statement, (LetScalar, SetScalar)):
        return (statement.value,)
    if isinstance(statement, LetTensor):
        return (statement.rows, statement.columns)
    if isinstance(statement, SetItem):
        return (*statement.item.indexes, statement.value)
    if isinstance(statement, Repeat):
        return (statement.first, statement.last)
    return (statement.left, statement.right)


def parts(expression: Expression) -> tuple[Expression, ...]:
    """What an expression is made of."""
    if isinstance(expression, Item):
        return expression.indexes
    if isinstance(expression, Binary):
        return (expression.left, expression.right)
    if isinstance(expression, Negative):
        return (expression.inner,)
    return expression.arguments if isinstance(expression, Call) else ()


def items(expression: Expression) -> Iterator[Item]:
    """The items that an expression reads, those inside indexes first."""
    for part in parts(expression):
        yield from items(part)
    if isinstance(expression, Item):
        yield expression
