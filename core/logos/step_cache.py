"""A cache of what steps made, which builds and machines may share: found by what decides the bytes, believed by digest.

`steps/` holds an entry for each step: its key is the digest of all that decides what the step makes, wherever it runs;
it lists the digests of its outputs and begins with its own. `files/` holds the outputs under their digests. Both are
written beside and renamed, so that builds at once and builds that are killed leave whole files or none; no lock is
needed. What is fetched is checked as it is copied: nothing else comes under a final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from logos.atomic import part_beside, unwritable

FORMAT = 1
_STEPS, _FILES, _PARTS = "steps", "files", "parts"
_CHUNK = 1 << 20
_DIGEST = re.compile("[0-9a-f]{64}")
_LONGEST = 1 << 26
"""Bytes of an entry at most."""
_ABANDONED = 3600.0
"""Seconds after which a part that nobody writes to is a killed build's."""

Output = tuple[str, int, bool]
"""The SHA-256 of an output's bytes, their count, and whether the file may be executed."""


class _Damaged(Exception):
    """A file of the cache does not hold what its digest says."""


class StepCache:
    """The cache in a folder, which is made when something is kept. `say` takes one line for each thing that is wrong
    with it: a cache that cannot be read or written makes a build slower, never wrong, and never fails it."""

    def __init__(self, folder: Path, limit: float, say: Callable[[str], None]) -> None:
        """`limit` is the most bytes that it is to hold."""
        self.folder, self.limit, self.say = folder, limit, say
        self.writable, self.kept = True, False

    def fetch(self, key: str, outputs: Sequence[Path], due: Mapping[Path, str]) -> bool:
        """Puts what a step makes under its final names; False, and nothing changed, where the cache does not have it.

        `due` are the digests of outputs that the plan knows. A file of the cache that is not what its digest says is
        removed and told. Refused: outputs that cannot be written (`unwritable-file`).
        """
        entry = self._path(_STEPS, key)
        try:
            listed = self._listed(entry, len(outputs))
            if listed is None:
                return False
            if any(due.get(path, one[0]) != one[0] for path, one in zip(outputs, listed, strict=True)):
                raise _Damaged(entry)
            return self._placed(entry, outputs, listed)
        except _Damaged as damaged:
            (file,) = damaged.args
            self.say(f"the cache's file {self._named(file)} is not what its digest says: removed, to be made again")
            for path in (file, entry):
                with suppress(OSError):
                    path.unlink()
            return False

    def keep(self, key: str, outputs: Sequence[Path]) -> None:
        """Takes what a step made. Where the cache cannot be written that is told once, and nothing more is kept."""
        if not self.writable:
            return
        try:
            listed = [self._keep_file(path) for path in outputs]
            text = json.dumps({"format": FORMAT, "outputs": listed})
            whole = f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n"
            with self._part() as (file, part):
                file.write(whole.encode())
                file.close()
                self._rename(part, self._path(_STEPS, key))
            self.kept = True
        except OSError as error:
            self.writable = False
            self.say(f"nothing more is kept in the cache {self.folder}: {error.strerror or error}")

    def bound(self) -> None:
        """Removes what was used longest ago until the rest is within the limit, and what killed builds left."""
        if not self.kept:
            return
        now, found = time.time(), []
        for path, entry in _files(self.folder):
            used = entry.st_mtime
            if path.parent.name == _PARTS and now - used > _ABANDONED:
                with suppress(OSError):
                    path.unlink()
                continue
            found.append((used, entry.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.limit:
                return
            if path.parent.name != _PARTS:
                with suppress(OSError):
                    path.unlink()
                    total -= size

    def _path(self, kind: str, digest: str) -> Path:
        return self.folder / kind / digest[:2] / digest

    def _named(self, file: Path) -> str:
        return os.fspath(file.relative_to(self.folder.parent))

    def _listed(self, entry: Path, count: int) -> list[Output] | None:
        """An entry's outputs; None where there is none."""
        try:
            with _opened(entry) as file:
                digest, _, text = file.read(_LONGEST).partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(text.rstrip(b"\n")).hexdigest().encode() != digest:
            raise _Damaged(entry)
        try:
            record = json.loads(text)
            listed = [(str(digest), int(size), bool(runs)) for digest, size, runs in record["outputs"]]
            whole = all(_DIGEST.fullmatch(digest) for digest, _, _ in listed) or record["format"] != FORMAT
        except (ValueError, TypeError, KeyError):
            whole = False
        if not whole:
            raise _Damaged(entry)
        if record.get("format") != FORMAT or len(listed) != count:
            return None
        return listed

    def _placed(self, entry: Path, outputs: Sequence[Path], listed: Sequence[Output]) -> bool:
        """Copies every output beside its final name and, when all are as their digests say, renames them."""
        parts: dict[Path, Path] = {}
        try:
            for path, (digest, size, runs) in zip(outputs, listed, strict=True):
                stored = self._path(_FILES, digest)
                try:
                    source = _opened(stored)
                except OSError:
                    return False  # it was removed since: it had not been used for longest
                with source:
                    parts[path] = _copied(stored, source, path, (digest, size, runs))
                with suppress(OSError):  # of another user, or a cache that may only be read
                    os.utime(stored)
            try:
                for path in outputs:
                    os.replace(parts[path], path)
            except OSError as error:
                raise unwritable(path, error) from error
            with suppress(OSError):
                os.utime(entry)
            return True
        finally:
            for part in parts.values():
                with suppress(OSError):
                    part.unlink()

    def _keep_file(self, path: Path) -> Output:
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as source, self._part() as (file, part):
            while data := source.read(_CHUNK):
                digest.update(data)
                size += file.write(data)
            file.close()
            self._rename(part, self._path(_FILES, digest.hexdigest()))
            return digest.hexdigest(), size, bool(os.fstat(source.fileno()).st_mode & stat.S_IXUSR)

    @contextmanager
    def _part(self) -> Iterator[tuple[BinaryIO, Path]]:
        """A new file of the cache's that is to be renamed; it is removed otherwise."""
        part = self.folder / _PARTS / secrets.token_hex(16)
        part.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file, part
        finally:
            with suppress(OSError):
                part.unlink()

    def _rename(self, part: Path, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)


def _opened(path: Path) -> BinaryIO:
    """A file of the cache's, for reading. Raises OSError for what is no file: nobody knows who writes there."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("no file")
    return os.fdopen(descriptor, "rb")


def _copied(stored: Path, source: BinaryIO, path: Path, output: Output) -> Path:
    """Copies a file of the cache's beside a final name, by its digest."""
    due, size, runs = output
    part, digest = part_beside(path), hashlib.sha256()
    kept = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o777 if runs else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            # No more is read than is due: a file that was put there by others may be of any size.
            while data := _next(source, size + 1 - file.tell(), stored):
                digest.update(data)
                file.write(data)
            whole = file.tell() == size and digest.hexdigest() == due
        if not whole:
            raise _Damaged(stored)
        kept = True
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if not kept:
            with suppress(OSError):
                part.unlink()
    return part


def _next(source: BinaryIO, most: int, stored: Path) -> bytes:
    try:
        return source.read(min(_CHUNK, most))
    except OSError:
        raise _Damaged(stored) from None


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for kind in (_STEPS, _FILES, _PARTS):
        for here, _, names in os.walk(folder / kind):
            for name in names:
                with suppress(OSError):
                    path = Path(here, name)
                    yield path, path.lstat()
