"""Program text, and the places in it that messages point at."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Protocol

_LONG_WORD = re.compile(r"\S{81,}")


class Place(Protocol):
    """Where something is: a span of a source, a key of a project file, a tensor in a checkpoint."""

    def label(self) -> str:
        """One line, such as `model.lg:12:5` or `model.gguf, tensor blk.0.attn_q.weight`."""
        ...

    def excerpt(self) -> tuple[str, ...]:
        """Lines to show below the message (the source line and its carets); may be empty."""
        ...


def fnv1a(text: str) -> int:
    """The 64-bit FNV-1a hash of a text's UTF-8 bytes (Fowler, Noll, Vo)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def printable(text: str) -> str:
    """One line of text, with `?` for every character that a terminal would act on or not show (tabs stay)."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def brief(text: str) -> str:
    """The text with every very long word cut: a name may have 10^5 characters, a message may not."""
    return _LONG_WORD.sub(lambda word: f"{word.group()[:57]}…", text)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place with a label alone: a file, a key, a tensor in a file."""

    name: str

    def label(self) -> str:
        return self.name

    def excerpt(self) -> tuple[str, ...]:
        return ()


def _cells(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


@dataclass(frozen=True)
class Source:
    """A text file by the name that messages call it. Lines end at LF or CRLF and nowhere else."""

    name: str
    text: str
    lines: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = self.text.removeprefix("\ufeff")
        object.__setattr__(self, "text", text)
        parts = text.split("\n")
        object.__setattr__(self, "lines", tuple(part.removesuffix("\r") for part in parts))

    def fnv1a(self) -> str:
        """The 64-bit FNV-1a hash of the text's UTF-8 bytes, as 16 hex digits."""
        return f"{fnv1a(self.text):016x}"

    def digest(self) -> str:
        import hashlib

        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Span:
    """`length` characters of one line of a source; line and column count from 1, in characters."""

    source: Source
    line: int
    column: int
    length: int

    def label(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def excerpt(self) -> tuple[str, ...]:
        """The line and the carets below it. A long line is cut around the carets; control characters show as `?`."""
        line = printable(self.source.lines[self.line - 1])
        start, length = self.column - 1, max(self.length, 1)
        left = max(0, start - 60) if len(line) > 100 else 0
        right = left + 100
        shown = line[left:right]
        dots = "…" if left else ""
        tail = "…" if right < len(line) else ""
        pad = "".join("\t" if c == "\t" else " " * _cells(c) for c in line[left:start])
        carets = "^" * max(1, sum(map(_cells, line[start : min(start + length, right)])))
        return f"{dots}{shown}{tail}", f"{' ' * len(dots)}{pad}{carets}"


def read_source(path: str | os.PathLike[str], name: str | None = None) -> Source:
    """The program in a file. `name` is what messages call it (default: the path as given).

    Refused: a file that cannot be read (`unreadable-file`), bytes that are not UTF-8 (`not-utf-8`, at their place).
    """
    from logos.refusal import refuse

    label = name if name is not None else os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise refuse(
            "unreadable-file",
            f"cannot read the program: {error.strerror or error}",
            Spot(label),
            "give the path of a program (.lg) that exists and may be read",
        ) from None
    return source_from_bytes(label, data)


def source_from_bytes(name: str, data: bytes) -> Source:
    """A source from UTF-8 bytes; anything else is refused at its byte."""
    from logos.refusal import refuse

    try:
        return Source(name, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        line = good.count("\n") + 1
        rest = data[error.start :].split(b"\n", 1)[0].decode("utf-8", "replace")
        start = good.rsplit("\n", 1)[-1]
        shown = Source(name, "\n" * (line - 1) + start + rest)
        column = len(start.removeprefix("\ufeff") if line == 1 else start) + 1
        raise refuse(
            "not-utf-8",
            f"byte {error.start} (0x{data[error.start]:02x}) is not UTF-8",
            Span(shown, line, column, 1),
            "save the program as UTF-8",
        ) from None
