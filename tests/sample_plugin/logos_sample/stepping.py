"""`python stepping.py REQUEST`: makes the steps of a model, with its states carried and its rows checked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ValueInfoProto, parser

from logos import row_outside

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


def main(request_file: str) -> None:
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    kept: dict[str, list[Any]] = {name: [] for name in request["taps"]}
    for made in steps(request):
        for name, found in kept.items():
            found.append(made[name])
    stacked: dict[str, Any] = {name: np.stack(found) for name, found in kept.items()}
    np.savez(request["found"], **stacked)


def session(request: Any, wanted: list[str], stored: dict[str, Any]) -> onnxruntime.InferenceSession:
    """The model, made to return what is wanted too."""
    model = parser.parse_model(Path(request["artifact"], "model.onnxtxt").read_text(encoding="utf-8"))
    returned = {output.name for output in model.graph.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in wanted if name not in returned)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in stored.values()]
    options.add_external_initializers(list(stored), values)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def read(path: str, shape: list[int]) -> Any:
    """A raw file's values, as the model has them."""
    array = np.fromfile(path, {".f32": "<f4", ".f64": "<f8", ".i64": "<i8"}[path[-4:]]).reshape(shape)
    return array if array.dtype.kind == "i" else array.astype(np.float32)


def steps(request: Any) -> Iterator[dict[str, Any]]:
    """What each step makes, by name: one step without tokens; with them one for each, and those that generate."""
    tokens, output, states = request["tokens"], request["output"], request["states"]
    wanted = list(dict.fromkeys([*request["taps"], output, *states.values()]))
    stored = {name: read(*file) for name, file in request["files"].items()}
    running = session(request, wanted, stored)
    with np.load(request["arrays"]) as arrays:
        feeds = {one.name: arrays[one.name].astype(TYPES[one.type]).reshape(one.shape) for one in running.get_inputs()}
    made: dict[str, Any] = {}
    for step in range(len(tokens) + max(request["generate"] - 1, 0) if tokens else 1):
        if tokens:
            token = tokens[step] if step < len(tokens) else int(made[output][0, 0])
            for name, number in (("v0_tok", token), ("v0_pos", step)):
                if name in feeds:
                    feeds[name] = np.full((1, 1), number, np.int64)
        for name, variable, table, rows in request["rows"]:
            row = int({**stored, **feeds}[name][0, 0])
            if not 0 <= row < rows:
                sys.exit(row_outside(variable, row, rows, table))
        made = dict(zip(wanted, running.run(wanted, feeds), strict=True))
        feeds |= {before: made[after] for before, after in states.items()}
        yield made


if __name__ == "__main__":
    main(sys.argv[1])
