"""Running an artifact on this host: what it takes beside what a build writes, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from logos.atomic import write_if_changed
from logos.hookspecs import Inputs, Job, Target, WeightEntry, WeightFile
from logos.weights.binding import Binding, Role
from logos.weights.extract import write_weight_file
from logos.weights.values import leaf_values

Array = NDArray[Any]
Watch = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows the writing of a weight file: from its path, a function of (bytes done, bytes in all)."""


def _unwatched(path: str) -> AbstractContextManager[Callable[[int, int], None]]:
    return nullcontext(lambda done, total: None)


def _unsaid(text: str) -> None:
    return


def loose_values(binding: Binding, values: Mapping[str, Array], given: Collection[str] = ()) -> dict[str, Array]:
    """The weights, tables and constants of `values` that no source supplies: those of `given`, and those filled."""
    stored = (bound for bound in binding.leaves if bound.role not in (Role.INPUT, Role.STATE))
    return {
        bound.name: values[bound.name]
        for bound in stored
        if bound.name in given or leaf_values(binding, bound) is None
    }


def write_artifact(
    target: Target, job: Job, loose: Mapping[str, Array], folder: Path, watch: Watch = _unwatched
) -> None:
    """The artifact as a build writes it, in `folder`. The leaves of `loose`, which no source supplies, lie beside it as
    raw float64 or int64, so that a dtype's rounding is the artifact's own."""
    for artifact in target.emit(job):
        write_if_changed(folder / artifact.path, artifact.text)
    for weight_file in target.steps(job).extractions:
        kept = tuple(entry for entry in weight_file.entries if entry.variable not in loose)
        if kept:
            with watch(weight_file.path) as update:
                write_weight_file(job.binding, replace(weight_file, entries=kept), folder, None, update)
    raw = tuple(WeightEntry(name, "F64" if array.dtype.kind == "f" else "I64") for name, array in loose.items())
    if raw:
        write_weight_file(job.binding, WeightFile(".", raw, "raw"), folder, loose)


def run_artifact(
    target: Target,
    job: Job,
    values: Mapping[str, Array],
    folder: Path,
    tokens: Sequence[int],
    taps: Sequence[str],
    dtype: str,
    checks: bool = True,
    generate: int = 0,
    say: Callable[[str], None] = _unsaid,
) -> Mapping[str, Array]:
    """Each tap over all steps, (steps, rows, columns), of the artifact in `folder` on `values`: inputs, and where
    states start; `checks`, `generate` and `say` as in `Inputs`. Raises KeyError for a tap that the target leaves out:
    it must not pass for one that holds."""
    inputs = {
        bound.name: values[bound.name]
        for bound in job.binding.leaves
        if bound.role in (Role.INPUT, Role.STATE) and bound.name in values
    }
    found = target.run(job, Inputs(folder, folder, inputs, tokens, taps, dtype, checks, generate, say))
    return {name: found[name] for name in taps}
