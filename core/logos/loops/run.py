"""Running a loop: it becomes a function of Python, made of names and numbers of our own alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from logos.late import np
from logos.loops.affine import constant
from logos.loops.check import Tensor
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
)

_LIMIT = 2**63


def _place(index: int, count: int, word: str, name: str, line: int) -> int:
    """An index from 1 as a place from 0."""
    if not 1 <= index <= count:
        raise ArithmeticError(f"line {line} takes {word} {index} of {name}, which has the {word}s 1 to {count}")
    return index - 1


def _int64(value: int) -> int:
    if not -_LIMIT <= value < _LIMIT:
        raise ArithmeticError("a result does not fit 64 bits")
    return value


def _divide(a: float, b: float) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return float(np.divide(float(a), float(b)))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf if x > 0 else 0.0  # an Int far below 0 is beyond floats too


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _pow(x: float, y: float) -> float:
    return float(np.power(float(x), float(y)))


_NAMES: Mapping[str, object] = {
    "_place": _place, "_int64": _int64, "_divide": _divide, "exp": _exp, "sqrt": _sqrt, "pow": _pow,
    "range": range, "float": float, "__builtins__": {},
}  # fmt: skip


def compile_loop(
    loop: Repeat, tensors: Mapping[str, Tensor], proved: frozenset[int]
) -> Callable[[dict[str, list[Any]]], None]:
    """A function that runs a checked loop on the tensors' items, row after row, in place (Real as float, Int as int).
    It raises ArithmeticError where an index lies outside, or an Int does not fit 64 bits."""
    writer = _Writer(tensors, proved)
    lines = ["def run(given):"]
    known: dict[str, str] = {}
    for number, name in enumerate(tensors):
        known[name] = f"t{number}"
        lines.append(f"    t{number} = given[{number}]")
    writer.shapes = {known[name]: tensor for name, tensor in tensors.items()}
    writer.said = {known[name]: name for name in tensors}
    lines += writer.body((loop,), known, 1)
    names = dict(_NAMES)
    exec("\n".join(lines), names)
    run: Any = names["run"]
    order = tuple(tensors)
    return lambda given: run([given[name] for name in order])


@dataclass
class _Writer:
    """Writes statements as lines of Python. Every name of the program gets one of ours."""

    tensors: Mapping[str, Tensor]
    proved: frozenset[int]
    shapes: dict[str, Tensor] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def fresh(self, kind: str) -> str:
        self.made += 1
        return f"{kind}_{self.made}"

    def body(self, statements: tuple[Statement, ...], above: Mapping[str, str], depth: int) -> Iterator[str]:
        known = dict(above)
        for statement in statements:
            for line in self.statement(statement, known, depth):
                yield line if line.startswith(" ") else "    " * depth + line

    def statement(self, statement: Statement, known: dict[str, str], depth: int) -> Iterator[str]:
        if isinstance(statement, LetScalar):
            value = self.value(statement.value, known)
            known[statement.name] = self.fresh("s")
            yield f"{known[statement.name]} = {value}"
        elif isinstance(statement, LetTensor):
            rows, columns = constant(statement.rows), constant(statement.columns)
            assert rows is not None
            assert columns is not None
            own = known[statement.name] = self.fresh("l")
            self.shapes[own], self.said[own] = Tensor(rows, columns, statement.real), statement.name
            yield f"{own} = [{0.0 if statement.real else 0}] * {rows * columns}"
        elif isinstance(statement, SetScalar):
            yield f"{known[statement.name]} = {self.value(statement.value, known)}"
        elif isinstance(statement, SetItem):
            kind = "float" if self.shapes[known[statement.item.tensor]].real else "_int64"
            yield f"{self.item(statement.item, known)} = {kind}({self.value(statement.value, known)})"
        elif isinstance(statement, If):
            left, right = self.value(statement.left, known), self.value(statement.right, known)
            yield f"if {left} {'==' if statement.sign == '=' else statement.sign} {right}:"
            yield from self.body(statement.body, known, depth + 1)
        else:
            first, last = self.value(statement.first, known), self.value(statement.last, known)
            own = self.fresh("i")
            yield f"for {own} in range({first}, {last} + 1):"
            yield from self.body(statement.body, {**known, statement.name: own}, depth + 1)

    def item(self, item: Item, known: Mapping[str, str]) -> str:
        own = known[item.tensor]
        tensor = self.shapes[own]
        counts = (tensor.rows, tensor.columns) if len(item.indexes) == 2 else (tensor.rows * tensor.columns,)
        words = ("row", "column") if len(item.indexes) == 2 else ("item",)
        places = []
        for index, count, word in zip(item.indexes, counts, words, strict=True):
            text = self.value(index, known)
            if id(item) in self.proved:
                places.append(f"({text} - 1)")
            else:
                places.append(f"_place({text}, {count}, {word!r}, {self.said[own]!r}, {item.span.line})")
        return f"{own}[{f' * {tensor.columns} + '.join(places)}]"

    def value(self, expression: Expression, known: Mapping[str, str]) -> str:
        if isinstance(expression, Number):
            return f"({expression.value!r})"
        if isinstance(expression, Name):
            return known[expression.name]
        if isinstance(expression, Item):
            return self.item(expression, known)
        if isinstance(expression, Negative):
            return f"(-{self.value(expression.inner, known)})"
        if isinstance(expression, Call):
            inner = ", ".join(self.value(argument, known) for argument in expression.arguments)
            return f"{expression.function}({inner})"
        return self.binary(expression, known)

    def binary(self, expression: Binary, known: Mapping[str, str]) -> str:
        left, right = self.value(expression.left, known), self.value(expression.right, known)
        return f"_divide({left}, {right})" if expression.sign == "/" else f"({left} {expression.sign} {right})"
