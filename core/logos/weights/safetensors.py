"""The safetensors container: 8 bytes of header length, a JSON header, then the tensors' bytes end to end.

Source of the format: the README of huggingface/safetensors.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeGuard

from logos.refusal import Refused, refuse
from logos.source import Spot

DTYPES: Mapping[str, str] = MappingProxyType(
    {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1"}
)
"""The element types that LOGOS reads, as numpy spells their bytes (BF16 as its 16 bits)."""

TRANSPOSED = "logos.transposed"
"""The metadata key that lists, separated by commas, the tensors that lie transposed to their program's shape."""

METADATA = "__metadata__"
"""The header's key of a file's metadata, which no tensor can have."""

METADATA_TENSOR = f"{METADATA}.value"
"""The key of the variable that is named as `METADATA` is. Names hold no point, so it is no other variable's."""

_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a file: `start` counts bytes from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


@dataclass(frozen=True)
class Contents:
    """A file's header: its tensors by variable, and which of them lie transposed."""

    entries: Mapping[str, Entry]
    transposed: frozenset[str]


def key_of(variable: str) -> str:
    """The key of a variable's tensor."""
    return METADATA_TENSOR if variable == METADATA else variable


def _variable_of(key: str) -> str:
    return METADATA if key == METADATA_TENSOR else key


def header(
    entries: Sequence[tuple[str, str, tuple[int, ...]]],
    transposed: Sequence[str],
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Length and header for tensors (variable, dtype, shape) that follow in this order, padded to 8 bytes with blanks;
    `transposed` are variables, `metadata` what the file says beside."""
    record: dict[str, object] = {}
    if transposed or metadata:
        said = {TRANSPOSED: ",".join(map(key_of, transposed))} if transposed else {}
        record[METADATA] = {**metadata, **said}
    start = 0
    for name, dtype, shape in entries:
        stop = start + nbytes(dtype, shape)
        record[key_of(name)] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    """The bytes of a tensor."""
    count = int(DTYPES[dtype][-1])
    for dimension in shape:
        count *= dimension
    return count


def read_header(path: Path) -> Contents:
    """A file's contents; every offset checked against the file's size. Kept while the file stays the same.

    Refused: a file that is no sound safetensors file (`broken-weight-file`) or cannot be read (`unreadable-file`).
    """
    try:
        state = path.stat()
    except OSError as error:
        raise refuse(
            "unreadable-file", f"cannot read it: {error.strerror}", Spot(str(path)), "give a file that may be read"
        ) from None
    return _read(path, state.st_size, state.st_mtime_ns)


def _broken(path: Path, what: str) -> Refused:
    return refuse(
        "broken-weight-file", f"not a sound safetensors file: {what}", Spot(str(path)), "write or download it again"
    )


@functools.lru_cache(maxsize=8)
def _read(path: Path, size: int, changed: int) -> Contents:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise _broken(path, f"a header of {length} bytes in a file of {size}")
        text = file.read(length)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise _broken(path, "its header is not JSON") from None
    if not isinstance(record, dict):
        raise _broken(path, "its header is no JSON object")
    metadata = record.pop(METADATA, {})
    keys = str(metadata.get(TRANSPOSED, "") if isinstance(metadata, dict) else "").split(",")
    entries = {_variable_of(key): _entry(path, key, fields, 8 + length, size) for key, fields in record.items()}
    return Contents(MappingProxyType(entries), frozenset(map(_variable_of, keys)) - {""})


def _entry(path: Path, name: str, fields: object, base: int, size: int) -> Entry:
    if not isinstance(fields, dict):
        raise _broken(path, f"the entry of {name} is no JSON object")
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise _broken(path, f"the entry of {name} lacks its dtype, shape or data_offsets")
    start, stop = offsets
    if dtype in DTYPES and stop - start != nbytes(dtype, tuple(shape)):
        raise _broken(path, f"{name} is {dtype} {tuple(shape)} but takes {stop - start} bytes")
    if not start <= stop <= size - base:
        raise _broken(path, f"{name} ends at byte {base + stop}; the file has {size}")
    return Entry(name, dtype, tuple(shape), base + start, stop - start)


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
