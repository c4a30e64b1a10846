"""`logos tune`: what a target's kernels do best with, found out and kept in a file that builds read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import quiet_option
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.source import printable

if TYPE_CHECKING:
    from logos.hookspecs import TuneReport, TuningTarget
    from logos.manager import Manager


@click.command()
@click.argument("program", type=click.Path(path_type=Path), metavar="PROGRAM")
@click.option("--target", required=True, metavar="NAME", help="The target whose kernels are tuned.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tune.toml"),
    metavar="FILE",
    help="The file to write; tune.toml unless given.",
)
@program_options
@target_options
@json_option
@quiet_option
@verbose_option
def command(
    program: Path,
    target: str,
    out: Path,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    options: dict[str, str],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Find out what the kernels of PROGRAM do best with on a machine, print it as a table, and write it to a file.

    On a machine with the device by timing; without it from what the compiler says of the kernels and a model, which the
    file says of itself. Builds read the file where an option names it: `tune` of [target.cuda] in logos.toml.
    """
    from logos.atomic import write_if_changed
    from logos.job import Request, make_job

    manager = open_manager(verbose)
    tuner = tuning(manager, target)
    _, job = make_job(manager, Request(program, checkpoint, weights, family, options=options), target)
    report = tuner.tune(job, lambda line: None if quiet else click.echo(printable(line), err=True))
    write_if_changed(out, report.text)
    if as_json:
        for row in report.rows:
            click.echo(json.dumps(dict(zip(report.heads, row, strict=True)), ensure_ascii=False))
    elif not quiet:
        show(report)
        click.echo(f"wrote {printable(str(out))}; next: build with -D tune={printable(str(out))}")


def show(report: TuneReport) -> None:
    """The report as a table with its notes."""
    lines = [report.heads, *(tuple(map(str, row)) for row in report.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo(printable("  ".join(cells)))
    for note in report.notes:
        click.echo(printable(note))


def tuning(manager: Manager, name: str) -> TuningTarget:
    """The target of a name. Refused: one that has nothing to tune (`no-tuning`), with those that have."""
    from logos.hookspecs import TuningTarget
    from logos.refusal import refuse
    from logos.source import Spot

    target = manager.target(name)
    if isinstance(target, TuningTarget):
        return target
    others = [other.name for other in manager.targets.values() if isinstance(other, TuningTarget)]
    what = f"the target {name} has nothing to tune"
    next_ = f"tune a target that has: {', '.join(others)}" if others else "install a plugin whose target has something"
    raise refuse("no-tuning", what, Spot(f"target {name}"), next_)
