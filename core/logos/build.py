"""Carrying out a plan: records and build.ninja written, ninja run, what no plan makes any more removed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.atomic import unwritable, write_if_changed
from logos.cached_steps import CachedSteps
from logos.finished import FINISHED
from logos.inputs import code_digest
from logos.journal import Journal, file_digest, unsound
from logos.ninja_file import NAME, Preview, ninja_text
from logos.ninja_run import Failure, Progress, find_ninja, run_ninja
from logos.plan import Plan
from logos.stamps import stamp
from logos.step_cache import StepCache
from logos.steps import Step

_OWN_RULES = ("author", "emit", "extract")
_HALF = re.compile(r"\.[0-9a-f]{16}\.\w+\.(part|work|new)")


@dataclass(frozen=True)
class Result:
    """What a build came to: the titles of the steps that ran, those that refused, and those that failed otherwise;
    those whose outputs the cache had."""

    ran: tuple[str, ...]
    refused: tuple[Failure, ...]
    failed: tuple[Failure, ...]
    fetched: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.refused and not self.failed


def prepare(plan: Plan, again: Sequence[str]) -> None:
    """Writes what ninja runs by: the steps' records and build.ninja. Refused: `unwritable-file`."""
    private = plan.private
    _forget(private / FINISHED)
    for path, text in plan.records.items():
        write_if_changed(path, text)
    plan.inputs.save()
    write_if_changed(private / NAME, ninja_text(plan, again))
    _date(private / NAME, (*plan.read, *plan.listed))


def _date(ninja: Path, read: Sequence[Path]) -> None:
    """Makes build.ninja as new as what it was made from, whatever clocks those files were dated by: ninja has it
    written anew as long as it is older."""
    times = [found[1] for path in read if (found := stamp(os.fspath(path))) is not None]
    newest = max([time.time_ns(), *times])
    try:
        os.utime(ninja, ns=(newest, newest))
    except OSError as error:
        raise unwritable(ninja, error) from error


def _unheard(title: str) -> None:
    return


def carry_out(
    plan: Plan,
    again: Sequence[str],
    jobs: int | None,
    listener: Callable[[Progress], None],
    lock: int | None = None,
    cache: StepCache | None = None,
    hear_fetched: Callable[[str], None] = _unheard,
) -> Result:
    """Builds the plan. `again` are the words after `logos` that plan it anew, `jobs` is how many steps run at once
    (None: ninja's choice); the listener hears of each step; `lock` is the descriptor of the folder's lock. What `cache`
    has is taken from there, which `hear_fetched` hears by title, and what it lacks is kept there.

    Refused: files that cannot be written (`unwritable-file`), no ninja (`no-ninja`).
    """
    private = plan.private
    prepare(plan, again)
    journal = Journal(private)
    for path in unsound(journal, plan.steps):
        _forget(path)
    _claim(plan, journal)
    _settle(private)
    cached = CachedSteps(plan, cache, journal) if cache is not None else None
    fetched = cached.fetch(hear_fetched) if cached is not None else ()
    steps = {step.title: step for step in plan.steps}

    def hear(progress: Progress) -> None:
        if progress.title in steps:
            journal.add(steps[progress.title])
        listener(progress)

    def undo(title: str) -> None:
        """A tool that fails leaves nothing under a final name; LOGOS's own steps never do."""
        step = steps.get(title)
        if step is not None and step.record is None:
            for path in step.outputs:
                _forget(path)
            journal.add(step)

    outcome = run_ninja(private, hear, () if jobs is None else ("-j", str(jobs)), lock, undo)
    own = {step.title for step in plan.steps if step.rule in _OWN_RULES}
    refused = tuple(one for one in outcome.failures if one.code == 1 and one.title in own and not _crashed(one))
    failed = tuple(one for one in outcome.failures if one not in refused)
    if outcome.code != 0 and not outcome.failures:
        failed = (Failure("ninja", outcome.code, "", outcome.rest),)
    result = Result(tuple(title for title in outcome.steps if title in steps), refused, failed, fetched)
    if cached is not None:
        cached.keep(set(result.ran) - {one.title for one in outcome.failures})
    if result.sound:
        _remove_leftovers(plan, journal)
        journal.code |= dict.fromkeys((os.path.abspath(unit.folder) for unit in plan.units), code_digest(plan.sources))
    journal.close()
    return result


def due_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that carrying out the plan would run now, as ninja decides it. Writes nothing but a temporary file."""
    private = plan.private
    journal = Journal(private)
    due: set[str] = set()
    kept: set[Path] = set()
    for step in plan.steps:
        wrong = unsound(journal, [step])
        if wrong or (step.record is not None and not _says(step.record, plan.records[step.record])):
            due.add(step.title)
        kept |= {path for path, digest in step.digests.items() if file_digest(path) == digest}
    if not private.is_dir():
        return plan.steps
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / NAME
        file.write_text(ninja_text(plan, None, Preview(frozenset(due), frozenset(kept))), "utf-8", "surrogateescape")
        outcome = run_ninja(private, lambda progress: None, ("-n", "-f", os.fspath(file)))
    return tuple(step for step in plan.steps if step.title in outcome.steps)


def _says(record: Path, text: str) -> bool:
    with suppress(OSError):
        return record.read_bytes() == text.encode("utf-8", "surrogateescape")
    return False


def _settle(private: Path) -> None:
    """Tells ninja's log, where it knows of one, how new build.ninja is: it was written by no step of ninja's."""
    with suppress(OSError):
        if f"\t{NAME}\t" in (private / ".ninja_log").read_text("utf-8", "replace"):
            subprocess.run([find_ninja(), "-C", private, "-t", "restat", NAME], capture_output=True)


def _crashed(failure: Failure) -> bool:
    return "Traceback (most recent call last)" in failure.output


def _forget(path: Path) -> None:
    """Removes a file, if it is there. A folder in its place is refused: ninja would take it for the file."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise unwritable(path, error) from error


def _claim(plan: Plan, journal: Journal) -> None:
    """Notes, before anything is made, which files the artifacts will hold: a tool that is killed leaves some of them,
    and a later build may not want them."""
    for unit in plan.units:
        folder = os.path.abspath(unit.folder)
        journal.artifacts[folder] = sorted({*journal.artifacts.get(folder, ()), *unit.files})
    journal.close()


def _remove_leftovers(plan: Plan, journal: Journal) -> None:
    """Removes what an earlier build wrote into the plan's artifacts and this one does not: an option changed, and the
    artifact holds what its page lists and no more."""
    for unit in plan.units:
        folder = os.path.abspath(unit.folder)
        for file in sorted(set(journal.artifacts.get(folder, ())) - set(unit.files)):
            remove_file(Path(folder), file)
        journal.artifacts[folder] = sorted(unit.files)
        for place in {Path(folder), *((Path(folder) / file).parent for file in unit.files)}:
            remove_halves(place)


def remove_halves(folder: Path) -> None:
    """Removes what killed steps left beside the files that they were writing. No step is at work: the caller holds the
    lock of the out folder."""
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if _HALF.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif _HALF.fullmatch(entry.name):
                os.unlink(entry.path)


def remove_file(folder: Path, file: str) -> None:
    """Removes an artifact's file and the folders above it that are then empty, up to the artifact's own."""
    path = folder / file
    with suppress(OSError):
        path.unlink()
        for parent in _between(path, folder):
            parent.rmdir()


def _between(path: Path, folder: Path) -> Iterator[Path]:
    return (parent for parent in path.parents if folder in parent.parents)
