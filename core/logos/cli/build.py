"""`logos build`: the main job, from programs to artifacts."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import hold_option, quiet_option, since_option
from logos.cli.build_report import BuildReport
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.main import DONE, REFUSED, TOOL_FAILED

if TYPE_CHECKING:
    from logos.plan import Plan
    from logos.step_cache import StepCache


@click.command()
@click.argument("names", nargs=-1, metavar="[PROGRAM or MEMBER]...")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Build for this target; repeatable.")
@program_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The artifact's folder for one program and one target, else DIR/<name>/<target>/ [build].",
)
@target_options
@hold_option
@since_option
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Take what steps make from this folder where it has it, and keep it there; builds may share it.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan; write nothing.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Run N steps at once [ninja's choice].")
@click.option(
    "--depfile",
    type=click.Path(path_type=Path),
    metavar="FILE.d",
    callback=lambda context, parameter, path: path and _depfile(path),
    help="Say there, as make and ninja read it, what FILE depends on: all that the build read and made.",
)
@click.option("--once", is_flag=True, help="Leave nothing beside the artifacts: the next build begins anew.")
@click.option(
    "--reconsider", type=click.Path(path_type=Path), metavar="DIR", hidden=True, help="What build.ninja itself calls."
)
@json_option
@quiet_option
@verbose_option
def command(
    names: tuple[str, ...],
    targets: tuple[str, ...],
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    out: Path | None,
    options: dict[str, str],
    hold: tuple[str, ...],
    since: str | None,
    cache: Path | None,
    dry_run: bool,
    jobs: int | None,
    depfile: Path | None,
    once: bool,
    reconsider: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Build programs into artifacts.

    Each argument is a program (.lg), a folder with a logos.toml, or the name of a project of this folder's logos.toml;
    without any, everything in that file is built for its targets. Whatever a target cannot express is refused by name
    before a byte is written.
    """
    from logos.build import due_steps, prepare
    from logos.cache import cache_limit
    from logos.depfile import write_depfile
    from logos.lock import HELD, locked
    from logos.plan import make_plan
    from logos.selection import Flags, select
    from logos.since import asked_of, changed_since
    from logos.step_cache import StepCache

    if reconsider is not None:
        os.chdir(reconsider)
    report = BuildReport(as_json, quiet, verbose)
    limit = cache_limit() if cache is not None else 0.0
    began: int | None = time.time_ns()
    manager = open_manager(verbose)
    flags = Flags(tuple(dict.fromkeys(targets)), checkpoint, weights, family, out, options, hold)
    selection = select(names, flags)
    looked_at: Sequence[Path] = ()
    if since is not None:
        began = None  # what git says is in no file that the next build could compare
        whole = len(selection.orders)
        looked_at = asked_of(manager, selection) if depfile is not None else ()
        selection, reasons = changed_since(manager, selection, since)
        report.since(since, reasons, whole)
        if not reasons and reconsider is None:
            if depfile is not None and not dry_run:
                write_depfile(depfile, None, looked_at)
            click.echo(report.nothing(), nl=False)
            return DONE
    plan = make_plan(manager, selection, report.reading, dry_run)
    if dry_run:
        report.planned(plan, due_steps(plan))
        return DONE
    words = _command_line()
    again = words if reconsider is not None else ["build", "--reconsider", os.getcwd(), *words[1:]]
    if reconsider is not None and os.environ.get(HELD) == os.path.abspath(plan.private):
        prepare(plan, again)
        return DONE
    with locked(plan.private, lambda: report.waiting(plan)) as lock:
        if reconsider is not None:
            prepare(plan, again)
            return DONE
        if manager.problems or once:
            began = None
        shared = StepCache(cache.absolute() / "build", limit, report.warning) if cache is not None else None
        try:
            return _build(plan, again, jobs, report, lock, began, depfile, looked_at, shared)
        finally:
            if once:
                shutil.rmtree(plan.private, ignore_errors=True)


def _depfile(path: Path) -> Path:
    from logos.depfile import ENDING

    if path.suffix != ENDING:
        raise click.BadParameter(f"{path}: name it after what depends, with {ENDING} at the end: FILE{ENDING}")
    return path


def _command_line() -> list[str]:
    """The words after `logos`, as they were given."""
    words = click.get_current_context().find_root().obj
    assert isinstance(words, list)
    return words


def _build(
    plan: Plan,
    again: Sequence[str],
    jobs: int | None,
    report: BuildReport,
    lock: int,
    began: int | None,
    depfile: Path | None,
    looked_at: Sequence[Path],
    cache: StepCache | None,
) -> int:
    """Carries a plan out and tells what it came to. `began` is when what it reads was still to be read; None where the
    next build must look for itself (a plugin was left out, which is said each time)."""
    from logos.atomic import write_if_changed
    from logos.build import carry_out
    from logos.depfile import write_depfile
    from logos.finished import FINISHED, account
    from logos.ninja_run import find_ninja
    from logos.refusal import Refused

    result = carry_out(plan, again, jobs, report.step, lock, cache, report.fetched)
    for failure in (*result.refused, *result.failed):
        report.failed(failure, failure in result.refused)
    if not result.sound:
        return TOOL_FAILED if result.failed else REFUSED
    if depfile is not None:
        write_depfile(depfile, plan, looked_at)
    if began is not None:
        written = [os.fspath(path) for step in plan.steps for path in step.outputs]
        written += [os.path.abspath(depfile)] if depfile is not None else []
        read, listed = map(os.fspath, plan.read), map(os.fspath, plan.listed)
        said = report.idle(plan)
        text = account(_command_line()[1:], began, read, listed, written, find_ninja(), said, plan.environment)
        if text is not None:
            with suppress(Refused):  # without it the next build looks more closely, no more
                write_if_changed(plan.private / FINISHED, text)
    click.echo(report.done(plan, result.ran, result.fetched), nl=False)
    return DONE
