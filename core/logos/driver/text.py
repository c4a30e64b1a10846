"""C++ text of names, numbers and messages. What a program or a path says is escaped here and nowhere else."""

from __future__ import annotations

import math

_LOWEST = -(2**63)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
_ESCAPED = frozenset(_ESCAPES)


def c_string(text: str) -> str:
    """A string literal of the text's UTF-8 bytes; surrogates that stand for other bytes (`surrogateescape`) are those.

    Octal escapes end after three digits, so nothing that follows joins them.
    """
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


def c_comment(text: str) -> str:
    """Text for a `//` comment: one line, which no backslash goes on after."""
    return one_line(text).rstrip("\\ ")


def c_integer(value: int) -> str:
    """A `long long` constant, of -2^63 to 2^63 - 1; the lowest has no literal of its own."""
    return f"({_LOWEST + 1}LL - 1)" if value == _LOWEST else f"{value}LL"


def c_double(value: float) -> str:
    """A `double` constant with exactly this value; NAN and INFINITY are those of <math.h>."""
    return value.hex() if math.isfinite(value) else ("NAN" if math.isnan(value) else f"{'-' * (value < 0)}INFINITY")
