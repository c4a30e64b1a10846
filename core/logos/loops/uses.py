"""Which tensors of the program a loop reads and sets, and whether it makes one whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from logos.late import np
from logos.loops.affine import affine, constant
from logos.loops.records import If, Item, LetScalar, LetTensor, Name, Repeat, SetItem, Statement, expressions, items

Around = tuple["Repeat | If", ...]
_LARGEST = 2**24
"""Items that are marked one by one, at most; beyond it a loop makes a tensor whole where one line sets all of it."""


@dataclass(frozen=True, slots=True)
class Access:
    """An item of a tensor of the program, read or set, and the statements around it, the outermost first."""

    item: Item
    sets: bool
    around: Around


def accesses(loop: Repeat) -> Iterator[Access]:
    """Every item of the program's tensors that a loop names, line by line: what a line reads, then what it sets."""
    yield from _accesses((loop,), (), frozenset())


def _accesses(statements: tuple[Statement, ...], around: Around, own: frozenset[str]) -> Iterator[Access]:
    for statement in statements:
        for expression in expressions(statement):
            yield from (Access(item, False, around) for item in items(expression) if item.tensor not in own)
        if isinstance(statement, (LetScalar, LetTensor)):
            own |= {statement.name}
        elif isinstance(statement, SetItem) and statement.item.tensor not in own:
            yield Access(statement.item, True, around)
        elif isinstance(statement, (Repeat, If)):
            inner = own | {statement.name} if isinstance(statement, Repeat) else own
            yield from _accesses(statement.body, (*around, statement), inner)


def outputs(loop: Repeat, shapes: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """The tensors that a loop makes: those that it sets before it reads them, line by line, and every item of them.
    What else it sets is a state. `shapes` gives the shape of every tensor that is declared."""
    found: dict[str, list[Access]] = {}
    for access in accesses(loop):
        found.setdefault(access.item.tensor, []).append(access)
    return tuple(name for name, uses in found.items() if uses[0].sets and name in shapes and _whole(uses, shapes[name]))


def _whole(uses: list[Access], shape: tuple[int, int]) -> bool:
    size = shape[0] * shape[1]
    runs = [run for use in uses if use.sets and (run := _run(use, shape)) is not None]
    if any(_covers(run, size) for run in runs):
        return True
    if size > _LARGEST or len(runs) < 2:
        return False
    marked = np.zeros(size, dtype=bool)
    for start, dimensions in runs:
        places = np.asarray(start)
        for factor, count in dimensions:
            places = (places[..., None] + factor * np.arange(count)).reshape(-1)
            if places.size > 2 * size:
                return False
        marked[places[(places >= 0) & (places < size)]] = True
    return bool(marked.all())


Run = tuple[int, tuple[tuple[int, int], ...]]
"""Places from 0: the first one, and (distance, count) of each loop over them."""


def _run(use: Access, shape: tuple[int, int]) -> Run | None:
    """The places that a line sets whatever the values are; None where that is not plain."""
    bounds: dict[str, tuple[int, int]] = {}
    for statement in use.around:
        if isinstance(statement, If):
            return None
        first, last = constant(statement.first), constant(statement.last)
        if first is None or last is None or last < first:
            return None
        bounds[statement.name] = first, last - first + 1
    factors: dict[str, int] = {}
    start = 0
    strides = (shape[1], 1) if len(use.item.indexes) == 2 else (1,)
    for index, stride in zip(use.item.indexes, strides, strict=True):
        terms = affine(index)
        if terms is None:
            return None
        start -= stride
        for atom, poly in terms.items():
            factor = stride * poly.get((), 0)
            if atom is None:
                start += factor
            elif isinstance(atom, Name) and atom.name in bounds:
                factors[atom.name] = factors.get(atom.name, 0) + factor
                start += factor * bounds[atom.name][0]
            else:
                return None
    # A negative distance runs the same places from the other end.
    start += sum(factor * (bounds[name][1] - 1) for name, factor in factors.items() if factor < 0)
    return start, tuple((abs(factor), bounds[name][1]) for name, factor in factors.items() if factor)


def _covers(run: Run, size: int) -> bool:
    """Whether one line's places are 0 … size − 1: each loop goes on where the loops within it end."""
    start, dimensions = run
    reach = 1
    for factor, count in sorted(dimensions):
        if factor > reach:
            return False
        reach = max(reach, factor * (count - 1) + reach)
    return start == 0 and reach == size
