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


def said_of(found: Stamp | None) -> str:
    """A stamp as text; `-` for none."""
    return "-" if found is None else ",".join(map(str, found))


def seen(path: str) -> str:
    """`said_of(stamp(path))`, written out: a build with nothing to do asks it of every file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return "-"
    return f"{found.st_size},{found.st_mtime_ns},{found.st_ctime_ns},{found.st_ino}"


def output_seen(path: str) -> str:
    """`said_of(output_stamp(path))`, written out likewise."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return "-"
    return f"{found.st_size},{found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) else "-"


def listing(folder: str) -> list[str]:
    """The names in a folder but for hidden ones, in order; none where there is no folder."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []


def installed() -> list[str]:
    """Every installed distribution's folder with the stamps of it and of its entry points: what decides which plugins
    there are."""
    found = []
    for folder in sys.path:
        try:
            paths = [one.path for one in os.scandir(folder or ".") if one.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        found += [f"{path} {seen(path)} {seen(f'{path}/entry_points.txt')}" for path in paths]
    return sorted(found)
