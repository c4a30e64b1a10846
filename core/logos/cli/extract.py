"""`logos extract`: weight files, of an artifact (one step of a build) or of a program by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import (
    amount,
    folder_option,
    hold_option,
    quiet_option,
    size,
    tensor_option,
    tensor_place,
)
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.progress import progress

if TYPE_CHECKING:
    from logos.hookspecs import Recording, WeightFile
    from logos.job import Request
    from logos.manager import Manager
    from logos.weights.binding import Binding

_NAMED = 8


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--target", metavar="NAME", help="Write the weight files of the artifact for this target.")
@click.option(
    "--weights-format",
    "kind",
    type=click.Choice(["raw", "q8", "safetensors"]),
    help="Without a target: write every weight, table and constant; q8 has matrices as int8 quants (.q) and float32 "
    "scales (.s).",
)
@folder_option
@program_options
@tensor_option
@target_options
@hold_option
@click.option("--file", "chosen", metavar="PATH", help="Write this weight file or recording of the artifact alone.")
@json_option
@quiet_option
@verbose_option
def command(
    program: Path,
    target: str | None,
    kind: str | None,
    out: Path,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    tensors: dict[str, str],
    options: dict[str, str],
    hold: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write PROGRAM's weights, from a checkpoint, a weight folder or its fills: the files of an artifact (--target),
    its recordings among them, or all weights in one format (--weights-format).

    What an interrupted or killed run finished is taken over by the next one.
    """
    from logos.extraction import requantized
    from logos.hookspecs import WeightFile
    from logos.job import Request

    if (target is None) == (kind is None):
        raise click.UsageError("give either --target NAME or --weights-format FORMAT")
    if kind is not None and (options or chosen):
        raise click.UsageError("-D and --file belong to --target")
    manager = open_manager(verbose)
    request = Request(program, checkpoint, weights, family, tensors, options, override_place=tensor_place, hold=hold)
    binding, files = _of_target(manager, request, target, chosen) if target else _of_program(manager, request, kind)
    for weight_file in files:
        if not isinstance(weight_file, WeightFile):
            _record(binding, weight_file, out, as_json, quiet)
            continue
        _write(binding, weight_file, out, as_json, quiet)
        rounded = requantized(binding, weight_file)
        if rounded and not quiet and not as_json:
            click.echo(_said(rounded))


def _write(binding: Binding, weight_file: WeightFile, out: Path, as_json: bool, quiet: bool) -> None:
    from logos.weights.extract import write_weight_file

    label = os.fspath(out) if weight_file.path == "." else weight_file.path
    with progress(label, quiet, in_bytes=True) as update:
        paths = write_weight_file(binding, weight_file, out, progress=update)
    _say(paths, as_json, quiet)


def _record(binding: Binding, recording: Recording, out: Path, as_json: bool, quiet: bool) -> None:
    from logos.recording import write_recording

    with progress(recording.path, quiet) as update:
        path = write_recording(binding, recording, out, update)
    _say([path], as_json, quiet)


def _say(paths: Sequence[Path], as_json: bool, quiet: bool) -> None:
    for path in paths:
        count = path.stat().st_size
        if as_json:
            click.echo(json.dumps({"file": os.fspath(path), "bytes": count}, ensure_ascii=False))
        elif not quiet:
            click.echo(f"{path}: {size(count)}")


def _of_target(
    manager: Manager, request: Request, target: str, chosen: str | None
) -> tuple[Binding, Sequence[WeightFile | Recording]]:
    from logos.job import make_job

    made, job = make_job(manager, request, target)
    following = made.steps(job)
    return job.binding, _chosen((*following.extractions, *following.recordings), chosen, target)


def _of_program(
    manager: Manager, request: Request, kind: str | None
) -> tuple[Binding, Sequence[WeightFile | Recording]]:
    from logos.extraction import weight_file
    from logos.job import bind_request, load_graph

    assert kind is not None
    binding = bind_request(manager, load_graph(manager, request), request)
    return binding, (weight_file(binding, kind),)


def _said(rounded: Mapping[str, str]) -> str:
    """`2 weights rounded to Q8_0: Wq0 (F16), Wk0 (F16)`, the first few by name."""
    named = [f"{name} ({storage})" for name, storage in rounded.items()]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"{amount(len(named), 'weight')} rounded to Q8_0: {', '.join(named[:_NAMED])}{more}"


def _chosen(
    files: Sequence[WeightFile | Recording], path: str | None, target: str
) -> Sequence[WeightFile | Recording]:
    from logos.near import suggestion
    from logos.refusal import refuse
    from logos.source import Spot

    found = [file for file in files if path in (None, file.path)]
    if path is not None and not found:
        known = [file.path for file in files]
        what = f"the artifact has no weight file {path}{suggestion(path, known)}"
        raise refuse("no-such-weight-file", what, Spot(f"target {target}"), f"it has: {', '.join(known) or 'none'}")
    return found
