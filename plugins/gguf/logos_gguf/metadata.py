"""A shard's metadata, decoded value by value when it is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from mmap import mmap
from typing import Any, overload

import numpy as np

COUNT = struct.Struct("<Q")
WORD = struct.Struct("<I")
_PLAIN = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
VALUES = {kind: struct.Struct(form) for kind, form in _PLAIN.items()}
STRING, ARRAY = 8, 9


class Array(Sequence[Any]):
    """An array of the metadata: its length is known, its items are decoded when they are asked for."""

    def __init__(self, data: mmap, kind: int, count: int, start: int) -> None:
        self._data, self._kind, self._count, self._start = data, kind, count, start
        self._items: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, index: int | slice) -> Any:
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

    def __init__(self, data: mmap, places: Mapping[str, tuple[int, int]]) -> None:
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


def _text(data: mmap, at: int) -> tuple[str, int]:
    """The string at a byte, and the byte after it."""
    start = at + COUNT.size
    stop = start + COUNT.unpack_from(data, at)[0]
    return data[start:stop].decode("utf-8", "replace"), stop


def _items(data: mmap, kind: int, count: int, at: int) -> tuple[Any, ...]:
    if kind in VALUES:
        return tuple(np.frombuffer(data, np.dtype(_PLAIN[kind]), count, at).tolist())
    texts = []
    for _ in range(count):
        text, at = _text(data, at)
        texts.append(text)
    return tuple(texts)
