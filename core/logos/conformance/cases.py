"""Programs of one op, made from its declaration: what every target's conformance is tested on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from logos.op import Hole, Op, Shapes, Word, factors
from logos.shapes import evaluate

_TRIES = 1000


def variants(op: Op) -> Iterator[tuple[frozenset[str], Shapes]]:
    """Every choice of optional parts with every shape rule that holds for it."""
    seen = set()
    for words in op.pattern.variants:
        present = frozenset(word.text for word in words if word.hole is not None)
        if present in seen or any(hole in present and op.requires[hole] not in present for hole in op.requires):
            continue
        seen.add(present)
        for rule in op.shapes:
            if present.issuperset(rule.given) and present.isdisjoint(rule.absent):
                yield present, rule


def program(op: Op, present: frozenset[str], rule: Shapes, random: Random, largest: int = 6, real: bool = True) -> str:
    """A program whose one operation is `op`: random sizes that the rule allows, operands declared (of Int unless
    `real`), states and rows filled. The rest has no value: fill it with noise."""
    sizes = _sizes(op, rule, random, largest)
    names = {word.text: f"{word.text.lower()}_" for word in op.pattern.holes}
    lines = [f"# {op.name}: {rule.text}"]
    fills = []
    for hole, dimensions in rule.operands.items():
        if hole not in present:
            continue
        rows, columns = (evaluate(dimension, sizes) or 1 for dimension in dimensions)
        lines.append(f"Let {names[hole]} be a {rows} by {columns} tensor of {'Real' if real else 'Int'}.")
        if hole in op.writes:
            items = range(1, rows * columns + 1)
            fills += [f"Set item {item} of {names[hole]} to {_number(random, real)}." for item in items]
    for hole in op.indexes:
        if hole in present:
            lines.append(f"Let {names[hole]} be a 1 by 1 tensor of Int.")
            fills.append(f"Set item 1 of {names[hole]} to {random.randrange(sizes[op.indexes[hole]])}.")
    words = [_word(word, names, sizes) for word in _variant(op, present)]
    lines += [*fills, " ".join(words) + "."]
    if op.statement:
        lines.append(f"Let out_ be transpose of {names[op.writes[0]]}.")
    return "\n".join(lines) + "\n"


def _variant(op: Op, present: frozenset[str]) -> tuple[Word, ...]:
    for words in op.pattern.variants:
        if frozenset(word.text for word in words if word.hole is not None) == present:
            return words
    raise ValueError(f"{op.name} has no variant with {sorted(present)}")


def _number(random: Random, real: bool) -> str:
    return repr(random.uniform(-1, 1)) if real else str(random.randrange(-9, 10))


def _word(word: Word, names: Mapping[str, str], sizes: Mapping[str, int]) -> str:
    if word.hole is None:
        return word.text
    if word.hole is Hole.COUNT:
        return str(sizes[word.text])
    return "0.001" if word.hole is Hole.VALUE else names[word.text]


def _sizes(op: Op, rule: Shapes, random: Random, largest: int) -> dict[str, int]:
    """Random sizes of a rule's symbols and the op's counts that meet its conditions."""
    symbols = dict.fromkeys(op.counts)
    for dimensions in rule.operands.values():
        for dimension in dimensions:
            symbols.update(dict.fromkeys(factors(dimension)[1]))
    for _ in range(_TRIES):
        sizes = {symbol: random.randint(1, largest) for symbol in symbols}
        for part, whole in rule.divides:
            sizes[whole] = sizes[part] * random.randint(1, 3)
        if all((evaluate(low, sizes) or 0) <= (evaluate(high, sizes) or 0) for low, high in rule.most):
            return sizes
    raise ValueError(f"{op.name}: no sizes up to {largest} meet {rule.text}")
