"""Strings that know which of their characters a template wrote itself, and which came from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

OWN, OTHER = b"\1", b"\0"


def origin(text: str) -> bytes:
    """For each character, 1 where a template wrote it. A string that does not know came from elsewhere."""
    return text._origin if isinstance(text, Rendered) else OTHER * len(text)


def own(text: str) -> Rendered:
    """A text that the template wrote."""
    return Rendered(str.__str__(text), OWN * len(text))


class Rendered(str):
    """A string with the origin of its characters, kept through what templates do to strings.

    What is not listed here gives a plain string, whose characters count as from elsewhere.
    """

    _origin: bytes

    def __new__(cls, text: str = "", _origin: bytes | None = None) -> Rendered:
        self = super().__new__(cls, text)
        self._origin = origin(text) if _origin is None else _origin
        return self

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> Rendered:
        if not isinstance(other, str):
            return NotImplemented
        return Rendered(str.__add__(self, other), self._origin + origin(other))

    def __radd__(self, other: str) -> Rendered:
        if not isinstance(other, str):
            return NotImplemented
        return Rendered(str.__add__(other, self), origin(other) + self._origin)

    def __mul__(self, count: SupportsIndex) -> Rendered:
        return Rendered(str.__mul__(self, count), self._origin * count.__index__())

    __rmul__ = __mul__

    def __getitem__(self, index: SupportsIndex | slice) -> Rendered:
        if isinstance(index, slice):
            return Rendered(str.__getitem__(self, index), self._origin[index])
        return Rendered(str.__getitem__(self, index), bytes((self._origin[index.__index__()],)))

    def lstrip(self, characters: str | None = None, /) -> Rendered:
        return self[len(self) - len(str.lstrip(self, characters)) :]

    def rstrip(self, characters: str | None = None, /) -> Rendered:
        return self[: len(str.rstrip(self, characters))]

    def strip(self, characters: str | None = None, /) -> Rendered:
        return self.lstrip(characters).rstrip(characters)

    def join(self, parts: Iterable[str], /) -> Rendered:
        return concatenate(parts, self)

    def split(self, separator: str | None = None, maxsplit: SupportsIndex = -1) -> list[Any]:
        found, at = [], 0
        for part in str.split(self, separator, maxsplit):
            at = str.index(self, part, at)
            found.append(self[at : at + len(part)])
            at += len(part) + len(separator or "")
        return found

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        return concatenate(self.split(old, count), new) if old else str.replace(self, old, new, count)


def concatenate(parts: Iterable[Any], separator: str = "") -> Rendered:
    """The parts in one string, each with the origin of its characters."""
    items: list[str] = []
    for part in parts:
        if items and separator:
            items.append(separator)
        items.append(str(part))
    return Rendered("".join(map(str.__str__, items)), b"".join(map(origin, items)))
