"""Block formats: how the storage types of checkpoints lie in bytes, and the float32 values that they stand for.

A format is a row of a table: the layout of one block as a numpy record, how many elements it holds, and a function
from an array of blocks to float32 (blocks, elements). The layouts and the order of the float32 operations are those
of ggml's reference dequantizers, so values agree with them bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[Any]
Floats = NDArray[np.float32]


class InexactValueError(ValueError):
    """A stored value that float32 cannot hold."""


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """One storage type.

    elements  values in a block; a row is a whole number of blocks
    layout    the record of one block; its size is the block's bytes
    decode    blocks → float32 (blocks, elements)
    """

    name: str
    elements: int
    layout: np.dtype[Any]
    decode: Callable[[Blocks], Floats]

    @property
    def nbytes(self) -> int:
        """Bytes of one block."""
        return int(self.layout.itemsize)

    def row_bytes(self, columns: int) -> int | None:
        """Bytes of a row of `columns` values; None where that is no whole number of blocks."""
        blocks, rest = divmod(columns, self.elements)
        return None if rest else blocks * self.nbytes

    def floats(self, raw: NDArray[np.uint8]) -> Floats:
        """Rows as stored, (rows, bytes of a row), to their float32 values (rows, columns).

        May be a view of `raw` (F32). Raises InexactValueError where float32 cannot hold a value (F64, I32, I64).
        """
        blocks = np.ascontiguousarray(raw).reshape(-1).view(self.layout)
        with np.errstate(all="ignore"):
            return self.decode(blocks).reshape(len(raw), -1)


def _scale(field: NDArray[Any]) -> Floats:
    """A float16 field of every block as a float32 column."""
    return field.astype(np.float32)[:, None]


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(…, n) bytes to (…, 2n) values: all low halves, then all high halves."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _bits(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(blocks, 4) bytes to (blocks, 32) bits, lowest first."""
    return np.unpackbits(packed, axis=-1, bitorder="little")


def _crumbs(packed: NDArray[np.uint8], group: int, width: int, mask: int) -> NDArray[np.uint8]:
    """(blocks, n) bytes in runs of `group` to values of `width` bits: of each run all lowest fields first."""
    runs = packed.reshape(len(packed), -1, 1, group)
    shifts = np.arange(0, 8, width, dtype=np.uint8).reshape(1, 1, -1, 1)
    return ((runs >> shifts) & np.uint8(mask)).reshape(len(packed), -1)


def _plain(blocks: Blocks) -> Floats:
    values: Floats = blocks.astype(np.float32, copy=False)
    return values


def _narrowed(blocks: Blocks) -> Floats:
    """Wide numbers to float32; one that does not come back the same is an error."""
    values = blocks.astype(np.float32)
    if blocks.dtype.kind == "i":
        # 2^63 is a float32 and no int64, so it cannot be cast back.
        fits = values < np.float32(2.0 ** (8 * blocks.dtype.itemsize - 1))
        same = fits & (np.where(fits, values, 0).astype(blocks.dtype) == blocks)
    else:
        same = (values.astype(np.float64) == blocks) | np.isnan(blocks)
    if not same.all():
        raise InexactValueError(f"float32 cannot hold {blocks[~same][0]}")
    return values


