"""Sizes of a shape rule's symbols: drawn at random, and pinned to those that kernels get wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from logos.op import Op, Shapes, factors
from logos.shapes import evaluate

DIMENSIONS = (1, 2, 2, 3, 3, 4, 5, 5, 7, 7, 8, 11, 13, 16, 17, 31, 32, 33, 37, 63, 64, 65, 97, 127, 128, 129)
COUNTS = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8)
WIDE = 257
"""A prime beyond the usual width of a block."""
_MOST = 1 << 17
"""The most elements of an operand: beyond it a run shows no more, and takes longer."""
_TRIES = 2000
_MULTIPLES = (1, 2, 3, 4)
_BEYOND = (0, 0, 1, 2, 5)


def symbols(op: Op, rule: Shapes) -> tuple[str, ...]:
    """The op's counts, then the rule's other symbols."""
    found = dict.fromkeys(op.counts)
    for dimensions in rule.operands.values():
        for dimension in dimensions:
            found.update(dict.fromkeys(factors(dimension)[1]))
    used = {symbol for dims in rule.operands.values() for dim in dims for symbol in factors(dim)[1]}
    used |= {symbol for pair in (*rule.divides, *rule.most) for dim in pair for symbol in factors(dim)[1]}
    return tuple(symbol for symbol in found if symbol in used or symbol not in rule.absent)


def random_sizes(
    op: Op, rule: Shapes, random: Random, dimensions: Sequence[int], counts: Sequence[int] | None = None
) -> dict[str, int]:
    """Random sizes that meet the rule's conditions, from these dimensions and counts (default: the dimensions).
    Raises ValueError where there are none."""
    found = _draw(op, rule, {}, random, dimensions, dimensions if counts is None else counts)
    if found is None:
        raise ValueError(f"{op.name}: no sizes up to {max(dimensions)} meet {rule.text}")
    return found


def awkward_pins(op: Op, rule: Shapes, random: Random) -> Iterator[Mapping[str, int]]:
    """Sizes of some symbols that are to be tried whatever else is: all 1, each 1, each wide, counts of 2 to 5, a count
    that divides another and is a third of it or the same (HV = 3 HK), limits that are met (TOP = EXPERTS). What
    contradicts the rule is left out."""
    for pins in _pins(op, rule):
        if _draw(op, rule, pins, random, DIMENSIONS, COUNTS) is not None:
            yield pins


def pinned_sizes(op: Op, rule: Shapes, pins: Mapping[str, int], random: Random) -> dict[str, int]:
    """Random sizes that meet the rule's conditions, with those of `pins`. Raises ValueError where there are none."""
    found = _draw(op, rule, pins, random, DIMENSIONS, COUNTS)
    if found is None:
        raise ValueError(f"{op.name}: no sizes with {pins} meet {rule.text}")
    return found


def _pins(op: Op, rule: Shapes) -> Iterator[dict[str, int]]:
    every = symbols(op, rule)
    wholes = {whole for _, whole in rule.divides}
    yield dict.fromkeys(every, 1)
    for part, whole in rule.divides:
        yield {part: 2, whole: 6}
        yield {part: 3, whole: 3}
        yield {part: 1, whole: 3}
    for low, high in rule.most:
        number, inner = factors(low)
        if len(factors(high)[1]) == 1 and len(inner) == 1:
            yield {inner[0]: 5, high: 5 * number}
    counts = [symbol for symbol in every if symbol in op.counts and symbol not in wholes]
    for size in (2, 3, 4, 5):
        for symbol in counts:
            yield {symbol: size}
    for symbol in every:
        yield {symbol: 1}
    for symbol in every:
        if symbol not in op.counts:
            yield {symbol: WIDE}


def _draw(
    op: Op, rule: Shapes, pins: Mapping[str, int], random: Random, dimensions: Sequence[int], counts: Sequence[int]
) -> dict[str, int] | None:
    every = symbols(op, rule)
    for _ in range(_TRIES):
        sizes = {symbol: random.choice(counts if symbol in op.counts else dimensions) for symbol in every}
        for part, whole in rule.divides:
            sizes[whole] = sizes[part] * random.choice(_MULTIPLES)
        sizes.update(pins)
        for low, high in rule.most:
            if high in sizes and high not in pins:
                sizes[high] = max(sizes[high], (evaluate(low, sizes) or 0) + random.choice(_BEYOND))
        if meets(rule, sizes) and _largest(rule, sizes) <= _MOST:
            return sizes
    return None


def meets(rule: Shapes, sizes: Mapping[str, int]) -> bool:
    """Whether sizes keep the conditions of a rule."""
    divided = all(sizes[whole] % sizes[part] == 0 for part, whole in rule.divides)
    return divided and all((evaluate(low, sizes) or 0) <= (evaluate(high, sizes) or 0) for low, high in rule.most)


def _largest(rule: Shapes, sizes: Mapping[str, int]) -> int:
    return max((evaluate(rows, sizes) or 1) * (evaluate(columns, sizes) or 1)
               for rows, columns in rule.operands.values())  # fmt: skip
