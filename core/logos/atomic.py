"""Writing files so that a reader never sees half of one: beside the final name, then renamed over it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from logos.refusal import Refused, refuse
from logos.source import Spot


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends without an exception, and vanishes otherwise.

    Missing folders are made. What a killed process left beside `path` is removed. Refused: `unwritable-file`, with
    the system's own reason (a full disk, a read-only folder).
    """
    part = part_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        # os.open, since a file made by tempfile would keep its private mode instead of the umask's.
        descriptor = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink()


def write_if_changed(path: Path, data: str | bytes) -> bool:
    """Gives the file these bytes (text as UTF-8); False where it has them already and was left alone.

    An untouched file keeps its time, so what is made from it is not made again. Refused: `unwritable-file`.
    """
    wanted = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    with suppress(OSError):
        if path.stat().st_size == len(wanted) and path.read_bytes() == wanted:
            _sweep(path)
            return False
    with replacing(path) as file:
        file.write(wanted)
    return True


def unwritable(path: Path, error: OSError) -> Refused:
    """The refusal for a file or folder that cannot be written."""
    return refuse(
        "unwritable-file",
        f"cannot write the file: {error.strerror or error}",
        Spot(os.fspath(path)),
        "free space, change the folder's permissions, or name another folder",
    )


def _stem(path: Path) -> str:
    """Short whatever the name's length, so that a name at the file system's limit still has a place beside it."""
    return f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}"


def part_beside(path: Path) -> Path:
    """Where this process writes a file before it takes the place of `path`."""
    return path.with_name(f"{_stem(path)}.{os.getpid()}.part")


def _sweep(path: Path) -> None:
    """Removes the parts of `path` whose process is gone."""
    for part in path.parent.glob(f"{_stem(path)}.*.part"):
        owner = part.name.split(".")[-2]
        if owner.isdigit() and not _alive(int(owner)):
            with suppress(OSError):
                part.unlink()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
