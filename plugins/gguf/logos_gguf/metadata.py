"""A shard's metadata, decoded value by value when it is asked for."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

COUNT = struct.Struct("<Q")
WORD = struct.Struct("<I")
_PLAIN = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
VALUES = {kind: struct.Struct(form) for kind, form in _PLAIN.items()}
STRING, ARRAY = 8, 9
_RELEASED = 1 << 20
_FIRST = 16


def release(data: mmap.mmap, start: int, count: int) -> None:
    """Gives back the memory of bytes that were looked at, where there are many; they are read again when asked for."""
    if count >= _RELEASED and hasattr(mmap, "MADV_DONTNEED"):
        back = start % mmap.PAGESIZE
        data.madvise(mmap.MADV_DONTNEED, start - back, count + back)


class Array(Sequence[Any]):
    """An array of the metadata: its length is known, its items are decoded when they are asked for."""

    def __init__(self, data: mmap.mmap, kind: int, count: int, start: int) -> None:
        self._data, self._kind, self._count, self._start = data, kind, count, start
        self._items: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if self._items is None and isinstance(index, int) and 0 <= index < min(self._count, _FIRST):
            return _items(self._data, self._kind, index + 1, self._start)[index]
        return self._all()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __repr__(self) -> str:
        return f"<{self._count} items>"

    def _all(self) -> tuple[Any, ...]:
        if self._items is None:
            self._items = _items(self._data, self._kind, self._count, self._start)
        return self._items


class Metadata(Mapping[str, object]):
    """Metadata by key, from the type and the byte of each value; the places were checked when the header was read."""

    def __init__(self, data: mmap.mmap, places: Mapping[str, tuple[int, int]]) -> None:
        self._data, self._places = data, places

    def __getitem__(self, key: str) -> object:
        kind, at = self._places[key]
        if kind in VALUES:
            return VALUES[kind].unpack_from(self._data, at)[0]
        if kind == STRING:
            return _text(self._data, at)[0]
        item, count = WORD.unpack_from(self._data, at)[0], COUNT.unpack_from(self._data, at + 4)[0]
        return Array(self._data, item, count, at + 12)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _text(data: mmap.mmap, at: int) -> tuple[str, int]:
    """The string at a byte, and the byte after it."""
    start = at + COUNT.size
    stop = start + COUNT.unpack_from(data, at)[0]
    with memoryview(data) as view, view[start:stop] as part:
        text = str(part, "utf-8", "replace")
    release(data, start, stop - start)
    return text, stop


def _items(data: mmap.mmap, kind: int, count: int, at: int) -> tuple[Any, ...]:
    if kind in VALUES:
        return tuple(np.frombuffer(data, np.dtype(_PLAIN[kind]), count, at).tolist())
    texts = []
    for _ in range(count):
        text, at = _text(data, at)
        texts.append(text)
    return tuple(texts)
