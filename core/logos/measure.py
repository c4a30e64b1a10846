"""How far two arrays of one value lie apart: the element that does most, held to the rule of verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.graph import Value
from logos.verification import INFINITE

Array = NDArray[Any]

_ROUNDING = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8}
"""What rounding to a dtype may change of a number, relatively."""
_SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest number that float32 and bfloat16 hold to their full precision."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The element that lies farthest from what is due: row and column (from 0), both numbers, and their distance,
    infinite where the rule admits none."""

    distance: float
    row: int
    column: int
    found: int | float
    due: int | float


@dataclass(frozen=True, slots=True)
class Measure:
    """A value at one step: its gap (None where nothing is apart), the largest magnitude due at any step, its bound."""

    value: Value
    gap: Gap | None
    scale: float
    bound: float

    @property
    def difference(self) -> float:
        """By the rule of verification."""
        if self.gap is None:
            return 0.0
        return self.gap.distance / self.scale if self.scale else INFINITE

    @property
    def holds(self) -> bool:
        return self.difference <= self.bound

    @property
    def part(self) -> float:
        """The difference as a part of the bound."""
        return self.difference / self.bound if self.bound else (0.0 if self.gap is None else INFINITE)


def largest(due: Array) -> float:
    """The largest finite magnitude; 0 where there is none."""
    finite = np.abs(due[np.isfinite(due)].astype(np.float64))
    return float(finite.max()) if finite.size else 0.0


def gap_between(due: Array, found: Array, nan_is_nan: bool = False) -> Gap | None:
    """Two arrays of one shape by the rule of verification: infinities agree with themselves alone, integers exactly, a
    NaN with nothing, or with itself where it is due because of what both sides were given."""
    apart = due != found
    if nan_is_nan:
        apart &= ~(np.isnan(due) & np.isnan(found))
    if not apart.any():
        return None
    with np.errstate(all="ignore"):
        distance = np.where(apart, np.abs(due.astype(np.float64) - found.astype(np.float64)), 0.0)
    exact = due.dtype.kind != "f"
    distance[(np.isnan(distance) | exact) & apart] = INFINITE
    return _farthest(distance, due, found)


def _farthest(distance: Array, due: Array, found: Array) -> Gap:
    row, column = (int(place) for place in np.unravel_index(int(np.argmax(distance)), distance.shape))
    return Gap(float(distance[row, column]), row, column, found[row, column].item(), due[row, column].item())


def beyond_rounding(due: Array, found: Array, dtype: str) -> Gap | None:
    """As `gap_between`, but for elements that rounding to the dtype explains."""
    if due.dtype.kind != "f":
        return gap_between(due, found)
    with np.errstate(all="ignore"):
        distance = np.abs(due - found.astype(np.float64))
        allowed = distance <= _ROUNDING.get(dtype, 0.0) * np.abs(due) + _SMALLEST
    distance[np.isnan(distance)] = INFINITE
    distance[allowed | (due == found)] = 0.0
    return _farthest(distance, due, found) if distance.any() else None
