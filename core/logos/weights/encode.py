"""Values as the bytes of a weight file's element types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.weights.safetensors import DTYPES


def encoded(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Values as the bytes of a dtype, C-contiguous, rounded once."""
    if dtype == "BF16":
        return bfloat16_bits(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, DTYPES[dtype])


def bfloat16_bits(values: NDArray[Any]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16 of each value, ties to even; a NaN stays a quiet NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.ascontiguousarray(values, np.float32)
        bits = single.view(np.uint32)
        if values.dtype != np.float32:
            bits = _to_odd(values, single, bits)
    rounded = ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype("<u2")
    nan = np.isnan(single)
    if nan.any():
        rounded[nan] = (bits[nan] >> np.uint32(16)).astype(np.uint16) | np.uint16(0x40)
    return rounded


def _to_odd(values: NDArray[Any], single: NDArray[np.float32], bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The bits of wider values rounded to float32 by "round to odd": an inexact one toward zero, its last bit set.

    A second rounding, to the fewer bits of bfloat16, then gives what one rounding would (Boldo and Melquiond 2008).
    """
    wide = values.astype(np.float64, copy=False)
    back = single.astype(np.float64)
    inexact = (back != wide) & ~np.isnan(wide)
    toward: NDArray[np.uint32] = bits - (inexact & (np.abs(back) > np.abs(wide))).astype(np.uint32)
    toward |= inexact.astype(np.uint32)
    return toward
