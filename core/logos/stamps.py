"""What tells, without reading a file, that it is the one that was seen before."""

from __future__ import annotations

import os
import stat
import sys

Stamp = list[int]
"""Size, time of change and, for what a build reads, the time of the last change of any kind and the inode."""

RACY = 50_000_000
"""Nanoseconds within which a file system's clock may give two changes one time."""


def stamp(path: str) -> Stamp | None:
    """The stamp of a file that a build reads; None where there is no file. A copy that keeps its time (`cp -p`) has
    another one."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def output_stamp(path: str) -> Stamp | None:
    """The stamp of a file that a build wrote: its permissions may change. None where there is none, or a folder."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns] if stat.S_ISREG(found.st_mode) else None


def listing(folder: str) -> list[str]:
    """The names in a folder but for hidden ones, in order; none where there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def installed() -> list[list[object]]:
    """Every installed distribution's folder with the times of it and of its entry points: what decides which plugins
    there are."""
    found: list[list[object]] = []
    for folder in sys.path:
        try:
            entries = [entry for entry in os.scandir(folder or ".") if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for entry in entries:
            points = stamp(os.path.join(entry.path, "entry_points.txt"))
            found.append([entry.path, entry.stat().st_mtime_ns, points])
    return sorted(found, key=lambda one: str(one[0]))
