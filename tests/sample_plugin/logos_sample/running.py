"""Running an artifact: what the process of its own is asked, and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from logos import Bound, Inputs, Job, Leaf, Spot, Value, refuse
from logos_sample.emit import STORED, stored, weight_path, written
from logos_sample.spelling import value_name


def run_model(job: Job, inputs: Inputs) -> Mapping[str, Any]:
    """Each tap over all steps, (steps, rows, columns). Refused: what the run says went wrong (`onnx-run-failed`)."""
    taps = {tap: value_name(job.graph.taps[tap]) for tap in inputs.taps}
    with tempfile.TemporaryDirectory(prefix="logos-onnx-") as folder:
        arrays, request, found = (os.path.join(folder, name) for name in ("arrays.npz", "request.json", "found.npz"))
        # By the model's names: a variable may be called `file`, which is an argument of savez.
        values = {value_name(leaf.value): start(leaf, inputs) for leaf in job.graph.leaves if is_fed(job, leaf)}
        np.savez(arrays, **values)
        with open(request, "w", encoding="utf-8") as file:
            json.dump({**asked(job, inputs), "arrays": arrays, "found": found, "taps": list(taps.values())}, file)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stepping.py")
        ran = subprocess.run([sys.executable, script, request], capture_output=True, text=True, check=False)
        if ran.returncode:
            lines = ran.stderr.strip().splitlines() or ["it said nothing"]
            where = Spot(f"model.onnxtxt of {job.graph.source.name}")
            raise refuse("onnx-run-failed", lines[-1], where, "see whether onnxruntime is installed and runs the model")
        with np.load(found) as made:
            return {tap: made[name] for tap, name in taps.items()}


def is_fed(job: Job, leaf: Leaf) -> bool:
    return job.binding[leaf.name].role not in STORED


def start(leaf: Leaf, inputs: Inputs) -> Any:
    """What an input is, or where a state starts: what was given, else the program's fills, else zero."""
    if leaf.name in inputs.arrays:
        return inputs.arrays[leaf.name]
    array = np.zeros(leaf.value.size)
    for place, number in leaf.fills:
        array[place] = number
    return array


def asked(job: Job, inputs: Inputs) -> dict[str, Any]:
    """What to run, as JSON has it: names are the model's own."""
    before = [leaf.value for leaf in job.graph.states]
    return {
        "artifact": os.fspath(inputs.artifact),
        "tokens": [int(token) for token in inputs.tokens],
        "generate": inputs.generate,
        "output": value_name(job.graph.output),
        "states": {value_name(one): value_name(after) for one, after in zip(before, written(job), strict=True)},
        "rows": [[value_name(row), row.name, table.name, table.rows] for row, table in checked_rows(job)],
        "files": {value_name(one.leaf.value): [file_of(one, inputs), one.leaf.value.shape] for one in stored(job)},
    }


def file_of(bound: Bound, inputs: Inputs) -> str:
    """The file of a weight. What no source supplies lies loose beside the artifact, as float64 or int64."""
    path = inputs.weights / weight_path(bound)
    loose = inputs.weights / f"{bound.name}.{'f64' if bound.leaf.value.real else 'i64'}"
    return os.fspath(path if path.exists() else loose)


def checked_rows(job: Job) -> list[tuple[Value, Value]]:
    """Each row number that is no literal, with its table."""
    found = {}
    for node in job.graph.nodes:
        for hole in node.op.indexes:
            row, table = node.operands[hole], node.operands[node.op.table(hole)]
            if isinstance(row, Value) and isinstance(table, Value):
                found[row, table.name] = table
    return [(row, table) for (row, _), table in found.items()]
