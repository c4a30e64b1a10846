"""A small GGUF writer for tests: sound files by default, and every field open to damage."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logos_gguf.storage import STORAGE

KINDS = {name: kind for kind, name in STORAGE.items()}


@dataclass
class Raw:
    """A metadata value by type number and bytes, or a tensor by its fields, written as they are."""

    kind: int
    data: bytes


@dataclass
class Info:
    """A tensor: dimensions as stored (fastest first), type number, data; `offset` None lets the writer place it."""

    dimensions: Sequence[int]
    kind: int
    data: bytes
    offset: int | None = None


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value_bytes(value: Any) -> tuple[int, bytes]:
    """A metadata value as (type number, bytes)."""
    if isinstance(value, Raw):
        return value.kind, value.data
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return (4, struct.pack("<I", value)) if 0 <= value < 2**32 else (11, struct.pack("<q", value))
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    items = [value_bytes(item) for item in value]
    kind = items[0][0] if items else 4
    return 9, struct.pack("<IQ", kind, len(items)) + b"".join(data for _, data in items)


def tensor(array: np.ndarray, storage: str = "F32") -> Info:
    """A float32 array stored as F32, F16 or BF16, or a uint8 array of (…, row bytes) as any block type."""
    from logos.weights.blocks import FORMATS

    form = FORMATS[storage]
    if array.dtype == np.uint8 and storage != "I8":
        columns = array.shape[-1] // form.nbytes * form.elements
        return Info((columns, *array.shape[-2::-1]), KINDS[storage], array.tobytes())
    if storage == "BF16":
        stored = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype("<u2")
    else:
        stored = array.astype(form.layout)
    return Info(array.shape[::-1], KINDS[storage], stored.tobytes())


def gguf(
    metadata: Mapping[str, Any] | Sequence[tuple[Any, Any]] = (),
    tensors: Mapping[str, Info] | Sequence[tuple[Any, Info]] = (),
    *,
    version: int = 3,
    alignment: int = 32,
    counts: tuple[int | None, int | None] = (None, None),
    magic: bytes = b"GGUF",
) -> bytes:
    """The bytes of a file. An alignment other than 32 becomes a key; `counts` lie about (tensors, keys)."""
    pairs = list(metadata.items()) if isinstance(metadata, Mapping) else list(metadata)
    infos = list(tensors.items()) if isinstance(tensors, Mapping) else list(tensors)
    if alignment != 32:
        pairs.append(("general.alignment", alignment))
    head = b""
    for key, value in pairs:
        kind, data = value_bytes(value)
        head += text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, info in infos:
        body += b"\0" * (-len(body) % alignment)
        offset = len(body) if info.offset is None else info.offset
        head += text(name) + struct.pack("<I", len(info.dimensions))
        head += struct.pack(f"<{len(info.dimensions)}Q", *info.dimensions) + struct.pack("<IQ", info.kind, offset)
        body += info.data
    count = tuple(len(real) if said is None else said for said, real in zip(counts, (infos, pairs), strict=True))
    start = magic + struct.pack("<IQQ", version, *count) + head
    return start + b"\0" * (-len(start) % alignment) + body
