"""The known word nearest to a mistaken one, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest of `known`, or None where nothing is close."""
    words = list(known)
    for word_, pool in ((word, words), (word.lower(), [w for w in words if w.islower()])):
        found = get_close_matches(word_[:80], pool, n=1, cutoff=0.6)
        if found:
            return found[0]
    return None


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""
