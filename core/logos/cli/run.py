"""`logos run`: run a program on the reference machine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logos.cli.arrays import array_text, given_arrays, known_names, plain
from logos.cli.build_options import hold_option
from logos.cli.common import (
    fill_option,
    json_option,
    names,
    open_manager,
    program_options,
    saying,
    set_option,
    target_options,
    tokens_option,
    verbose_option,
)
from logos.cli.events import json_text
from logos.cli.prefill import prefill_of, prefill_option
from logos.cli.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.graph import Graph
    from logos.hookspecs import Job, Target
    from logos.manager import Manager
    from logos.reference import Record
    from logos.weights.fill import FillKind

GENERATED = "generated"
"""Under which --json has the ids of --generate."""


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@program_options
@set_option
@fill_option
@tokens_option
@click.option("--generate", type=click.IntRange(min=0), default=0, metavar="N", help="Go on for N generated ids.")
@click.option("--get", "get", metavar="NAME,…", help="Print these, *: all it makes [the output, if nothing else].")
@click.option("--npy", type=click.Path(path_type=Path), metavar="DIR", help="Write NAME.npy of all steps, as --get.")
@click.option(
    "--engine", default="reference", metavar="NAME", show_default=True,
    help="What runs it: reference, or an installed target, such as cuda.",
)
@target_options
@hold_option
@prefill_option
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@verbose_option
def command(
    program: Path,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    given: dict[str, str],
    fill: FillKind | None,
    tokens: tuple[int, ...],
    generate: int,
    get: str | None,
    npy: Path | None,
    engine: str,
    options: dict[str, str],
    hold: tuple[str, ...],
    prefill: int | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run PROGRAM for one step or, with --tokens, once for each token.

    Prints what `Show` and --get name, as of the last step, and with --generate a line of the generated ids; the
    program's output where that is nothing.
    """
    if generate and not tokens:
        raise click.UsageError("--generate goes on after --tokens; give the prompt's ids with --tokens")
    if options and engine == "reference":
        raise click.UsageError("-D sets an option of the target that --engine names; the reference machine has none")
    if hold and engine == "reference":
        raise click.UsageError("--hold keeps a step of the target that --engine names from acting; this is none")
    if prefill is not None and engine != "reference":
        raise click.UsageError("--prefill is the reference machine's; a target has options of its own")
    if prefill is not None and not tokens:
        raise click.UsageError("--prefill takes many of a prompt's tokens at once; give the prompt's ids with --tokens")
    from logos.job import Request, bind_request, load_graph, make_job
    from logos.plan import check_hold
    from logos.reference import fed_by_tokens
    from logos.values import run_values

    manager = open_manager(verbose)
    request = Request(program, checkpoint, weights, family, options=options, hold=hold)
    target = _target(manager, engine)
    if target is not None:
        check_hold(target, hold)
    graph = load_graph(manager, request)
    wanted = names(get)
    if not wanted and (npy is not None or not (generate or (graph.shows and not as_json))):
        wanted = (graph.output.name,)
    wanted = known_names(graph, wanted)
    if generate and as_json and GENERATED in wanted:
        raise click.UsageError(f"--json has the ids of --generate under {GENERATED!r}, as --get has that variable")
    fed = fed_by_tokens(graph, given) if tokens else ()
    arrays = given_arrays(graph, given)
    binding = bind_request(manager, graph, request)
    job = make_job(manager, request, engine, binding)[1] if target is not None else None
    values = run_values(binding, arrays, fill, fed)
    if target is not None and job is not None:
        record = _run_target(target, job, values, wanted, tokens, generate, given, quiet)
    else:
        record = _run_reference(graph, values, wanted, npy is not None, tokens, generate, prefill, quiet)
    if npy is not None:
        write_arrays(npy, record, wanted)
    _print(graph, record, wanted, bool(generate), as_json)


def _run_reference(
    graph: Graph,
    values: Mapping[str, NDArray[Any]],
    wanted: Sequence[str],
    every: bool,
    tokens: Sequence[int],
    generate: int,
    prefill: int | None,
    quiet: bool,
) -> Record:
    """The record of a run; `every`: the wanted arrays of every step, else of the last alone."""
    from logos.reference import Machine, run_steps

    names = wanted if every else ()
    taken = prefill_of(graph, tokens, prefill, names, wanted, quiet)
    with progress("steps", quiet) as update:
        record = run_steps(Machine(graph, values), names, tokens, generate, progress=update, prefill=taken)
    if not every:
        record.arrays = {name: [record.last[graph.taps[name]]] for name in wanted}
    return record


def _target(manager: Manager, engine: str) -> Target | None:
    """The target that is the engine; None for the reference machine."""
    if engine == "reference":
        return None
    from logos.engine import engine_target

    return engine_target(manager, engine)


def _run_target(
    target: Target,
    job: Job,
    values: Mapping[str, NDArray[Any]],
    wanted: Sequence[str],
    tokens: Sequence[int],
    generate: int,
    given: Mapping[str, str],
    quiet: bool,
) -> Record:
    from logos.engine import run_engine

    with tempfile.TemporaryDirectory(prefix="logos-run-") as folder:
        return run_engine(
            target, job, values, wanted, tokens, generate, given, Path(folder),
            lambda path: progress(path, quiet, in_bytes=True),
            saying(quiet),
        )  # fmt: skip


def write_arrays(folder: Path, record: Record, wanted: Sequence[str]) -> None:
    """NAME.npy over all steps: (steps, columns) for a one-row tensor, else (steps, rows, columns)."""
    import numpy as np

    from logos.atomic import replacing

    for name in wanted:
        stacked = record.stacked(name)
        with replacing(folder / f"{name}.npy") as file:
            np.save(file, stacked[:, 0] if stacked.shape[1] == 1 else stacked)


def _print(graph: Graph, record: Record, wanted: Sequence[str], generated: bool, as_json: bool) -> None:
    if as_json:
        result: dict[str, Any] = {name: plain(record.arrays[name][-1]) for name in wanted}
        if generated:
            result = {GENERATED: record.generated, **result}
        click.echo(json_text(result))
        return
    for shown in graph.shows:
        array = record.last[shown.value]
        if shown.item is not None:
            click.echo(f"item {shown.item} of {shown.value.name} = {array_text(array.reshape(-1)[shown.item - 1])}")
        elif shown.row is not None:
            click.echo(f"row {shown.row} of {shown.value.name} = {array_text(array[shown.row : shown.row + 1])}")
        else:
            click.echo(f"{shown.value.name} = {array_text(array)}")
    for name in wanted:
        click.echo(f"{name} = {array_text(record.arrays[name][-1])}")
    if generated:
        click.echo(" ".join(map(str, record.generated)))
