"""Arithmetic on 64-bit integers that is exact or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from logos.late import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

_LIMIT = 2**63


def is_int(*arrays: Array) -> bool:
    """Whether every array holds integers."""
    return all(array.dtype.kind == "i" for array in arrays)


def largest(array: Array) -> int:
    """The largest magnitude, as a Python integer (−2^63 has one beyond int64)."""
    if array.size == 0:
        return 0
    return max(abs(int(array.max())), abs(int(array.min())))


def narrow(array: Array) -> Array:
    """Python integers back to int64; ArithmeticError where one does not fit."""
    flat = array.reshape(-1)
    if any(not -_LIMIT <= int(value) < _LIMIT for value in flat):
        raise ArithmeticError("a result does not fit 64 bits")
    return array.astype(np.int64)


def add(a: Array, b: Array) -> Array:
    """a + b; integers exactly."""
    if not is_int(a, b) or largest(a) + largest(b) < _LIMIT:
        return np.asarray(a + b)
    return narrow(np.asarray(a.astype(object) + b.astype(object)))


def multiply(a: Array, b: Array) -> Array:
    """a · b elementwise; integers exactly."""
    if not is_int(a, b) or largest(a) * largest(b) < _LIMIT:
        return np.asarray(a * b)
    return narrow(np.asarray(a.astype(object) * b.astype(object)))


def dot(a: Array, b: Array) -> Array:
    """The matrix product; integers exactly."""
    if not is_int(a, b) or largest(a) * largest(b) * a.shape[1] < _LIMIT:
        return np.asarray(a @ b)
    return narrow(np.asarray(a.astype(object) @ b.astype(object)))
