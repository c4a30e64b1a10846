"""Cosine, sine, power and logarithm that give the same bits on every machine.

numpy's and the C library's differ in the last bit between processors and versions, and rope tables go into weight
files. Here each value comes from additions and multiplications of float64 in a fixed order (IEEE 754 fixes their
results), or from decimal arithmetic. Source: the Taylor series, after reduction by multiples of π/2 in three parts
(Cody and Waite 1980, Software Manual for the Elementary Functions).
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import factorial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# π/2 as 33 bits, 33 more, and the rest: a multiple below 2^20 of either of the first two is exact in float64.
_HIGH = float.fromhex("0x1.921fb54400000p+0")
_MIDDLE = float.fromhex("0x1.0b4611a600000p-34")
_LOW = float.fromhex("0x1.3198a2e037073p-69")
_TURNS = float.fromhex("0x1.45f306dc9c883p-1")
_TERMS = 9

FARTHEST = 1_600_000
"""The largest angle that cosine and sine take: beyond it the reduction is no longer exact."""


def power(base: float, exponent_over: int, exponent_under: int) -> float:
    """base^(over / under), rounded once; base above 0."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(base) ** (Decimal(exponent_over) / exponent_under))


def logarithm(value: float) -> float:
    """The natural logarithm, rounded once; value above 0."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(value).ln())


def cosine(angles: Array) -> Array:
    """Within one unit in the last place, for angles from 0 to FARTHEST."""
    quarter, high, low = _reduced(angles)
    return _picked(quarter + 1, high, low)


def sine(angles: Array) -> Array:
    """Within one unit in the last place, for angles from 0 to FARTHEST."""
    quarter, high, low = _reduced(angles)
    return _picked(quarter, high, low)


def _reduced(angles: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """The quarter turn nearest to each angle, and what is left, at most π/4, as a sum of two parts."""
    quarter = np.rint(angles * _TURNS)
    first = angles - quarter * _HIGH
    second = quarter * _MIDDLE
    high = first - second
    # The rounding error of that difference (Knuth's two-sum).
    back = first - high
    low = (first - (high + back)) + (back - second) - quarter * _LOW
    whole = high + low
    return quarter.astype(np.int64), whole, (high - whole) + low


def _picked(quarter: NDArray[np.int64], high: Array, low: Array) -> Array:
    """sin(quarter · π/2 + high + low)."""
    value = np.where(quarter & 1, _small_cosine(high, low), _small_sine(high, low))
    return np.where(quarter & 2, -value, value)


def _series(square: Array, first: int) -> Array:
    """1/first! − square/(first+2)! + square²/(first+4)! − …"""
    total = np.zeros_like(square)
    for term in reversed(range(_TERMS)):
        total = total * -square + 1.0 / factorial(first + 2 * term)
    return total


def _small_sine(high: Array, low: Array) -> Array:
    square = high * high
    return high - (square * high * _series(square, 3) - low * (1.0 - 0.5 * square))


def _small_cosine(high: Array, low: Array) -> Array:
    square = high * high
    half = 0.5 * square
    near = 1.0 - half
    return near + (((1.0 - near) - half) + (square * square * _series(square, 4) - high * low))
