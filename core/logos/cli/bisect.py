"""`logos verify --bisect`: the first stage beyond its bound, of an artifact that is run or of arrays made elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logos.cli.arrays import load_array
from logos.cli.bisect_report import show_finding
from logos.cli.common import saying
from logos.cli.progress import progress
from logos.execution import run_artifact, write_artifact
from logos.finding import ROOM, Bisection, Read
from logos.hookspecs import VersionTarget
from logos.refusal import Refused, refuse
from logos.source import Spot, brief
from logos.verification import own_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.graph import Graph, Value
    from logos.hookspecs import Job, Target


@dataclass(frozen=True)
class Bisected:
    """A job to bisect on the reference machine's `values`, and how to say what is found."""

    target: Target
    job: Job
    values: Mapping[str, NDArray[Any]]
    tokens: Sequence[int]
    as_json: bool
    quiet: bool

    def artifact(self, dtypes: Sequence[str], loose: Mapping[str, NDArray[Any]]) -> bool:
        """Builds the artifact, bisects a run of it in each dtype, and shows each finding. Whether every stage holds."""
        holds = True
        with tempfile.TemporaryDirectory(prefix="logos-bisect-") as folder:
            watch = partial(progress, quiet=self.quiet, in_bytes=True)
            write_artifact(self.target, self.job, loose, Path(folder), watch)
            for dtype in dtypes:
                kinds = dict.fromkeys(self.job.graph.taps.values(), dtype)
                holds &= self._found(self._reader(Path(folder), dtype), kinds, dtype)
        return holds

    def arrays(self, folder: Path, dtype: str | None) -> bool:
        """Bisects the arrays that a folder holds, each held to its own dtype unless one is asked for, and shows the
        finding. Whether every stage that has an array holds. Refused: arrays that cannot be compared."""
        found = _arrays_in(self.job.graph, folder, max(len(self.tokens), 1))
        kinds = _kinds(self.job.graph, folder, found, dtype)

        def read(wanted: Sequence[Value], once: bool) -> dict[Value, NDArray[Any]]:
            return {value: found[value] for value in wanted if value in found}

        # The arrays are mapped: however long they are, they need no groups.
        return self._found(read, kinds, dtype or ", ".join(dict.fromkeys(kinds.values())), run=False)

    def _found(self, read: Read, kinds: Mapping[Value, str], label: str, run: bool = True) -> bool:
        graph, room = self.job.graph, ROOM if run else 2**63
        with progress(f"stages, {label}", self.quiet) as update:
            finding = Bisection(graph, self.values, self.tokens, read, kinds, room, update).find()
        show_finding(finding, self.job.binding, self.target.name, label, self.as_json, run)
        return finding.first is None

    def _reader(self, folder: Path, dtype: str) -> Read:
        graph = self.job.graph
        names = {value: name for name, value in graph.taps.items()}
        versions = isinstance(self.target, VersionTarget) and self.target.reads_versions

        def read(wanted: Sequence[Value], once: bool) -> dict[Value, NDArray[Any]]:
            readable = {value: names[value] for value in wanted if versions or "@" not in names[value]}
            if not readable:
                return {}
            taps, tokens = tuple(readable.values()), self.tokens[:1] if once else self.tokens
            try:
                say = saying(self.quiet)
                found = run_artifact(
                    self.target, self.job, self.values, folder, tokens, taps, dtype, checks=False, say=say
                )
            except (Refused, KeyError):
                if any(graph.producer(value) is not None for value in readable):
                    raise
                return {}  # a target need not be able to read its leaves
            return {value: found[name] for value, name in readable.items()}

        return read


def _arrays_in(graph: Graph, folder: Path, steps: int) -> dict[Value, NDArray[Any]]:
    """NAME.npy of a folder for every value of the program that has one there, (steps, rows, columns)."""
    found = {}
    for name, value in graph.taps.items():
        path = folder / f"{name}.npy"
        if not path.is_file():
            continue
        array, place = load_array(path, Spot(str(path))), Spot(str(path))
        if array.dtype.kind not in ("iuf" if value.real else "iu"):
            what = f"{name} is {'Real' if value.real else 'Int'}; the file holds {array.dtype}"
            raise refuse("value-type", what, place, "write numbers, whole ones for Int, with numpy.save")
        if array.size != steps * value.size or (array.ndim and len(array) != steps):
            counts = f"{steps} {'step' if steps == 1 else 'steps'} of {value.rows} by {value.columns}"
            what = f"{brief(name)}: {counts} are due; the file is {' by '.join(map(str, array.shape))}"
            raise refuse("value-shape", what, place, "make the steps that are compared here: give the same --tokens")
        found[value] = array.reshape(steps, value.rows, value.columns)
    if not any(graph.producer(value) is not None for value in found):
        what = "the folder holds no array of what the program makes"
        next_ = "write them with `logos run … --get '*' --npy DIR`, or with the artifact's model.py"
        raise refuse("nothing-to-compare", what, Spot(str(folder)), next_)
    return found


def _kinds(
    graph: Graph, folder: Path, found: Mapping[Value, NDArray[Any]], dtype: str | None
) -> dict[Value, str]:
    """The dtype that each array is held to; the choice of an argmax as what it was made from."""
    kinds = {}
    for value, array in found.items():
        node = graph.producer(value)
        if node is not None and node.op.name == "argmax" and node.inputs[0] in found:
            array = found[node.inputs[0]]
        try:
            kinds[value] = dtype or own_dtype(array)
        except KeyError as odd:
            what = f"no bound is known for {odd.args[0]}"
            next_ = "say with --dtype which bound it is held to, or write float64 or float32"
            raise refuse("value-type", what, Spot(str(folder / f"{value.name}.npy")), next_) from None
    return kinds
