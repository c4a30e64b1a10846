"""C text of names, numbers and messages. What a program or a path says is escaped here and nowhere else."""

from __future__ import annotations

import math
from pathlib import PurePath

from logos import Source

_LOWEST = -(2**63)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
_ESCAPED = frozenset(_ESCAPES)


def string(text: str) -> str:
    """A C string literal. Octal escapes end after three digits, so nothing that follows joins them."""
    plain = text.isascii() and text.isprintable() and _ESCAPED.isdisjoint(text)
    return f'"{text if plain else "".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isascii() and character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))


def one_line(text: str) -> str:
    """Text with `?` for what does not show, line breaks among it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def comment(text: str) -> str:
    """Text for a `//` comment: one line, which no backslash goes on after."""
    return one_line(text).rstrip("\\ ")


def file_name(source: Source) -> str:
    """The program's file without its folder, which would make the text another on another machine."""
    return PurePath(source.name).name


def integer(value: int) -> str:
    """An Int constant; the lowest has no literal of its own."""
    return f"({_LOWEST + 1}LL - 1)" if value == _LOWEST else f"{value}LL"


def double(value: float) -> str:
    """A double constant with exactly this value."""
    return value.hex() if math.isfinite(value) else ("NAN" if math.isnan(value) else f"{'-' * (value < 0)}INFINITY")


def single(value: float) -> str:
    """A float constant: the double nearest to what the program says, rounded once."""
    return f"static_cast<float>({double(value)})"
