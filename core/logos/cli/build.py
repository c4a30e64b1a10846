"""`logos build`: the main job, from programs to artifacts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, hold_option, quiet_option, size
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.main import DONE, REFUSED, TOOL_FAILED

if TYPE_CHECKING:
    from logos.build import Result
    from logos.ninja_run import Failure, Progress
    from logos.plan import Plan, Unit


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
@click.option("--dry-run", is_flag=True, help="Print the plan; write nothing.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Run N steps at once [ninja's choice].")
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
    dry_run: bool,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Build programs into artifacts.

    Each argument is a program (.lg), a folder with a logos.toml, or the name of a project of this folder's logos.toml;
    without any, everything in that file is built for its targets. Whatever a target cannot express is refused by name
    before a byte is written.
    """
    from logos.build import carry_out
    from logos.plan import make_plan
    from logos.selection import Flags, select

    manager = open_manager(verbose)
    flags = Flags(tuple(dict.fromkeys(targets)), checkpoint, weights, family, out, options, hold)
    plan = make_plan(manager, select(names, flags))
    if dry_run:
        _show_plan(plan, as_json)
        return DONE

    def tell(step: Progress) -> None:
        if verbose or (sys.stderr.isatty() and not quiet):
            # A step's own progress may stand on the terminal's line.
            clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
            click.echo(f"{clear}[{step.done}/{step.total}] {step.title}", err=True)

    result = carry_out(plan, jobs, tell)
    for failure in (*result.refused, *result.failed):
        _show_failure(failure, failure in result.refused, as_json)
    if not result.sound:
        return TOOL_FAILED if result.failed else REFUSED
    if as_json:
        for unit in plan.units:
            click.echo(json.dumps(_record(unit, written=True), ensure_ascii=False))
    elif not quiet:
        _show_result(plan, result)
    return DONE


def _show_plan(plan: Plan, as_json: bool) -> None:
    for unit in plan.units:
        if as_json:
            click.echo(json.dumps(_record(unit, written=False), ensure_ascii=False))
            continue
        click.echo(f"{unit.order.title} → {unit.folder}")
        click.echo(f"  {_contents(unit)}")
        for step in unit.steps:
            click.echo(f"  {step.title}")
            for path in step.outputs:
                click.echo(f"    → {os.path.relpath(path)}")
    if not as_json:
        steps = amount(len(plan.steps), "step")
        click.echo(f"{amount(len(plan.units), 'artifact')} in {steps}; nothing was written")


def _show_result(plan: Plan, result: Result) -> None:
    for unit in plan.units:
        click.echo(f"{unit.order.title} → {unit.folder}")
        if result.ran:
            click.echo(f"  {_contents(unit)}")
            for file in unit.files:
                click.echo(f"  {file}: {size((unit.folder / file).stat().st_size)}")
    count = amount(len(plan.units), "artifact")
    click.echo(
        f"built {count} in {amount(len(result.ran), 'step')}" if result.ran else f"nothing to do: {count} up to date"
    )
    click.echo(f"next: {_verify(plan.units[0])}")


def _contents(unit: Unit) -> str:
    leaves = ", ".join(amount(count, role) for role, count in unit.leaves.items())
    return f"{amount(unit.operations, 'operation')}; {leaves}"


def _verify(unit: Unit) -> str:
    """The command that compares the artifact with the reference machine."""
    import shlex

    request = unit.order.request
    words = ["logos", "verify", os.fspath(request.program), "--target", unit.order.target]
    for flag, value in (
        ("--checkpoint", request.checkpoint),
        ("--weights", request.weights),
        ("--family", request.family),
    ):
        words += [flag, os.fspath(value)] if value is not None else []
    return " ".join(map(shlex.quote, words))


def _record(unit: Unit, written: bool) -> dict[str, object]:
    files: list[object] = [
        {"path": file, "bytes": (unit.folder / file).stat().st_size} if written else {"path": file}
        for file in unit.files
    ]
    return {
        "name": unit.order.name,
        "target": unit.order.target,
        "folder": os.fspath(unit.folder),
        "operations": unit.operations,
        "leaves": dict(unit.leaves),
        "files": files,
        **({} if written else {"steps": [step.title for step in unit.steps]}),
    }


def _show_failure(failure: Failure, refused: bool, as_json: bool) -> None:
    """A refusal as the step said it; a tool's own words, then its exit code and the command to run by hand."""
    if as_json:
        kind = "refused" if refused else "failed"
        record = {"step": failure.title, kind: failure.code, "output": failure.output, "command": failure.command}
        click.echo(json.dumps(record, ensure_ascii=False))
        return
    if failure.output:
        click.echo(failure.output, err=True)
    if not refused:
        click.echo(f"{failure.title} failed with exit code {failure.code}", err=True)
        if failure.command:
            click.echo(f"  by hand: {failure.command}", err=True)
