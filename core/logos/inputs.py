"""The contents of what weights are read from, and of the code that reads it, as digests: a file that was only touched
is the file it was."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from logos.atomic import write_if_changed
from logos.refusal import refuse
from logos.source import Spot
from logos.stamps import RACY, Stamp, stamp

Watch = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows the reading of a file: from its name, a function of (bytes done, bytes in all)."""

KNOWN = "inputs.json"
_CHUNK = 4 << 20


class Inputs:
    """Digests of files, remembered in a build's private folder by stamp: each file is read once until it changes.

    Digests of code are kept for one plan, whose artifacts mostly share theirs.
    """

    def __init__(self, private: Path, watch: Watch) -> None:
        self.file, self.watch = private / KNOWN, watch
        self.known: dict[str, tuple[Stamp, str]] = {}
        self.used: dict[str, tuple[Stamp, str]] = {}
        self._code: dict[tuple[frozenset[str], Callable[[Path], bool] | None], str] = {}
        with suppress(OSError, ValueError):
            self.known = {path: (one[0], one[1]) for path, one in json.loads(self.file.read_bytes()).items()}

    def digest(self, path: Path) -> str:
        """The SHA-256 of a file's bytes. Refused: one that cannot be read (`unreadable-file`)."""
        name = os.path.abspath(path)
        now = stamp(name)
        for known in (self.used, self.known):
            if name in known and known[name][0] == now:
                self.used[name] = known[name]
                return known[name][1]
        began = time.time_ns()
        found = self._read(path)
        # A file changed while it was read, or so lately that the clock cannot tell, is read again by the next build.
        if now is not None and now == stamp(name) and max(now[1:3]) < began - RACY:
            self.used[name] = now, found
        return found

    def code(self, modules: Iterable[str], among: Callable[[Path], bool] | None = None) -> str:
        """One digest of the source files of the packages that hold these modules; of those `among`, if it is given."""
        packages = frozenset(module.partition(".")[0] for module in modules)
        if (packages, among) not in self._code:
            files = package_files(packages)
            self._code[packages, among] = code_digest(file for file in files if among is None or among(file))
        return self._code[packages, among]

    def _read(self, path: Path) -> str:
        digest, done = hashlib.sha256(), 0
        try:
            total = path.stat().st_size
            with open(path, "rb") as file, self.watch(path.name) as update:
                while data := file.read(_CHUNK):
                    digest.update(data)
                    done += len(data)
                    update(done, total)
        except OSError as error:
            raise refuse(
                "unreadable-file",
                f"cannot read the file: {error.strerror or error}",
                Spot(os.fspath(path)),
                "give a file that exists and may be read",
            ) from None
        return digest.hexdigest()

    def save(self) -> None:
        """Keeps what is known. Refused: `unwritable-file`."""
        kept = {path: one for path, one in self.known.items() if stamp(path) == one[0]} | self.used
        write_if_changed(self.file, json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def package_files(modules: Iterable[str]) -> tuple[Path, ...]:
    """The source files of the packages that hold these modules, loaded or not, in order of path. A package without
    files (in an archive) has none."""
    found: set[str] = set()
    for place in map(os.fspath, package_places(modules)):
        found.update(_sources(place) if os.path.isdir(place) else [place])
    return tuple(map(Path, sorted(found)))


def package_places(modules: Iterable[str]) -> tuple[Path, ...]:
    """The folders of the packages that hold these modules, and the files of modules that lie in no package."""
    found: set[str] = set()
    for top in dict.fromkeys(module.partition(".")[0] for module in modules):
        module = sys.modules.get(top)
        folders = [os.path.abspath(folder) for folder in getattr(module, "__path__", ())]
        file = getattr(module, "__file__", None)
        found.update(folders or ([os.path.abspath(file)] if file and os.path.isfile(file) else []))
    return tuple(map(Path, sorted(found)))


def _sources(folder: str) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(parent, file) for file in files if not file.endswith(".pyc"))


def code_digest(files: Iterable[Path]) -> str:
    """One digest of source files' contents, wherever they lie."""
    digest = hashlib.sha256()
    for file in files:
        with suppress(OSError):
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
