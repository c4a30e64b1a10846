"""`logos verify`: run a built artifact and the reference machine on the same inputs, and compare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logos.cli.arrays import given_arrays, load_array
from logos.cli.build_options import hold_option, tensor_option, tensor_place
from logos.cli.common import (
    json_option,
    open_manager,
    program_options,
    saying,
    set_option,
    target_options,
    tokens_option,
    verbose_option,
)
from logos.cli.events import json_text
from logos.cli.main import BEYOND_BOUND, DONE
from logos.cli.progress import progress

_NAMED = 8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.graph import Graph
    from logos.verification import Verdict


@click.command()
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--target", "target_name", required=True, metavar="NAME", help="The target whose artifact to run.")
@program_options
@set_option
@tokens_option
@click.option(
    "--dtype",
    type=click.Choice(["float64", "float32", "bfloat16", "float16", "int8"]),
    help="Compare in this dtype alone; with --against, hold every array to its bound.",
)
@target_options
@hold_option
@tensor_option
@click.option("--against", type=click.Path(path_type=Path), metavar="DIR", help="Compare DIR's NAME.npy instead.")
@click.option("--bisect", is_flag=True, help="Compare every stage at every step, and name the first beyond its bound.")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@verbose_option
def command(
    program: Path,
    target_name: str,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    given: dict[str, str],
    tokens: tuple[int, ...],
    dtype: str | None,
    options: dict[str, str],
    hold: tuple[str, ...],
    tensors: dict[str, str],
    against: Path | None,
    bisect: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Build PROGRAM for a target, run the artifact in a process of its own, and compare it with the reference machine.

    What has no value is filled with noise, the same on both sides; without --tokens so are the states, since a delta
    rule or a convolution that starts at zero would show nothing. Exits with 4 where a variable lies beyond its bound.
    """
    from logos.contracts import compared_of
    from logos.execution import as_kept, loose_values, run_artifact, write_artifact
    from logos.job import Request, make_job
    from logos.plan import check_hold
    from logos.reference import Machine, fed_by_tokens, run_steps
    from logos.values import run_values
    from logos.verification import compared, judge
    from logos.weights.fill import fill

    manager = open_manager(verbose)
    check_hold(manager.target(target_name), hold)
    request = Request(program, checkpoint, weights, family, tensors, options, hold=hold, override_place=tensor_place)
    target, job = make_job(manager, request, target_name)
    graph = job.graph
    fed = fed_by_tokens(graph, given) if tokens else ()
    arrays = given_arrays(graph, given)
    if not tokens:
        arrays = {**{leaf.name: fill(graph, leaf, "noise") for leaf in graph.states if not leaf.fills}, **arrays}
    values = run_values(job.binding, arrays, "noise", fed)
    if against is None:
        values, rounded = as_kept(target, job, values, given)
        if rounded:
            saying(quiet)(_rounded(rounded))
    outputs, dtypes = compared_of(target, job)
    loose = loose_values(job.binding, values, given)
    kinds = (dtype,) if dtype else dtypes
    if bisect:
        from logos.cli.bisect import Bisected

        bisected = Bisected(target, job, values, tokens, as_json, quiet)
        holds = bisected.artifact(kinds, loose) if against is None else bisected.arrays(against, dtype)
        return DONE if holds else BEYOND_BOUND
    taps = compared(graph, outputs)
    with progress("reference machine", quiet) as update:
        record = run_steps(Machine(graph, values), taps, tokens, progress=update)
    reference = {name: record.stacked(name) for name in taps}
    beyond = count = 0
    with tempfile.TemporaryDirectory(prefix="logos-verify-") as scratch:
        artifact = Path(scratch)
        if against is not None:
            runs = _made_elsewhere(graph, against, reference, dtype)
        else:
            write_artifact(target, job, loose, artifact, lambda path: progress(path, quiet, in_bytes=True))
            say = saying(quiet)
            runs = ((kind, run_artifact(target, job, values, artifact, tokens, taps, kind, say=say)) for kind in kinds)
        for kind, found in runs:
            verdicts = judge(graph, kind, reference, found)
            _print(verdicts, target.name, kind, as_json)
            beyond += sum(not verdict.holds for verdict in verdicts)
            count += len(verdicts)
    if not as_json:
        failed = f"{beyond} of {count} comparisons lie beyond their bounds; --bisect names the first stage that errs"
        click.echo(failed if beyond else f"all {count} comparisons hold")
    return BEYOND_BOUND if beyond else DONE


def _rounded(names: Sequence[str]) -> str:
    """What is said of weights that the artifact rounds."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED]) + more
    return f"rounded to Q8_0, for the reference machine as for the artifact: {listed}"


def _made_elsewhere(
    graph: Graph, folder: Path, reference: Mapping[str, NDArray[Any]], dtype: str | None
) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
    """Each array of a folder with the dtype that it is held to: its own, unless one was asked for."""
    from logos.refusal import refuse
    from logos.source import Spot
    from logos.verification import dtype_of

    arrays = _arrays_in(folder, reference)
    for name, array in arrays.items():
        try:
            kind = dtype or dtype_of(graph, name, arrays)
        except KeyError as odd:
            what = f"no bound is known for {odd.args[0]}"
            next_ = "say with --dtype which bound it is held to, or write float64 or float32"
            raise refuse("value-type", what, Spot(str(folder / f"{name}.npy")), next_) from None
        yield kind, {name: array}


def _arrays_in(folder: Path, reference: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """NAME.npy of a folder, in the reference's shapes; at least one must be there."""
    from logos.refusal import refuse
    from logos.source import Spot

    found: dict[str, NDArray[Any]] = {}
    for name, expected in reference.items():
        path = folder / f"{name}.npy"
        if not path.is_file():
            continue
        array = load_array(path, Spot(str(path)))
        if array.dtype.kind not in "iuf":
            what = f"the file holds {array.dtype}, which is no number"
            raise refuse("value-type", what, Spot(str(path)), "write numbers, with numpy.save")
        found[name] = array.reshape(expected.shape) if array.size == expected.size else array
    if not found:
        what = f"the folder holds none of {', '.join(f'{name}.npy' for name in reference)}"
        raise refuse("nothing-to-compare", what, Spot(str(folder)), "write one with `logos run … --get NAME --npy DIR`")
    return found


def _print(verdicts: Sequence[Verdict], target: str, dtype: str, as_json: bool) -> None:
    for verdict in verdicts:
        if as_json:
            record = {"target": target, "dtype": dtype, "variable": verdict.variable, "difference": verdict.difference}
            rest = {"bound": verdict.bound, "ties": verdict.ties, "holds": verdict.holds}
            click.echo(json_text({**record, **rest}))
            continue
        mark = "ok" if verdict.holds else "BEYOND ITS BOUND"
        ties = f" ({verdict.ties} ties)" if verdict.ties else ""
        click.echo(f"{dtype:8}  {verdict.variable:16}  difference {verdict.difference:.3g}  "
                   f"bound {verdict.bound:.3g}  {mark}{ties}")  # fmt: skip
