"""The cache: folders that runs leave for later ones. An entry is held by who uses it; beyond a limit the entries that
were not used for longest go."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from logos import lock
from logos.refusal import Refused, refuse
from logos.source import Spot

_FOLDER = "LOGOS_CACHE"
LIMIT = "LOGOS_CACHE_GB"
"""The environment variable that sets the limit, in gigabytes."""

_GIGABYTES = 50.0
_LOCK, _WHOLE = ".logos-entry", ".whole"
_RESTS = 3600.0
"""Seconds for which an entry stays after it was used last: a program may be about to be started."""


def _unsaid() -> None:
    return


def cache_folder() -> Path:
    """LOGOS_CACHE, else XDG_CACHE_HOME/logos, else .cache/logos of the home folder; a temporary one without a home."""
    for variable, below in ((_FOLDER, "."), ("XDG_CACHE_HOME", "logos"), ("HOME", ".cache/logos")):
        if chosen := os.environ.get(variable):
            return Path(chosen) / below
    return Path(tempfile.gettempdir()) / f"logos-{os.getuid()}"


@contextmanager
def cached(kind: str, key: str, write: Callable[[Path], None], waiting: Callable[[], None] = _unsaid) -> Iterator[Path]:
    """The folder of the cache's entry `kind`/`key`, in which `write` puts what no earlier run has put there whole.

    The entry is not removed while the block runs, nor in the hour after it. One run at a time writes it: `waiting` is
    called once where another does. A killed run leaves it unfinished, and the next one calls `write` on what is there.
    After writing, the entries used longest ago are removed until the rest is within LOGOS_CACHE_GB (50) gigabytes.
    Refused: a folder that cannot be written, an OSError of `write` (`unwritable-file`); a limit that is no number
    (`bad-value`).
    """
    limit, folder = cache_limit(), cache_folder() / kind / key
    descriptor = _hold(folder, waiting)
    try:
        if not (folder / _WHOLE).is_file():
            try:
                write(folder)
                (folder / _WHOLE).touch()
            except OSError as error:
                raise _unkept(folder, error) from None
            lock.take(descriptor, shared=True)
            _bound(limit)
        with suppress(OSError):  # of another user
            os.utime(folder / _WHOLE)
        yield folder
    finally:
        os.close(descriptor)


def cache_limit() -> float:
    """The limit in bytes. Refused: a LOGOS_CACHE_GB that is no number (`bad-value`)."""
    text = os.environ.get(LIMIT) or str(_GIGABYTES)
    with suppress(ValueError):
        if (gigabytes := float(text)) >= 0 and not math.isnan(gigabytes):
            return gigabytes * 1e9
    what = f"{text!r} is no count of gigabytes"
    raise refuse("bad-value", what, Spot(LIMIT), f"give a number from 0, or unset it for {_GIGABYTES:g}")


def _hold(folder: Path, waiting: Callable[[], None]) -> int:
    """A descriptor that holds an entry: with others where it is whole, else alone."""
    path = folder / _LOCK
    while True:
        whole = (folder / _WHOLE).is_file()
        descriptor = _opened(path)
        if descriptor is None:
            continue
        try:
            if not lock.taken(descriptor, shared=whole):
                waiting()
                waiting = _unsaid
                lock.take(descriptor, shared=whole)
            # An entry that was removed meanwhile is another's, or nobody's.
            if lock.is_at(path, descriptor) and (not whole or (folder / _WHOLE).is_file()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path) -> int | None:
    """The entry's lock file, which is made; of a cache that may only be read, as it is. None: the entry was removed
    just then."""
    with suppress(OSError):
        return os.open(path, os.O_RDONLY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unkept(path.parent, error) from None
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unkept(path.parent, error) from None


def _unkept(folder: Path, error: OSError) -> Refused:
    what = f"cannot keep there what later runs use again: {error.strerror or error}"
    return refuse("unwritable-file", what, Spot(os.fspath(folder)), f"free space, or name another folder in {_FOLDER}")


def _bound(limit: float) -> None:
    """Removes the entries used longest ago until the rest is within the limit; what is in use stays."""
    found = [(_used(path.parent), path.parent) for path in cache_folder().glob(f"*/*/{_LOCK}")]
    sizes = {folder: _size(folder) for _, folder in found}
    total, now = sum(sizes.values()), time.time()
    for used, folder in sorted(found):
        if total <= limit or now - used < _RESTS:
            return
        if _removed(folder):
            total -= sizes[folder]


def _used(folder: Path) -> float:
    for path in (folder / _WHOLE, folder / _LOCK):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(here, name)).st_size
    return total


def _removed(folder: Path) -> bool:
    """Removes an entry that nobody holds; whether it is gone. The mark goes first, so that what is left of a removal
    that is killed does not pass for whole, and the lock last: who waits for it then looks again."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        if not lock.taken(descriptor) or not lock.is_at(folder / _LOCK, descriptor):
            return False
        (folder / _WHOLE).unlink(missing_ok=True)
        for child in folder.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            elif child.name != _LOCK:
                child.unlink()
        (folder / _LOCK).unlink()
        folder.rmdir()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
