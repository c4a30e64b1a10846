"""Q8_0 for targets: int8 quants and one float32 scale for each 32, split from stored blocks or made by quantization.

W[o][t] = q[o][t] · s[o][t // 32], for rows o of K values each, K a multiple of 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.weights.blocks import FORMATS, InexactValueError

BLOCK = FORMATS["Q8_0"].elements
_LAYOUT = FORMATS["Q8_0"].layout
_QUANTS_AT = _LAYOUT.fields["q"][1] if _LAYOUT.fields is not None else 0

# So many blocks, with all that is computed from them, stay in a core's cache.
_AT_ONCE = 4096

Quants = NDArray[np.int8]
Scales = NDArray[np.float32]


def split(raw: NDArray[np.uint8]) -> tuple[Quants, Scales]:
    """Rows of stored blocks, (rows, bytes of a row), as quants (rows, K) and scales (rows, K / 32); nothing is
    rounded."""
    raw = np.ascontiguousarray(raw)
    count = raw.size // _LAYOUT.itemsize
    quants = np.empty((len(raw), count // max(1, len(raw)) * BLOCK), np.int8)
    # 32 bytes moved as one item: twice as fast as numpy's copy of a field that is an array.
    items = np.ndarray((count,), f"V{BLOCK}", raw, _QUANTS_AT, (_LAYOUT.itemsize,))
    quants.reshape(-1).view(f"V{BLOCK}")[:] = items
    scales = np.ndarray((count,), "<f2", raw, 0, (_LAYOUT.itemsize,)).astype("<f4")
    return quants, scales.reshape(len(raw), -1)


def quantize(values: NDArray[Any]) -> NDArray[Any]:
    """Rows (rows, K), first made float32, as Q8_0 blocks (rows, K / 32).

    Of ggml's reference quantizer, operation by operation, and so equal to it bit for bit: d = max |x| / 127, quants
    x · (1 / d) rounded half away from zero, d stored as float16. Raises InexactValueError for a value that is not
    finite or whose scale float16 cannot hold.
    """
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, np.float32).reshape(-1, BLOCK)
    blocks = np.empty(len(single), _LAYOUT)
    for start in range(0, len(single), _AT_ONCE):
        _quantize(single[start : start + _AT_ONCE], blocks[start : start + _AT_ONCE])
    return blocks.reshape(len(values), -1)


def _quantize(single: NDArray[np.float32], blocks: NDArray[Any]) -> None:
    size = np.abs(single)
    largest = size
    while largest.shape[1] > 1:
        largest = np.maximum(*np.split(largest, 2, axis=1))
    with np.errstate(all="ignore"):
        scale = largest / np.float32(127)
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
        size *= inverse
        whole = np.floor(size)
        size -= whole
        size += size
        whole += np.floor(size, out=size)
        stored = scale.astype("<f2")
    if not np.isfinite(stored).all():
        worst = largest[~np.isfinite(stored)][0]
        raise InexactValueError(f"Q8_0 cannot hold a value of size {worst}")
    # Below 3e-39 the inverse is infinite, and the stored scale is 0 whatever the quants are.
    whole[~np.isfinite(inverse[:, 0])] = 0
    np.copysign(whole, single, out=whole)
    blocks["d"] = stored[:, 0]
    blocks["q"] = whole
