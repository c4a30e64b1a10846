"""`logos deps`: what each step of a build reads and writes, for other build systems."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import hold_option, since_option
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.events import event_line

if TYPE_CHECKING:
    from logos.hookspecs import Rule
    from logos.plan import Unit
    from logos.steps import Step


@click.command()
@click.argument("names", nargs=-1, metavar="[PROGRAM or MEMBER]...")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="For this target; repeatable.")
@program_options
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="As for `logos build`.")
@target_options
@hold_option
@since_option
@json_option
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
    as_json: bool,
    verbose: bool,
) -> None:
    """Show the steps of a build, with their commands and every file that they read and write.

    Arguments and flags are those of `logos build`. Nothing is written. The commands run in any order that has a file
    written before it is read. With --json also all that decides these steps: project files, folders, code.
    """
    from logos.depfile import unit_depends
    from logos.installation import code_account
    from logos.plan import make_plan
    from logos.selection import Flags, select
    from logos.since import changed_since

    flags = Flags(tuple(dict.fromkeys(targets)), checkpoint, weights, family, out, options, hold)
    manager, selection = open_manager(verbose), select(names, flags)
    if since is not None:
        selection, _ = changed_since(manager, selection, since)
    plan = make_plan(manager, selection, preview=True)
    code = code_account(manager) if as_json else {}
    for unit in plan.units:
        if not as_json:
            _show(unit)
            continue
        files, folders = unit_depends(plan, unit)
        event = event_line(
            "deps",
            name=unit.order.name,
            target=unit.order.target,
            folder=os.fspath(unit.folder),
            files=files,
            folders=folders,
            environment=sorted(unit.environment),
            code=code,
            steps=[_record(step, unit) for step in unit.steps],
        )
        click.echo(event)


def _show(unit: Unit) -> None:
    click.echo(f"{unit.order.title} → {unit.folder}")
    for step in unit.steps:
        click.echo(f"  {step.title}")
        for mark, paths in (("←", _read(step)), ("→", step.outputs)):
            for path in paths:
                click.echo(f"    {mark} {os.path.relpath(path)}")
        click.echo(f"    {_command(step, unit)}")


def _record(step: Step, unit: Unit) -> dict[str, object]:
    record: dict[str, object] = {
        "step": step.title,
        "command": _command(step, unit),
        "inputs": list(map(os.fspath, _read(step))),
        "outputs": list(map(os.fspath, step.outputs)),
    }
    rule = _rule(step, unit)
    if rule is not None and rule.depfile is not None:
        record["depfile"] = _filled(rule.depfile, step)
    return record


def _read(step: Step) -> tuple[Path, ...]:
    return tuple(dict.fromkeys((*step.inputs, *step.after)))


def _command(step: Step, unit: Unit) -> str:
    """The line for a shell: of LOGOS's own command, or of a target's rule with its variables filled in."""
    if step.record is not None:
        return shlex.join(["logos", step.rule, *step.arguments])
    rule = _rule(step, unit)
    assert rule is not None
    return _filled(rule.command, step)


def _rule(step: Step, unit: Unit) -> Rule | None:
    """The target's rule of a step; a step of LOGOS's own has none."""
    return next((rule for rule in unit.rules if rule.name == step.rule), None)


def _filled(text: str, step: Step) -> str:
    """Text of ninja's with a step's variables filled in."""
    values = {
        **step.variables,
        "in": shlex.join(map(os.fspath, step.inputs)),
        "out": shlex.join(map(os.fspath, step.outputs)),
    }
    return re.sub(r"\$(?:(\$)|\{(\w+)\}|(\w+))", lambda m: m[1] or values.get(m[2] or m[3], ""), text)
