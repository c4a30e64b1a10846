"""A run of the reference machine in a file, for an artifact to be checked against where LOGOS is not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from logos.atomic import unwritable
from logos.extraction import weight_file as all_weights
from logos.graph import Graph, Value, token_inputs
from logos.reference import Machine, initial
from logos.refusal import refuse
from logos.source import Spot
from logos.values import run_values
from logos.verification import bound_of, compared, operand_of
from logos.weights.binding import Binding, Role
from logos.weights.fill import fill, splitmix64
from logos.weights.recipe import recipe_digest, recipe_record
from logos.weights.resume import Digest, Workplace, holds, workplace
from logos.weights.safetensors import header
from logos.weights.values import leaf_values

if TYPE_CHECKING:
    from logos.hookspecs import Recording

Array = NDArray[Any]

METADATA = "logos.recording"
"""The key of the file's metadata that says, in JSON, what was recorded."""

_HELD_TO = ("float64", "float32", "bfloat16", "integer")
"""The dtypes whose bounds a recording tells."""

MOST_STEPS = 100_000
"""Steps that a recording may have: each is a file while it is made."""

_DTYPES = {"f": "F64", "i": "I64"}


def check_recording(graph: Graph, recording: Recording) -> None:
    """Refuses more steps than a table has rows for `pos`, or than MOST_STEPS (`recording-too-long`)."""
    table = _table_of(graph, "pos") if "pos" in token_inputs(graph) else None
    if table is not None and recording.steps > table.rows:
        what = f"{recording.path} records {recording.steps} steps, and pos is a row of {table.name}"
        next_ = f"{table.name} has {table.rows} rows: ask for at most {table.rows} steps"
        raise refuse("recording-too-long", what, Spot(graph.source.name), next_)
    if recording.steps > MOST_STEPS:
        what = f"{recording.path} records {recording.steps} steps, beyond {MOST_STEPS}"
        raise refuse("recording-too-long", what, Spot(graph.source.name), f"ask for at most {MOST_STEPS} steps")


def _table_of(graph: Graph, name: str) -> Value | None:
    """The table of fewest rows that a leaf's first value is a row of."""
    tables = [node.operands[node.op.table(hole)] for node, hole in graph.readers(name) if hole in node.op.indexes]
    return min((table for table in tables if isinstance(table, Value)), key=lambda table: table.rows, default=None)


def fed_ids(graph: Graph, steps: int) -> dict[str, Array]:
    """What `tok` and `pos` are fed, by name, (steps, 1, 1): ids that look like chance and lie in tok's table, and the
    steps' numbers. Empty where the program takes no tokens."""
    taken = token_inputs(graph)
    table = _table_of(graph, "tok")
    ids = (splitmix64("tok", steps) % np.uint64(table.rows if table else 1)).astype(np.int64)
    numbers = {"tok": ids, "pos": np.arange(steps, dtype=np.int64)}
    return {name: numbers[name].reshape(-1, 1, 1) for name in taken}


def recorded_recipe(binding: Binding, recording: Recording) -> dict[str, object]:
    """What decides a recording beside the contents of the files that weights are read from; JSON can hold it."""
    record = {"path": recording.path, "steps": recording.steps, "outputs": list(recording.outputs)}
    weights = recipe_record(binding, all_weights(binding, "raw"))
    return {"recording": record, "program": binding.graph.source.text, "weights": weights}


