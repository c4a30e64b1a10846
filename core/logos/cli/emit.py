"""`logos emit`: one step of a build, a target's text files for one program."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from logos.cli.build_options import (
    folder_option,
    hold_option,
    one_target_option,
    quiet_option,
    size,
    tensor_option,
    tensor_place,
)
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@one_target_option
@folder_option
@program_options
@tensor_option
@target_options
@hold_option
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
    tensors: dict[str, str],
    options: dict[str, str],
    hold: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write the text files of PROGRAM's artifact: no weights, no tools.

    A file that would not change keeps its time. `logos build` runs this as one step of its plan.
    """
    from logos.artifacts import emit_artifacts, write_artifacts
    from logos.job import Request, make_job
    from logos.plan import check_hold

    manager = open_manager(verbose)
    check_hold(manager.target(target), hold)
    request = Request(program, checkpoint, weights, family, tensors, options, override_place=tensor_place, hold=hold)
    made, job = make_job(manager, request, target)
    for path, changed in write_artifacts(emit_artifacts(made, job), out):
        count = path.stat().st_size
        if as_json:
            click.echo(json.dumps({"file": os.fspath(path), "bytes": count, "changed": changed}, ensure_ascii=False))
        elif not quiet:
            click.echo(f"{path}: {size(count)}{'' if changed else ', unchanged'}")
