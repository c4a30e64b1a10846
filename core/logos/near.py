"""The known word nearest to a mistaken one, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import islice

# A crafted checkpoint names 131,072 tensors; a message's hint may not take seconds because of it.
_MOST = 2000
_COMPARED = 100
_LONGEST = 80


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest of `known`, or None where nothing is close.

    Of more than 100 words, those that share the most letters at both ends with the mistaken one are compared; of more
    than 2000, the first 2000 are looked at.
    """
    words = [one for one in islice(known, _MOST) if len(one) <= 2 * _LONGEST]
    if len(words) > _COMPARED:
        words = nlargest(_COMPARED, words, key=lambda one: _shared(word, one) + _shared(word[::-1], one[::-1]))
    for word_, pool in ((word, words), (word.lower(), [w for w in words if w.islower()])):
        found = get_close_matches(word_[:_LONGEST], pool, n=1, cutoff=0.6)
        if found:
            return found[0]
    return None


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def _shared(one: str, other: str) -> int:
    """How many letters both begin with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
