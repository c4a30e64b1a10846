"""Work that a kill does not lose: files made in a hidden folder beside their place, with a journal of what is finished.

A folder belongs to the process that holds a lock on its journal. The system drops the lock with the process, so none
is ever stale: the next run for the same recipe takes the folder over, a run at the same time makes its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from logos.lock import AVAILABLE, taken

_PAGE = 4096
_JOURNAL = "journal"
_BEGINNING = 60.0

Part = tuple[int, str]
"""What is known of a finished run of bytes: how many there are, and their digest."""


class Digest:
    """The SHA-256 of the sums of every 4096 bytes, taken as 64-bit words: ten times as fast as that of the bytes.

    It finds what a crash does to a file (a page that never reached the disk), not what a person does on purpose.
    """

    def __init__(self) -> None:
        self._hash, self._rest, self.count = hashlib.sha256(), b"", 0

    def update(self, data: memoryview) -> None:
        """Takes more bytes; how they are cut makes no difference."""
        self.count += len(data)
        if self._rest:
            missing = _PAGE - len(self._rest)
            self._rest += data[:missing]
            data = data[missing:]
            if len(self._rest) < _PAGE:
                return
            self._pages(memoryview(self._rest))
        whole = len(data) - len(data) % _PAGE
        self._pages(data[:whole])
        self._rest = bytes(data[whole:])

    def _pages(self, data: memoryview) -> None:
        self._hash.update(np.frombuffer(data, "<u8").reshape(-1, _PAGE // 8).sum(axis=1).tobytes())

    def part(self) -> Part:
        """What was taken."""
        last = self._hash.copy()
        last.update(self._rest)
        return self.count, last.hexdigest()


def holds(file: BinaryIO, part: Part) -> bool:
    """Whether the file goes on, from where it stands, with the bytes of a part; it then stands behind them."""
    digest = Digest()
    buffer = memoryview(bytearray(4 << 20))
    while digest.count < part[0]:
        count = file.readinto(buffer[: part[0] - digest.count])  # type: ignore[attr-defined]
        if not count:
            return False
        digest.update(buffer[:count])
    return digest.part() == part


class Workplace:
    """The folder of one run. `finished` are the parts of each key that earlier runs finished, by their journal."""

    def __init__(self, folder: Path, journal: BinaryIO, finished: Mapping[str, tuple[Part, ...]]) -> None:
        self.folder, self._journal, self.finished, self._lock = folder, journal, finished, threading.Lock()

    def record(self, key: str, *parts: Part) -> None:
        """Notes that a key's parts are written. What they were written to must be flushed first."""
        with self._lock:
            self._journal.write(json.dumps([key, parts]).encode() + b"\n")
            self._journal.flush()


@contextmanager
def workplace(base: Path, name: str, recipe: str) -> Iterator[Workplace]:
    """A folder in `base` for the making of `name`, as an earlier run for the same recipe left it, else empty.

    It goes when the block ends, and when it fails; when the process is interrupted or killed it stays for the next
    run. Folders of other recipes, whose process is gone, are removed.
    """
    stem = f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    work = _taken_over(base, stem, recipe) or _begun(base, stem, recipe)
    keep = False
    try:
        yield work
    except Exception:
        raise
    except BaseException:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(work.folder, ignore_errors=True)
        work._journal.close()


def _begun(base: Path, stem: str, recipe: str) -> Workplace:
    """A new folder, which gets its final name once it is locked and says its recipe, so that no other run mistakes it
    for one that is left."""
    folder = base / f"{stem}.{secrets.token_hex(4)}.work"
    new = folder.with_suffix(".new")
    new.mkdir()
    journal = open(new / _JOURNAL, "a+b")  # noqa: SIM115
    _lock(journal)
    journal.write(json.dumps(recipe).encode() + b"\n")
    journal.flush()
    new.rename(folder)
    return Workplace(folder, journal, {})


def _taken_over(base: Path, stem: str, recipe: str) -> Workplace | None:
    found = None
    for folder in sorted(base.glob(f"{stem}.*.work")):
        journal = _journal_left(folder / _JOURNAL)
        if journal is None:
            if not (folder / _JOURNAL).exists():
                # Its run was killed as it removed the folder.
                shutil.rmtree(folder, ignore_errors=True)
            continue
        said, finished = _journal_read(journal)
        if found is None and said == recipe:
            found = Workplace(folder, journal, finished)
            continue
        shutil.rmtree(folder, ignore_errors=True)
        journal.close()
    for folder in base.glob(f"{stem}.*.new"):
        # One that is just beginning is not locked yet.
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _BEGINNING:
                shutil.rmtree(folder, ignore_errors=True)
    return found


def _journal_left(path: Path) -> BinaryIO | None:
    """The journal, locked, of a folder whose process is gone; None where it is at work or ends just now."""
    with suppress(OSError):
        journal = open(path, "r+b")  # noqa: SIM115
        with suppress(OSError):
            if _lock(journal) and os.path.samestat(os.stat(path), os.fstat(journal.fileno())):
                return journal
        journal.close()
    return None


def _lock(journal: BinaryIO) -> bool:
    """Whether the journal is this process's now. Without locks (Windows) it never is: nothing is taken over."""
    try:
        return AVAILABLE and taken(journal.fileno())
    except OSError:
        return False


def _journal_read(journal: BinaryIO) -> tuple[str | None, dict[str, tuple[Part, ...]]]:
    """The recipe and the finished parts. A last line that a kill cut short is cut off."""
    data = journal.read()
    whole = data.rfind(b"\n") + 1
    journal.seek(whole)
    journal.truncate()
    try:
        recipe, *lines = [json.loads(line) for line in data[:whole].splitlines()]
        return recipe, {key: tuple((int(count), str(digest)) for count, digest in parts) for key, parts in lines}
    except (ValueError, TypeError):
        return None, {}
