"""Running an artifact on this host: what it takes beside what a build writes, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.atomic import write_if_changed
from logos.hookspecs import Inputs, Job, QuantizingTarget, Target, WeightEntry, WeightFile
from logos.weights.binding import Binding, Bound, Role
from logos.weights.blocks import InexactValueError
from logos.weights.extract import write_weight_file
from logos.weights.q8 import BLOCK, quantize, split
from logos.weights.values import leaf_values
from logos.weights.views import TensorView

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


def as_kept(
    target: Target, job: Job, values: Mapping[str, Array], given: Collection[str] = ()
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The values as the artifact keeps them, and the names of those that it rounds to Q8_0. A value that Q8_0 cannot
    hold stays: the writing of the weights refuses it."""
    kept, rounded = dict(values), []
    for entry in target.quantized(job) if isinstance(target, QuantizingTarget) else ():
        bound = job.binding[entry.variable]
        if entry.variable in given or not stored_alike(bound, entry):
            source = values[entry.variable].T if entry.transposed else values[entry.variable]
            with suppress(InexactValueError):
                made = _through_q8(source)
                if not np.array_equal(made, source):
                    kept[entry.variable] = made.T if entry.transposed else made
                    rounded.append(entry.variable)
    return kept, tuple(rounded)


def stored_alike(bound: Bound, entry: WeightEntry) -> bool:
    """Whether a leaf's source is what a Q8_0 entry stores, so that nothing is rounded."""
    if bound.tensor is None or bound.file is not None or not isinstance(bound.view, TensorView):
        return False
    return bound.tensor.storage == "Q8_0" and bound.view.transposed == entry.transposed


def _through_q8(rows: Array) -> Array:
    quants, scales = split(quantize(rows).view(np.uint8))
    return np.asarray(quants * np.repeat(scales.astype(np.float64), BLOCK, axis=1))


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
