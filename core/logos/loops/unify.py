"""Holding a loop against an op's own loop: one way for all ops.

The op's tensors, scalars, sizes and literals are unknowns. A loop is the op's where they can be chosen so that both say
the same, up to the order of statements that do not act on each other and of the two sides of + and *. The search is cut
off after a number of comparisons that grows with the square of the statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from logos.loops.affine import Poly, affine
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
    items,
    parts,
    walk,
)

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_FIRST = 64
"""Comparisons of two statements before the square of their number counts."""


class Exhausted(Exception):
    """More comparisons than the square of the statements allows."""


@dataclass
class Unifier:
    """One attempt. Both loops give every scalar a name of its own (`forms.distinct`).

    sizes      the op's names that stand for numbers; `values` those of them that are Real
    holes      the op's names that stand for tensors of the program
    numbers, tensors   what was found for them
    furthest   how many statements agreed at most, and the first one of the loop that then did not
    """

    sizes: Collection[str]
    values: Collection[str]
    holes: Collection[str]
    left: int = 0
    numbers: dict[str, int | float] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[Poly, int]] = field(default_factory=list)
    furthest: tuple[int, Statement | None] = (-1, None)
    _trail: list[tuple[dict[str, object], str]] = field(default_factory=list)
    _effects: dict[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    _agreed: int = 0

    def run(self, own: Repeat, loop: Repeat) -> bool:
        """Whether the loop is the op's; `numbers` and `tensors` then say how."""
        self.left = _FIRST + 4 * sum(1 for _ in walk((loop,))) ** 2
        try:
            return any(self._settled() for _ in self.body((own,), (loop,)))
        except Exhausted:
            return False

    def _settled(self) -> bool:
        """Whether the sums of sizes that could not be told apart on the way agree now."""
        kept, mark = list(self.waiting), self.mark()
        while self.waiting:
            waiting, self.waiting = self.waiting, []
            if all(self.poly(poly, value) for poly, value in waiting) and len(self.waiting) < len(waiting):
                continue
            self.waiting = kept
            self.undo(mark)
            return False
        return True

    # What is bound, and taking it back.

    def bind(self, table: dict[str, object], key: str, value: object) -> bool:
        if key in table:
            return table[key] == value
        table[key] = value
        self._trail.append((table, key))
        return True

    def undo(self, mark: tuple[int, int]) -> None:
        while len(self._trail) > mark[0]:
            table, key = self._trail.pop()
            del table[key]
        del self.waiting[mark[1] :]

    def mark(self) -> tuple[int, int]:
        return len(self._trail), len(self.waiting)

    def pair(self, own: str, name: str) -> bool:
        """Makes a scalar or a tensor of a body the loop's."""
        return self.bind(self.names, own, name) and self.bind(self.taken, name, own)  # type: ignore[arg-type]

    # Statements.

    def body(self, own: tuple[Statement, ...], loop: tuple[Statement, ...]) -> Iterator[None]:
        if not own or not loop:
            if len(own) == len(loop):
                yield
            elif loop:
                self._differs(loop[0])
            return
        read: set[str] = set()
        written: set[str] = set()
        for place, statement in enumerate(loop):
            # What stands above it is passed over, so it may not act on that.
            reads, sets = self.effects(statement)
            apart = sets.isdisjoint(read) and sets.isdisjoint(written) and reads.isdisjoint(written)
            read |= reads
            written |= sets
            if not apart:
                continue
            mark, agreed = self.mark(), self._agreed
            rest = (*loop[:place], *loop[place + 1 :])
            for _ in self.statement(own[0], statement):
                yield from self.body(own[1:], rest)
            self.undo(mark)
            self._agreed = agreed
            if place == 0:
                self._differs(statement)

    def _differs(self, statement: Statement) -> None:
        if self._agreed > self.furthest[0]:
            self.furthest = self._agreed, statement

    def effects(self, statement: Statement) -> tuple[frozenset[str], frozenset[str]]:
        """The names that a statement reads and sets, those of its own body left out."""
        if id(statement) not in self._effects:
            self._effects[id(statement)] = _effects(statement)
        return self._effects[id(statement)]

    def statement(self, own: Statement, loop: Statement) -> Iterator[None]:
        self.left -= 1
        if self.left < 0:
            raise Exhausted
        agreed = self._agreed
        for _ in self._statement(own, loop):
            yield
            self._agreed = agreed

    def _statement(self, own: Statement, loop: Statement) -> Iterator[None]:
        if isinstance(own, LetScalar) and isinstance(loop, LetScalar):
            for _ in self.value(own.value, loop.value):
                if self.pair(own.name, loop.name):
                    yield from self.agreed()
        elif isinstance(own, LetTensor) and isinstance(loop, LetTensor):
            if own.real == loop.real:
                for _ in self.each((own.rows, own.columns), (loop.rows, loop.columns)):
                    if self.pair(own.name, loop.name):
                        yield from self.agreed()
        elif isinstance(own, SetScalar) and isinstance(loop, SetScalar):
            if self.names.get(own.name) == loop.name:
                for _ in self.value(own.value, loop.value):
                    yield from self.agreed()
        elif isinstance(own, SetItem) and isinstance(loop, SetItem):
            for _ in self.value(own.item, loop.item):
                for _ in self.value(own.value, loop.value):
                    yield from self.agreed()
        elif isinstance(own, Repeat) and isinstance(loop, Repeat):
            for _ in self.each((own.first, own.last), (loop.first, loop.last)):
                if self.pair(own.name, loop.name):
                    for _ in self.agreed():
                        yield from self.body(own.body, loop.body)
        elif isinstance(own, If) and isinstance(loop, If):
            for _ in self.comparison(own, loop):
                for _ in self.agreed():
                    yield from self.body(own.body, loop.body)

    def agreed(self) -> Iterator[None]:
        self._agreed += 1
        yield

    def comparison(self, own: If, loop: If) -> Iterator[None]:
        for sign, left, right in ((loop.sign, loop.left, loop.right), (_FLIPPED[loop.sign], loop.right, loop.left)):
            if sign == own.sign:
                yield from self.both((own.left, own.right), (left, right))

    # Expressions.

    def both(self, own: tuple[Expression, Expression], loop: tuple[Expression, Expression]) -> Iterator[None]:
        mark = self.mark()
        for _ in self.value(own[0], loop[0]):
            yield from self.value(own[1], loop[1])
        self.undo(mark)

    def value(self, own: Expression, loop: Expression) -> Iterator[None]:
        if isinstance(own, Name) and own.name in self.sizes:
            if isinstance(loop, Number) and self.number(own.name, loop.value):
                yield
        elif isinstance(own, Name):
            if isinstance(loop, Name) and self.names.get(own.name) == loop.name:
                yield
        elif isinstance(own, Number):
            if isinstance(loop, Number) and own.value == loop.value:
                yield
        elif isinstance(own, Item) and isinstance(loop, Item):
            if self.tensor(own.tensor, loop.tensor):
                yield from self.each(own.indexes, loop.indexes)
        elif isinstance(own, Negative) and isinstance(loop, Negative):
            yield from self.value(own.inner, loop.inner)
        elif isinstance(own, Call) and isinstance(loop, Call):
            if own.function == loop.function:
                yield from self._all(own.arguments, loop.arguments)
        elif isinstance(own, Binary) and isinstance(loop, Binary) and own.sign == loop.sign:
            yield from self.both((own.left, own.right), (loop.left, loop.right))
            if own.sign in "+*":
                yield from self.both((own.left, own.right), (loop.right, loop.left))

    def _all(self, own: Sequence[Expression], loop: Sequence[Expression]) -> Iterator[None]:
        if not own:
            yield
            return
        for _ in self.value(own[0], loop[0]):
            yield from self._all(own[1:], loop[1:])

    def number(self, name: str, value: int | float) -> bool:
        if name in self.values:
            return self.bind(self.numbers, name, float(value))  # type: ignore[arg-type]
        return isinstance(value, int) and self.bind(self.numbers, name, value)  # type: ignore[arg-type]

    def tensor(self, own: str, name: str) -> bool:
        if own not in self.holes:
            return self.names.get(own) == name
        return name not in self.taken and self.bind(self.tensors, own, name)  # type: ignore[arg-type]

    def each(self, own: Sequence[Expression], loop: Sequence[Expression]) -> Iterator[None]:
        """Indexes, bounds and sizes: whole numbers, compared as sums."""
        if not own or not loop:
            if len(own) == len(loop):
                yield
            return
        mark = self.mark()
        for _ in self.whole(own[0], loop[0]):
            yield from self.each(own[1:], loop[1:])
        self.undo(mark)

    def whole(self, own: Expression, loop: Expression) -> Iterator[None]:
        ours, theirs = affine(own, self.sizes), affine(loop)
        if ours is None or theirs is None:
            yield from self.value(own, loop)
            return
        atoms = [atom for atom in ours if isinstance(atom, Name)]
        if len(ours.keys() - {None}) != len(theirs.keys() - {None}):
            return
        for atom in atoms:
            name = self.names.get(atom.name)
            factor = theirs.get(Name(name)) if name is not None else None
            if factor is None or not self.poly(ours[atom], factor.get((), 0)):
                return
        constant = theirs.get(None, {}).get((), 0)
        if not self.poly(ours.get(None, {}), constant):
            return
        own_items = [(atom, ours[atom]) for atom in ours if isinstance(atom, Item)]
        their_items = [(atom, theirs[atom].get((), 0)) for atom in theirs if isinstance(atom, Item)]
        yield from self._items(own_items, their_items)

    def _items(self, own: list[tuple[Item, Poly]], loop: list[tuple[Item, int]]) -> Iterator[None]:
        if not own:
            if not loop:
                yield
            return
        item, factor = own[0]
        for place, (other, number) in enumerate(loop):
            mark = self.mark()
            if self.poly(factor, number):
                for _ in self.value(item, other):
                    yield from self._items(own[1:], loop[:place] + loop[place + 1 :])
            self.undo(mark)

    def poly(self, poly: Poly, value: int) -> bool:
        """Makes a sum of products of sizes a number: one unknown size is found, more of them wait."""
        known, open_terms = 0, []
        for term, factor in poly.items():
            unknown = []
            for symbol in term:
                number = self.numbers.get(symbol)
                if number is None:
                    unknown.append(symbol)
                else:
                    factor *= int(number)
            if unknown:
                open_terms.append((unknown, factor))
            else:
                known += factor
        if not open_terms:
            return known == value
        (unknown, factor), *more = open_terms
        if more or len(unknown) > 1:
            self.waiting.append((poly, value))
            return True
        if factor == 0 or (value - known) % factor:
            return False
        size = (value - known) // factor
        return size >= 0 and self.bind(self.numbers, unknown[0], size)  # type: ignore[arg-type]


def _effects(statement: Statement) -> tuple[frozenset[str], frozenset[str]]:
    reads: set[str] = set()
    sets: set[str] = set()
    own: set[str] = set()
    for inner in walk((statement,)):
        for expression in expressions(inner):
            reads |= _names(expression)
        if isinstance(inner, SetItem):
            sets.add(inner.item.tensor)
        elif isinstance(inner, SetScalar):
            sets.add(inner.name)
        elif isinstance(inner, (LetScalar, LetTensor, Repeat)):
            (sets if inner is statement and not isinstance(inner, Repeat) else own).add(inner.name)
    return frozenset(reads - own), frozenset(sets - own)


def _names(expression: Expression) -> set[str]:
    found = {item.tensor for item in items(expression)}
    pending = [expression]
    while pending:
        one = pending.pop()
        pending += parts(one)
        if isinstance(one, Name):
            found.add(one.name)
    return found
