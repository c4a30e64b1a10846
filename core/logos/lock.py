"""The lock of an out folder: one build at a time writes there.

It is the system's lock on an open file, held by every process of the build: by logos, by ninja and by the steps that
ninja started. Whoever is killed lets go of it; only when the last one is gone may another build write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from logos.atomic import unwritable

try:
    import fcntl
except ImportError:  # Windows has no such locks: builds of one folder must not overlap there.
    fcntl = None  # type: ignore[assignment]

AVAILABLE = fcntl is not None
"""Whether this system has such locks."""

NAME = "lock"
HELD = "LOGOS_BUILD_LOCKED"
"""The environment variable by which a step knows that its build holds the lock of this folder."""


@contextmanager
def locked(private: Path, waiting: Callable[[], None]) -> Iterator[int]:
    """Holds the lock of a build's private folder, which is made; yields the descriptor that carries it.

    `waiting` is called once if another build holds it. Refused: a folder that cannot be written (`unwritable-file`).
    """
    path = private / NAME
    waits = False
    while True:
        descriptor = _opened(path)
        try:
            if not taken(descriptor):
                if not waits:
                    waiting()
                waits = True
                take(descriptor)
            # `logos clean` removes the file: whoever waited for it then holds a lock that no other build sees.
            if not is_at(path, descriptor):
                continue
            yield descriptor
            return
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise unwritable(path, error) from error


def taken(descriptor: int, shared: bool = False) -> bool:
    """Locks an open file, for one or with others who share it, unless another's lock stands in the way; whether it now
    holds (where there are no locks, it does)."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, _kind(shared) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take(descriptor: int, shared: bool = False) -> None:
    """Locks an open file as soon as no other's lock stands in the way."""
    if fcntl is not None:
        fcntl.flock(descriptor, _kind(shared))


def _kind(shared: bool) -> int:
    return int(fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one that the path names."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
