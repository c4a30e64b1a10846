"""This machine's memory: values that do not fit into it, and how much of it is free."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def at_once(each: int) -> int:
    """How many tools that take so many bytes each this machine runs at once: at least one, at most one a processor."""
    free = free_bytes()
    most = os.cpu_count() or 1
    return most if free is None else max(1, min(most, free // each))


def free_bytes() -> int | None:
    """The memory that is to be had, within what a container may take; None where the system does not say."""
    free: list[int] = []
    with suppress(OSError):
        found = re.search(r"^MemAvailable: +(\d+) kB$", _MEMINFO.read_text("ascii", "replace"), re.MULTILINE)
        free += [int(found[1]) << 10] if found else []
    with suppress(OSError, ValueError):  # `max` is no number, and no limit
        free.append(int((_CGROUP / "memory.max").read_text()) - int((_CGROUP / "memory.current").read_text()))
    return max(0, min(free)) if free else None
