"""Values that do not fit into this machine's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logos.graph import Value
from logos.refusal import refuse
from logos.source import Place

_ITEM = 8
"""Bytes of an element: float64 or int64."""


@contextmanager
def room_for(value: Value, place: Place) -> Iterator[None]:
    """Where a value is made. Refused: one that memory does not take (`too-large-for-memory`)."""
    try:
        yield
    except MemoryError:
        size = f"{value.rows} by {value.columns} and takes {_ITEM * value.size:,} bytes"
        what = f"{value.name} is {size}, more than this machine has room for"
        next_ = f"make {value.name} smaller, or use a machine with more memory"
        raise refuse("too-large-for-memory", what, place, next_) from None
