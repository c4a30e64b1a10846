"""`logos extract`: one step of a build, the weight files of an artifact."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import folder_option, one_target_option, quiet_option, size, tensor_option, tensor_place
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.progress import progress

if TYPE_CHECKING:
    from logos.hookspecs import WeightFile


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@one_target_option
@folder_option
@program_options
@tensor_option
@target_options
@click.option("--file", "chosen", metavar="PATH", help="Extract this weight file of the artifact [all of them].")
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
    chosen: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write the weight files of PROGRAM's artifact from a checkpoint, a weight folder or the program's fills."""
    from logos.job import Request, make_job
    from logos.weights.extract import write_weight_file

    manager = open_manager(verbose)
    request = Request(program, checkpoint, weights, family, tensors, options, override_place=tensor_place)
    made, job = make_job(manager, request, target)
    for weight_file in _chosen(made.steps(job).extractions, chosen, target):
        with progress(weight_file.path, quiet, in_bytes=True) as update:
            paths = write_weight_file(job.binding, weight_file, out, progress=update)
        for path in paths:
            count = path.stat().st_size
            if as_json:
                click.echo(json.dumps({"file": os.fspath(path), "bytes": count}, ensure_ascii=False))
            elif not quiet:
                click.echo(f"{path}: {size(count)}")


def _chosen(files: Sequence[WeightFile], path: str | None, target: str) -> Sequence[WeightFile]:
    from logos.near import suggestion
    from logos.refusal import refuse
    from logos.source import Spot

    found = [file for file in files if path in (None, file.path)]
    if path is not None and not found:
        known = [file.path for file in files]
        what = f"the artifact has no weight file {path}{suggestion(path, known)}"
        raise refuse("no-such-weight-file", what, Spot(f"target {target}"), f"it has: {', '.join(known) or 'none'}")
    return found