def write_recording(
    binding: Binding, recording: Recording, folder: Path, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Writes a recording below `folder` and returns its path; `progress` hears of (steps done, steps in all).

    The steps that a killed or interrupted run finished are taken over where their sources are the same still. Refused:
    what the reference machine refuses; a NaN that it makes (`recording-nan`); a disk that does not take the file
    (`unwritable-file`).
    """
    path = folder / recording.path
    weights = recipe_digest(binding, all_weights(binding, "raw"), None)
    recipe = json.dumps([recorded_recipe(binding, recording), weights])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with workplace(path.parent, path.name, recipe) as work:
            run = _Run(binding, recording, work)
            run.carry_out(progress)
            made = work.folder / path.name
            with open(made, "wb") as file:
                file.write(run.head())
                for array in run.arrays.values():
                    file.write(array.astype(array.dtype.newbyteorder("<")).tobytes())
            os.replace(made, path)
    except OSError as error:
        raise unwritable(path, error) from error
    return path


class _Run:
    """The run behind one recording; `arrays` are the file's, by key, once it is carried out."""

    def __init__(self, binding: Binding, recording: Recording, work: Workplace) -> None:
        self.binding, self.recording, self.work = binding, recording, work
        self.graph = binding.graph
        self.fed = fed_ids(self.graph, recording.steps)
        states = {} if self.fed else _noise(self.graph)
        self.first = states
        self.states = {
            leaf.name: states[leaf.name] if leaf.name in states else initial(leaf.value, leaf.fills)
            for leaf in self.graph.states
        }
        self.names = compared(self.graph, recording.outputs)
        self.outputs = [name for name in self.names if name not in self.states]
        self.stages = [name for name in self.graph.made if name not in self.names]
        self.arrays: dict[str, Array] = {}

    def carry_out(self, progress: Callable[[int, int], None] | None) -> None:
        """Makes the steps that no earlier run has made."""
        total = self.recording.steps
        values = run_values(self.binding, self.first, "noise", self.fed)
        self._add_given(values)
        parts: list[Mapping[str, Array]] = []
        machine: Machine | None = None
        for step in range(total):
            part = self._finished(step) if machine is None else None
            if part is None:
                machine = machine or Machine(self.graph, {**values, **self.states})
                part = self._made(machine, step)
                self._keep(step, part)
            for name in self.states:
                self.states[name] = _written(self.states[name], part[f"rows.{name}"], part[f"written.{name}"])
            parts.append(part)
            if progress is not None:
                progress(step + 1, total)
        self._gather(parts)

    def _add_given(self, values: Mapping[str, Array]) -> None:
        """What the run was given and no weight file holds: inputs, first states, weights of noise."""
        self.arrays.update((f"input.{name}", array) for name, array in self.fed.items())
        for bound in self.binding.leaves:
            name = bound.name
            if bound.role is Role.INPUT and name not in self.fed:
                self.arrays[f"input.{name}"] = values[name][None]
            elif name in self.first:
                self.arrays[f"state.{name}"] = self.first[name]
            elif name in values and leaf_values(self.binding, bound) is None:
                self.arrays[f"weight.{name}"] = values[name]

    def _made(self, machine: Machine, step: int) -> dict[str, Array]:
        """One step's arrays: the outputs; of a state the rows that changed; of the first step every value."""
        before = dict(machine.states)
        now = machine.step({name: array[step] for name, array in self.fed.items()})
        self._check_numbers(now, step)
        taps = self.graph.taps
        part = {f"expected.{name}": now[taps[name]] for name in self.outputs}
        for name, old in before.items():
            new = machine.states[name]
            rows = np.flatnonzero(~(new == old).all(axis=1))
            part |= {f"rows.{name}": rows.astype(np.int64), f"written.{name}": new[rows]}
        if step == 0:
            part |= {f"stage.{name}": now[taps[name]] for name in self.stages}
        return part

    def _check_numbers(self, now: Mapping[Value, Array], step: int) -> None:
        for node in self.graph.nodes:
            for value in node.results:
                if value.real and np.isnan(now[value]).any():
                    what = f"{value.name} holds a NaN at step {step} of the reference machine: no run agrees with it"
                    next_ = "look at the weights and at what the sentence reads: `logos run --get` shows them"
                    raise refuse("recording-nan", what, node.span, next_)

    def _finished(self, step: int) -> Mapping[str, Array] | None:
        """A step as an earlier run left it."""
        path = self.work.folder / f"{step}.npz"
        done = self.work.finished.get(str(step), ())
        try:
            with open(path, "rb") as file:
                if not done or not holds(file, done[0]):
                    return None
            with np.load(path, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except OSError:
            return None

    def _keep(self, step: int, part: Mapping[str, Array]) -> None:
        path = self.work.folder / f"{step}.npz"
        with open(path, "wb") as file:
            np.savez(file, **dict(part))  # type: ignore[arg-type]
        digest = Digest()
        digest.update(memoryview(path.read_bytes()))
        self.work.record(str(step), digest.part())

    def _gather(self, parts: Sequence[Mapping[str, Array]]) -> None:
        """The steps' arrays as the file holds them."""
        for name in self.outputs:
            self.arrays[f"expected.{name}"] = np.stack([part[f"expected.{name}"] for part in parts])
        for name in self.states:
            rows = [part[f"rows.{name}"] for part in parts]
            steps = np.repeat(np.arange(len(parts), dtype=np.int64), [len(found) for found in rows])
            self.arrays[f"rows.{name}"] = np.stack([steps, np.concatenate(rows)], axis=1)
            self.arrays[f"written.{name}"] = np.concatenate([part[f"written.{name}"] for part in parts])
        self.arrays.update((key, array) for key, array in parts[0].items() if key.startswith("stage."))

    def head(self) -> bytes:
        entries = [(key, _DTYPES[array.dtype.kind], array.shape) for key, array in self.arrays.items()]
        return header(entries, (), {METADATA: json.dumps(self.said(), ensure_ascii=True)})

    def said(self) -> dict[str, object]:
        """The file's account of itself."""
        graph = self.graph
        nodes = [(name, graph.producer(graph.taps[name])) for name in graph.made]
        return {
            "version": 1,
            "steps": self.recording.steps,
            "compared": list(self.names),
            "bounds": {dtype: bound_of(graph, dtype) for dtype in _HELD_TO},
            "choices": {name: operand for name in self.outputs if (operand := operand_of(graph, name))},
            "order": [[name, node.op.name, node.line] for name, node in nodes if node is not None],
        }


def _noise(graph: Graph) -> dict[str, Array]:
    return {leaf.name: fill(graph, leaf, "noise") for leaf in graph.states if not leaf.fills}


def _written(state: Array, rows: Array, values: Array) -> Array:
    new = state.copy()
    new[rows] = values
    return new
