"""Whole-number expressions as sums: each scalar times a number, plus a number. In an op's own loops the numbers are
polynomials of its sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logos.loops.records import Binary, Expression, Item, Name, Negative, Number

Poly = Mapping[tuple[str, ...], int]
"""Products of sizes, in order, each with its factor; the empty product is the number 1."""
Affine = Mapping[Expression | None, Poly]
"""Scalars and items, each with its factor; None stands for 1."""


def number(value: int) -> Poly:
    """A polynomial without sizes."""
    return {(): value} if value else {}


def add(one: Poly, other: Poly, factor: int = 1) -> Poly:
    """one + factor · other"""
    found = dict(one)
    for term, value in other.items():
        found[term] = found.get(term, 0) + factor * value
    return {term: value for term, value in found.items() if value}


def multiply(one: Poly, other: Poly) -> Poly:
    """one · other"""
    found: Poly = {}
    for term, value in one.items():
        found = add(found, {tuple(sorted(term + more)): value * factor for more, factor in other.items()})
    return found


def affine(expression: Expression, sizes: Collection[str] = ()) -> Affine | None:
    """The sum that an expression is; None where it is none (a product of two scalars, a division, a Real)."""
    if isinstance(expression, Number):
        return {None: number(expression.value)} if isinstance(expression.value, int) else None
    if isinstance(expression, Name):
        return {None: {(expression.name,): 1}} if expression.name in sizes else {expression: number(1)}
    if isinstance(expression, Item):
        return {expression: number(1)}
    if isinstance(expression, Negative):
        inner = affine(expression.inner, sizes)
        return None if inner is None else _sum({}, inner, -1)
    if isinstance(expression, Binary) and expression.sign != "/":
        left, right = affine(expression.left, sizes), affine(expression.right, sizes)
        if left is None or right is None:
            return None
        if expression.sign != "*":
            return _sum(left, right, 1 if expression.sign == "+" else -1)
        if set(left) - {None} and set(right) - {None}:
            return None
        factor, of = (right, left) if set(left) - {None} else (left, right)
        return _clean({atom: multiply(poly, factor.get(None, {})) for atom, poly in of.items()})
    return None


def _sum(left: Affine, right: Affine, factor: int) -> Affine:
    return _clean({atom: add(left.get(atom, {}), right.get(atom, {}), factor) for atom in {**left, **right}})


def _clean(found: Affine) -> Affine:
    return {atom: poly for atom, poly in found.items() if poly}


def constant(expression: Expression) -> int | None:
    """The whole number that an expression is whatever its scalars are; None where it is none."""
    found = affine(expression)
    if found is None or set(found) - {None}:
        return None
    return found.get(None, {}).get((), 0)
