"""Removing what builds made, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.build import remove_halves
from logos.finished import FINISHED
from logos.inputs import KNOWN
from logos.journal import LINES, WHOLE, Journal
from logos.lock import NAME as LOCK
from logos.ninja_file import NAME as NINJA
from logos.plan import PRIVATE
from logos.refusal import refuse
from logos.source import Spot

_OWN_FILES = (NINJA, ".ninja_log", ".ninja_deps", ".ninja_lock", KNOWN, WHOLE, LINES, FINISHED, LOCK)
_OWN_FOLDERS = ("records", "programs")


@dataclass(frozen=True)
class Cleaned:
    """The files that were removed, and those that were left since they are not as the build left them."""

    removed: tuple[Path, ...]
    kept: tuple[Path, ...]


def check_build(out: Path) -> None:
    """Refuses a folder that no build made (`not-a-build`)."""
    if not (out / PRIVATE / NINJA).is_file():
        what = f"no build of LOGOS has this out folder: it holds no {PRIVATE}/{NINJA}"
        raise refuse("not-a-build", what, Spot(os.fspath(out)), "name the folder that `logos build` was given by --out")


def clean(out: Path) -> Cleaned:
    """Removes the files that builds with this out folder made, the folders that are then empty, and the builds' own
    records. A file that was changed since its build left it is somebody's work and stays.

    The lock of the folder is held by the caller. Refused: a folder that no build made (`not-a-build`).
    """
    check_build(out)
    private = out / PRIVATE
    journal = Journal(private)
    removed: list[Path] = []
    kept: list[Path] = []
    claimed = {os.path.join(folder, file) for folder, files in journal.artifacts.items() for file in files}
    for path in map(Path, sorted(claimed | set(journal.stamps))):
        if private.absolute() not in path.parents and os.path.lexists(path):
            (removed if journal.sound(path, None) and _unlink(path) else kept).append(path)
    for folder in {Path(folder) for folder in journal.artifacts} | {path.parent for path in removed}:
        remove_halves(folder)
    _remove_private(private)
    _remove_empty({path.parent for path in removed}, {Path(folder) for folder in journal.artifacts}, out.absolute())
    return Cleaned(tuple(removed), tuple(kept))


def _unlink(path: Path) -> bool:
    with suppress(OSError):
        path.unlink()
        return True
    return False


def _remove_private(private: Path) -> None:
    for name in _OWN_FOLDERS:
        shutil.rmtree(private / name, ignore_errors=True)
    for name in _OWN_FILES:
        _unlink(private / name)
    with suppress(OSError):
        private.rmdir()


def _remove_empty(folders: Iterable[Path], artifacts: set[Path], out: Path) -> None:
    """Removes folders that are empty now, from the files' up to the out folder or, for an artifact elsewhere, to the
    folder that an out folder of a project holds it by."""
    pending = set(folders) | artifacts | {out}
    while pending:
        folder = max(pending, key=lambda path: len(path.parts))
        pending.discard(folder)
        try:
            folder.rmdir()
        except OSError:
            continue
        inside = out in folder.parents or any(one in folder.parents for one in artifacts)
        if inside or any(folder in (one, one.parent) for one in artifacts if out not in one.parents and one != out):
            pending.add(folder.parent)
