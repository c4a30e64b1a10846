"""TOML with the place of each key: tomllib reads the values and keeps no places."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from logos.refusal import refuse
from logos.source import Place, Source, Span, Spot

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple[str, ...]

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<multi>\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5})
      | (?P<quoted>"(?:\\.|[^"\\\n])*"|'[^'\n]*')
      | (?P<bare>[^\s\#"'\[\]{}=,.]+)
      | (?P<newline>\n)
      | (?P<mark>[\[\]{}=,.])
      | (?P<blank>[^\S\n]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A key of a project file: its dotted name beside its file and line."""

    span: Span
    dotted: str

    def label(self) -> str:
        return f"{self.span.label()}: {self.dotted}"

    def excerpt(self) -> tuple[str, ...]:
        return self.span.excerpt()


@dataclass(frozen=True)
class Toml:
    """A TOML text's values, and where its keys stand."""

    source: Source
    values: dict[str, Any]

    @cached_property
    def places(self) -> Mapping[KeyPath, KeyPlace]:
        return key_places(self.source)

    def place(self, *path: str) -> Place:
        """Where a key stands, or the nearest table above it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return Spot(self.source.name)


def read_toml(source: Source) -> Toml:
    """The values of a TOML text. Refused: `bad-toml`, with its line."""
    try:
        return Toml(source, tomllib.loads(source.text))
    except (ValueError, RecursionError) as error:
        raise refuse("bad-toml", *_syntax(source, error), "correct the line; toml.io describes the format") from None


def _syntax(source: Source, error: Exception) -> tuple[str, Place]:
    if isinstance(error, RecursionError):
        return "arrays or tables are nested too deep", Spot(source.name)
    text = str(error)
    found = re.search(r" \(at line (\d+), column (\d+)\)$", text)
    if found is None:
        return f"not TOML: {text.removesuffix(' (at end of document)')}", Spot(source.name)
    line = min(int(found[1]), len(source.lines))
    column = min(int(found[2]), len(source.lines[line - 1]) + 1)
    return f"not TOML: {text[: found.start()]}", Span(source, line, column, 1)


def dotted(path: KeyPath) -> str:
    """A key path as TOML writes it, quoting what is no bare key."""
    return ".".join(part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else quoted(part) for part in path)


def quoted(text: str) -> str:
    """A text as a string of TOML."""
    marked = text.replace("\\", "\\\\").replace('"', '\\"')
    inner = "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in marked)
    return f'"{inner}"'


def key_places(source: Source) -> dict[KeyPath, KeyPlace]:
    """The place of every table header, key and key of an inline table of a valid TOML file.

    A table that only a longer key names (`a` in `[a.b]`) stands where that key does. Elements of an array of tables
    share one path; its place is the first header's.
    """
    places: dict[KeyPath, KeyPlace] = {}
    scan = _Scan(source)
    table: KeyPath = ()
    while (token := scan.peek()) is not None:
        if token.kind == "newline":
            scan.take()
        elif token.text == "[":
            while (mark := scan.peek()) is not None and mark.text == "[":
                scan.take()
            table, span = scan.key()
            scan.skip_line()
            for length in range(len(table), 0, -1):
                places.setdefault(table[:length], KeyPlace(span, dotted(table[:length])))
        else:
            for path, span in scan.pair(table):
                for length in range(len(path), len(table), -1):
                    places.setdefault(path[:length], KeyPlace(span, dotted(path[:length])))
            scan.skip_line()
    return places


class _Scan:
    """Reads tokens of a file that tomllib has accepted, so it need not judge what it sees."""

    def __init__(self, source: Source) -> None:
        self.source = source
        text = "\n".join(source.lines)
        tokens = (_Token(m.lastgroup or "", m.group(), m.start()) for m in _TOKEN.finditer(text))
        self.tokens = [token for token in tokens if token.kind not in ("comment", "blank")]
        self.next = 0
        self.starts = [0]
        for line in source.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def peek(self) -> _Token | None:
        return self.tokens[self.next] if self.next < len(self.tokens) else None

    def take(self) -> _Token:
        self.next += 1
        return self.tokens[self.next - 1]

    def skip_line(self) -> None:
        while (token := self.peek()) is not None and token.kind != "newline":
            self.take()

    def key(self) -> tuple[KeyPath, Span]:
        """A dotted key, and the span from its first part to its last."""
        parts: list[str] = []
        start = end = 0
        while (token := self.peek()) is not None and (token.kind in ("bare", "quoted") or token.text == "."):
            self.take()
            if token.text == ".":
                continue
            start = start if parts else token.start
            end = token.start + len(token.text)
            parts.append(_unquote(token.text) if token.kind == "quoted" else token.text)
        return tuple(parts), self._span(start, end)

    def pair(self, table: KeyPath) -> Iterator[tuple[KeyPath, Span]]:
        """A `key = value`: the key, then the keys of the inline tables in its value."""
        keys, span = self.key()
        path = (*table, *keys)
        yield path, span
        if (token := self.peek()) is not None and token.text == "=":
            self.take()
            yield from self._value(path)

    def _value(self, path: KeyPath) -> Iterator[tuple[KeyPath, Span]]:
        """Skips a value, brackets and all; yields the keys of inline tables."""
        depth = 0
        while (token := self.peek()) is not None:
            if token.text == "[":
                depth += 1
            elif token.text == "]":
                depth -= 1
            elif token.text == "{":
                self.take()
                yield from self._inline(path)
                if depth == 0:
                    return
                continue
            elif depth == 0 and (token.kind == "newline" or token.text in (",", "}")):
                return
            self.take()

    def _inline(self, path: KeyPath) -> Iterator[tuple[KeyPath, Span]]:
        while (token := self.peek()) is not None:
            if token.text == "}":
                self.take()
                return
            if token.kind == "newline" or token.text == ",":
                self.take()
                continue
            before = self.next
            yield from self.pair(path)
            if self.next == before:
                self.take()

    def _span(self, start: int, end: int) -> Span:
        line = bisect_right(self.starts, start)
        return Span(self.source, line, start - self.starts[line - 1] + 1, end - start)


_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def _unquote(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]

    def escape(match: re.Match[str]) -> str:
        code = match.group(1)
        return _ESCAPES[code] if code in _ESCAPES else chr(int(code[1:], 16))

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)", escape, text[1:-1])
