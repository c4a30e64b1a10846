"""`logos run`: run a program on the reference machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logos.cli.arrays import array_text, given_arrays, known_names
from logos.cli.common import (
    fill_option,
    json_option,
    names,
    open_manager,
    program_options,
    set_option,
    tokens_option,
    verbose_option,
)
from logos.cli.events import json_text
from logos.cli.progress import progress

if TYPE_CHECKING:
    from logos.graph import Graph
    from logos.reference import Record
    from logos.weights.fill import FillKind


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@program_options
@set_option
@fill_option
@tokens_option
@click.option("--generate", type=click.IntRange(min=0), default=0, metavar="N", help="Go on for N generated ids.")
@click.option("--get", "get", metavar="NAME,…", help="Print these, *: all it makes [the output, if nothing else].")
@click.option("--npy", type=click.Path(path_type=Path), metavar="DIR", help="Write NAME.npy of all steps, as --get.")
@click.option("--engine", type=click.Choice(["reference"]), default="reference", show_default=True)
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
    from logos.job import Request, bind_request, load_graph
    from logos.reference import Machine, fed_by_tokens, run_steps
    from logos.values import run_values

    manager = open_manager(verbose)
    request = Request(program, checkpoint, weights, family)
    graph = load_graph(manager, request)
    wanted = names(get)
    if not wanted and (npy is not None or not (generate or (graph.shows and not as_json))):
        wanted = (graph.output.name,)
    wanted = known_names(graph, wanted)
    fed = fed_by_tokens(graph, given) if tokens else ()
    arrays = given_arrays(graph, given)
    binding = bind_request(manager, graph, request)
    values = run_values(binding, arrays, fill, fed)
    with progress("steps", quiet) as update:
        record = run_steps(Machine(graph, values), wanted, tokens, generate, progress=update)
    if npy is not None:
        write_arrays(npy, record, wanted)
    _print(graph, record, wanted, bool(generate), as_json)


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
        result: dict[str, Any] = {name: record.arrays[name][-1].tolist() for name in wanted}
        if generated:
            result = {"generated": record.generated, **result}
        click.echo(json_text(result))
        return
    for shown in graph.shows:
        array = record.last[shown.value]
        if shown.item is not None:
            click.echo(f"item {shown.item} of {shown.value.name} = {json.dumps(array.flat[shown.item - 1].item())}")
        elif shown.row is not None:
            click.echo(f"row {shown.row} of {shown.value.name} = {array_text(array[shown.row : shown.row + 1])}")
        else:
            click.echo(f"{shown.value.name} = {array_text(array)}")
    for name in wanted:
        click.echo(f"{name} = {array_text(record.arrays[name][-1])}")
    if generated:
        click.echo(" ".join(map(str, record.generated)))
