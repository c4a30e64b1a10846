"""An op's own loops: the text beside its declaration, with its sizes as symbols or as the numbers of one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

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
    expressions,
    walk,
)
from logos.loops.text import read_loops
from logos.op import LoopForm, Op, Shapes, factors

Literal = int | float


@lru_cache(maxsize=1024)
def own_loop(op: Op, form: LoopForm) -> Repeat:
    """The loop that a sentence of an op stands for, in the op's own names and symbols. ValueError where its
    declaration has none, or something other than one `Repeat`."""
    if op.loops is None:
        raise ValueError(f"the op {op.name} says no loops")
    return _one_loop(op, op.loops(form))


@lru_cache(maxsize=1024)
def all_loops(op: Op, form: LoopForm) -> tuple[Repeat, ...]:
    """The loop that a sentence stands for, and those that say the same in another way."""
    return own_loop(op, form), *(_one_loop(op, say(form)) for say in op.other_loops)


def _one_loop(op: Op, text: str) -> Repeat:
    loop = read_loops(text)
    if len(loop) != 1 or not isinstance(loop[0], Repeat):
        raise ValueError(f"the loops of the op {op.name} are not one Repeat")
    return loop[0]


@lru_cache(maxsize=1024)
def forms_of(op: Op) -> tuple[LoopForm, ...]:
    """Every form of an op's sentence: optional parts, shape rules, rows by variable and by number. One for each text
    of loops, the first."""
    found: dict[str, LoopForm] = {}
    for words in op.pattern.variants:
        present = frozenset(word.text for word in words if word.hole is not None and word.text not in op.values)
        if any(hole in present and needed not in present for hole, needed in op.requires.items()):
            continue
        for rule in op.shapes:
            if present.issuperset(rule.given) and present.isdisjoint(rule.absent):
                for form in _literal_forms(op, present, rule):
                    if op.loops is not None:
                        found.setdefault(op.loops(form), form)
    return tuple(found.values())


def _literal_forms(op: Op, present: frozenset[str], rule: Shapes) -> Iterator[LoopForm]:
    yield LoopForm(present, rule)
    numbers = frozenset(hole for hole in op.indexes if hole in present and hole not in op.variables)
    if numbers:
        yield LoopForm(present, rule, numbers)


def symbols_of(op: Op, form: LoopForm) -> frozenset[str]:
    """The names in an op's loops that stand for numbers of a sentence: sizes, counts, literals, quotients."""
    found = {symbol for dims in form.rule.operands.values() for dim in dims for symbol in factors(dim)[1]}
    found |= {f"{whole}_per_{part}" for part, whole in form.rule.divides}
    return frozenset({*found, *op.counts, *op.values, *form.literal} - {""})


