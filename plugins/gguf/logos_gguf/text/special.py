"""Finding special tokens in text, before anything else looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Part = int | tuple[int, int]
"""A token's id, or the text from one character up to another."""


@dataclass(frozen=True, slots=True)
class Special:
    """A token that stands for its text as a whole. `always`: in any text; else only where special tokens are on."""

    text: str
    number: int
    always: bool


def split_special(text: str, specials: Sequence[Special], on: bytes) -> list[Part]:
    """The text as special tokens and what lies between them.

    `specials` come longest first, and a longer one is found before a shorter wherever they lie. `on` says for each
    character whether special tokens are on there: one that is not `always` is found where they are on throughout.
    """
    parts: list[Part] = [(0, len(text))] if text else []
    for special in specials:
        if special.text in text:
            parts = [piece for part in parts for piece in _split(text, part, special, on)]
    return parts


def _split(text: str, part: Part, special: Special, on: bytes) -> list[Part]:
    if isinstance(part, int):
        return [part]
    begin, stop = part
    found: list[Part] = []
    at = begin
    while (start := text.find(special.text, at, stop)) >= 0:
        end = start + len(special.text)
        if not special.always and 0 in on[start:end]:
            at = start + 1
            continue
        if start > begin:
            found.append((begin, start))
        found.append(special.number)
        begin = at = end
    if begin < stop:
        found.append((begin, stop))
    return found
