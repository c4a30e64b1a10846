"""Carrying out a plan: records and build.ninja written, ninja run, what no plan makes any more removed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.atomic import write_if_changed
from logos.ninja_file import ninja_text
from logos.ninja_run import Failure, Progress, run_ninja
from logos.plan import Plan

_OWN_RULES = ("author", "emit", "extract")
_MADE = "made.json"


@dataclass(frozen=True)
class Result:
    """What a build came to: the titles of the steps that ran, those that refused, and those that failed otherwise."""

    ran: tuple[str, ...]
    refused: tuple[Failure, ...]
    failed: tuple[Failure, ...]

    @property
    def sound(self) -> bool:
        return not self.refused and not self.failed


def carry_out(plan: Plan, jobs: int | None, listener: Callable[[Progress], None]) -> Result:
    """Builds the plan. `jobs` is how many steps run at once (None: ninja's choice); the listener hears of each step.

    Refused: files that cannot be written (`unwritable-file`), no ninja (`no-ninja`).
    """
    private = plan.private
    for unit in plan.units:
        for path, text in unit.records.items():
            write_if_changed(path, text)
    write_if_changed(private / "build.ninja", ninja_text(plan))
    outcome = run_ninja(private, jobs, listener)
    own = {step.title for step in plan.steps if step.rule in _OWN_RULES}
    refused = tuple(one for one in outcome.failures if one.code == 1 and one.title in own and not _crashed(one))
    failed = tuple(one for one in outcome.failures if one not in refused)
    if outcome.code != 0 and not outcome.failures:
        failed = (Failure("ninja", outcome.code, "", outcome.rest),)
    result = Result(outcome.steps, refused, failed)
    if result.sound:
        _remove_leftovers(plan)
    return result


def _crashed(failure: Failure) -> bool:
    return "Traceback (most recent call last)" in failure.output


def _remove_leftovers(plan: Plan) -> None:
    """Removes what an earlier build wrote into the plan's artifacts and this one does not: an option changed, and the
    artifact holds what its page lists and no more."""
    record = plan.private / _MADE
    made: dict[str, list[str]] = {}
    with suppress(OSError, ValueError):
        made = json.loads(record.read_text("utf-8"))
    for unit in plan.units:
        folder = os.path.abspath(unit.folder)
        for file in sorted(set(made.get(folder, ())) - set(unit.files)):
            _remove(Path(folder), file)
        made[folder] = sorted(unit.files)
    write_if_changed(record, json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _remove(folder: Path, file: str) -> None:
    """Removes a file and the folders above it that are then empty, up to the artifact's own."""
    path = folder / file
    with suppress(OSError):
        path.unlink()
        for parent in _between(path, folder):
            parent.rmdir()


def _between(path: Path, folder: Path) -> Iterator[Path]:
    return (parent for parent in path.parents if folder in parent.parents)