def _bf16(blocks: Blocks) -> Floats:
    return (blocks.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _q8_0(blocks: Blocks) -> Floats:
    out = np.empty((len(blocks), 32), np.float32)
    np.multiply(blocks["q"], _scale(blocks["d"]), out=out)
    return out


def _q4_0(blocks: Blocks) -> Floats:
    return _scale(blocks["d"]) * (_nibbles(blocks["q"]).astype(np.int8) - np.int8(8))


def _q4_1(blocks: Blocks) -> Floats:
    return _scale(blocks["d"]) * _nibbles(blocks["q"]) + _scale(blocks["m"])


def _q5_0(blocks: Blocks) -> Floats:
    quants = _nibbles(blocks["q"]) | (_bits(blocks["h"]) << 4)
    return _scale(blocks["d"]) * (quants.astype(np.int8) - np.int8(16))


def _q5_1(blocks: Blocks) -> Floats:
    quants = _nibbles(blocks["q"]) | (_bits(blocks["h"]) << 4)
    return _scale(blocks["d"]) * quants + _scale(blocks["m"])


def _scaled(scale: Floats, quants: NDArray[Any], offset: Floats | None = None) -> Floats:
    """Groups of a super-block: scale (blocks, groups) times quants (blocks, 256), less offset (blocks, groups)."""
    grouped = quants.reshape(len(scale), scale.shape[1], -1)
    out: Floats = scale[:, :, None] * grouped
    if offset is not None:
        out -= offset[:, :, None]
    return out.reshape(len(scale), -1)


def _q2_k(blocks: Blocks) -> Floats:
    scale = _scale(blocks["d"]) * (blocks["s"] & 15)
    offset = _scale(blocks["m"]) * (blocks["s"] >> 4)
    return _scaled(scale, _crumbs(blocks["q"], 32, 2, 3), offset)


def _q3_k(blocks: Blocks) -> Floats:
    low = _nibbles(blocks["s"][:, :8])
    high = _crumbs(blocks["s"][:, 8:], 4, 2, 3)
    scale = _scale(blocks["d"]) * ((low | (high << 4)).astype(np.int8) - np.int8(32))
    # A clear high bit means 4 less.
    lacks = _crumbs(blocks["h"], 32, 1, 1) ^ np.uint8(1)
    quants = _crumbs(blocks["q"], 32, 2, 3).astype(np.int8) - (lacks << 2).astype(np.int8)
    return _scaled(scale, quants)


def _six_bits(packed: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The eight scales and eight offsets, 6 bits each, in the 12 bytes of Q4_K and Q5_K."""
    first, second, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (rest & 15) | ((first >> 6) << 4)], axis=1)
    offsets = np.concatenate([second & 63, (rest >> 4) | ((second >> 6) << 4)], axis=1)
    return scales, offsets


def _k(blocks: Blocks, quants: NDArray[Any]) -> Floats:
    scales, offsets = _six_bits(blocks["s"])
    return _scaled(_scale(blocks["d"]) * scales, quants, _scale(blocks["m"]) * offsets)


def _q4_k(blocks: Blocks) -> Floats:
    return _k(blocks, _crumbs(blocks["q"], 32, 4, 15))


def _q5_k(blocks: Blocks) -> Floats:
    return _k(blocks, _crumbs(blocks["q"], 32, 4, 15) | (_crumbs(blocks["h"], 32, 1, 1) << 4))


def _q6_k(blocks: Blocks) -> Floats:
    quants = _crumbs(blocks["q"], 64, 4, 15) | (_crumbs(blocks["h"], 32, 2, 3) << 4)
    return _scaled(_scale(blocks["d"]) * blocks["s"], quants.astype(np.int8) - np.int8(32))


_IQ4_LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
_FP4_LEVELS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def _iq4_nl(blocks: Blocks) -> Floats:
    return _scale(blocks["d"]) * _IQ4_LEVELS[_nibbles(blocks["q"])]


def _iq4_xs(blocks: Blocks) -> Floats:
    low = np.stack([blocks["l"] & 15, blocks["l"] >> 4], axis=-1).reshape(-1, 8)
    high = (blocks["h"][:, None] >> np.arange(0, 16, 2, dtype=np.uint16)).astype(np.uint8) & 3
    scale = _scale(blocks["d"]) * ((low | (high << 4)).astype(np.int8) - np.int8(32))
    return _scaled(scale, _IQ4_LEVELS[_crumbs(blocks["q"], 16, 4, 15)])


def _mxfp4(blocks: Blocks) -> Floats:
    # Half of 2^(e - 127), as levels are stored doubled; the two smallest exponents are subnormal.
    exponent = blocks["e"].astype(np.uint32)
    bits = np.where(exponent < 2, np.uint32(0x00200000) << (exponent & 1), (exponent - np.uint32(1)) << np.uint32(23))
    return bits.view(np.float32)[:, None] * _FP4_LEVELS[_nibbles(blocks["q"])]


def _table() -> dict[str, BlockFormat]:
    d, m = ("d", "<f2"), ("m", "<f2")
    rows: list[tuple[str, int, Any, Callable[[Blocks], Floats]]] = [
        ("F32", 1, "<f4", _plain),
        ("F16", 1, "<f2", _plain),
        ("BF16", 1, "<u2", _bf16),
        ("F64", 1, "<f8", _narrowed),
        ("I8", 1, "i1", _plain),
        ("I16", 1, "<i2", _plain),
        ("I32", 1, "<i4", _narrowed),
        ("I64", 1, "<i8", _narrowed),
        ("Q8_0", 32, [d, ("q", "i1", 32)], _q8_0),
        ("Q4_0", 32, [d, ("q", "u1", 16)], _q4_0),
        ("Q4_1", 32, [d, m, ("q", "u1", 16)], _q4_1),
        ("Q5_0", 32, [d, ("h", "u1", 4), ("q", "u1", 16)], _q5_0),
        ("Q5_1", 32, [d, m, ("h", "u1", 4), ("q", "u1", 16)], _q5_1),
        ("Q2_K", 256, [("s", "u1", 16), ("q", "u1", 64), d, m], _q2_k),
        ("Q3_K", 256, [("h", "u1", 32), ("q", "u1", 64), ("s", "u1", 12), d], _q3_k),
        ("Q4_K", 256, [d, m, ("s", "u1", 12), ("q", "u1", 128)], _q4_k),
        ("Q5_K", 256, [d, m, ("s", "u1", 12), ("h", "u1", 32), ("q", "u1", 128)], _q5_k),
        ("Q6_K", 256, [("q", "u1", 128), ("h", "u1", 64), ("s", "i1", 16), d], _q6_k),
        ("IQ4_NL", 32, [d, ("q", "u1", 16)], _iq4_nl),
        ("IQ4_XS", 256, [d, ("h", "<u2"), ("l", "u1", 4), ("q", "u1", 128)], _iq4_xs),
        ("MXFP4", 32, [("e", "u1"), ("q", "u1", 16)], _mxfp4),
    ]
    return {name: BlockFormat(name, size, np.dtype(layout), decode) for name, size, layout, decode in rows}


FORMATS: Mapping[str, BlockFormat] = MappingProxyType(_table())
"""Every storage type that LOGOS reads, by its name."""