def numbers_of(op: Op, form: LoopForm, operands: Mapping[str, object], sizes: Mapping[str, int]) -> dict[str, Literal]:
    """The number of each symbol for one sentence: `sizes` are the solved symbols of its shape rule."""
    found: dict[str, Literal] = dict(sizes)
    found |= {f"{whole}_per_{part}": sizes[whole] // sizes[part] for part, whole in form.rule.divides}
    for hole in (*op.counts, *op.values, *form.literal):
        value = operands.get(hole)
        if isinstance(value, (int, float)):
            found[hole] = float(value) if hole in op.values else value
    return found


def with_names(loop: Repeat, numbers: Mapping[str, Literal], tensors: Mapping[str, str]) -> Repeat:
    """A loop with numbers for its symbols, worked out where they meet, and other names for its tensors. Its scalars
    take other names too where a tensor has theirs."""
    taken = set(tensors.values())
    names: dict[str, str] = {}
    for statement in walk((loop,)):
        if isinstance(statement, (LetScalar, LetTensor, Repeat)) and statement.name not in names:
            name = statement.name
            while name in taken:
                name += "_"
            names[statement.name] = name
            taken.add(name)
    (made,) = _Naming(numbers, {**names, **tensors}).body((loop,))
    assert isinstance(made, Repeat)
    return made


class _Naming:
    def __init__(self, numbers: Mapping[str, Literal], names: Mapping[str, str]) -> None:
        self.numbers, self.names = numbers, names

    def body(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(self.statement(statement) for statement in statements)

    def statement(self, one: Statement) -> Statement:
        if isinstance(one, LetScalar):
            return LetScalar(self.names[one.name], self.value(one.value))
        if isinstance(one, LetTensor):
            return LetTensor(self.names[one.name], self.value(one.rows), self.value(one.columns), one.real)
        if isinstance(one, SetScalar):
            return SetScalar(self.names[one.name], self.value(one.value))
        if isinstance(one, SetItem):
            return SetItem(self.item(one.item), self.value(one.value))
        if isinstance(one, Repeat):
            first, last = self.value(one.first), self.value(one.last)
            return Repeat(self.names[one.name], first, last, self.body(one.body))
        return If(one.sign, self.value(one.left), self.value(one.right), self.body(one.body))

    def item(self, item: Item) -> Item:
        return Item(self.names.get(item.tensor, item.tensor), tuple(map(self.value, item.indexes)))

    def value(self, one: Expression) -> Expression:
        if isinstance(one, Name):
            if one.name in self.numbers:
                return Number(self.numbers[one.name])
            return Name(self.names.get(one.name, one.name))
        if isinstance(one, Item):
            return self.item(one)
        if isinstance(one, Call):
            return Call(one.function, tuple(map(self.value, one.arguments)))
        if isinstance(one, Negative):
            return Negative(self.value(one.inner))
        if isinstance(one, Binary):
            return _worked_out(one.sign, self.value(one.left), self.value(one.right))
        return one


def _worked_out(sign: str, left: Expression, right: Expression) -> Expression:
    if sign in "+-*" and isinstance(left, Number) and isinstance(right, Number):
        a, b = left.value, right.value
        if isinstance(a, int) and isinstance(b, int):
            return Number(a + b if sign == "+" else a - b if sign == "-" else a * b)
    return Binary(sign, left, right)


def distinct(loop: Repeat, tensors: Mapping[str, Tensor] | None = None) -> Repeat:
    """The loop with a name of its own for every scalar and tensor of its bodies: the number of its statement. Where
    `tensors` gives the shape of the program's, the items of a row or a column counted by one index get two."""
    (made,) = _Distinct(tensors or {}).body((loop,), {}, {})
    assert isinstance(made, Repeat)
    return made


class _Distinct:
    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.shapes = {name: (tensor.rows, tensor.columns) for name, tensor in tensors.items()}
        self.made = 0

    def fresh(self, name: str) -> str:
        self.made += 1
        return f"{name}#{self.made}"

    def body(
        self, statements: tuple[Statement, ...], names: Mapping[str, str], shapes: Mapping[str, tuple[int, int]]
    ) -> tuple[Statement, ...]:
        names, shapes = dict(names), dict(shapes)
        found: list[Statement] = []
        for one in statements:
            self.names, self.local = names, shapes
            values = tuple(map(self.value, expressions(one)))
            if isinstance(one, LetScalar):
                names[one.name] = self.fresh(one.name)
                found.append(LetScalar(names[one.name], values[0], span=one.span))
            elif isinstance(one, LetTensor):
                names[one.name] = self.fresh(one.name)
                rows, columns = constant(one.rows), constant(one.columns)
                if rows is not None and columns is not None:
                    shapes[one.name] = rows, columns
                found.append(LetTensor(names[one.name], values[0], values[1], one.real, span=one.span))
            elif isinstance(one, SetScalar):
                found.append(SetScalar(names.get(one.name, one.name), values[0], span=one.span))
            elif isinstance(one, SetItem):
                found.append(SetItem(self.item(one.item), values[-1], span=one.span))
            elif isinstance(one, Repeat):
                name = self.fresh(one.name)
                body = self.body(one.body, {**names, one.name: name}, shapes)
                found.append(Repeat(name, values[0], values[1], body, span=one.span))
            else:
                body = self.body(one.body, names, shapes)
                found.append(If(one.sign, values[0], values[1], body, span=one.span))
        return tuple(found)

    def item(self, item: Item) -> Item:
        indexes = tuple(map(self.value, item.indexes))
        rows, columns = self.local.get(item.tensor) or self.shapes.get(item.tensor) or (0, 0)
        if len(indexes) == 1 and 1 in (rows, columns):
            indexes = (Number(1), *indexes) if rows == 1 else (*indexes, Number(1))
        return Item(self.names.get(item.tensor, item.tensor), indexes, span=item.span)

    def value(self, one: Expression) -> Expression:
        if isinstance(one, Name):
            return Name(self.names.get(one.name, one.name), span=one.span)
        if isinstance(one, Item):
            return self.item(one)
        if isinstance(one, Call):
            return Call(one.function, tuple(map(self.value, one.arguments)), span=one.span)
        if isinstance(one, Negative):
            return Negative(self.value(one.inner), span=one.span)
        if isinstance(one, Binary):
            return Binary(one.sign, self.value(one.left), self.value(one.right), span=one.span)
        return one
