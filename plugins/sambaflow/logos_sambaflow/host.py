"""Running an emitted module on this host, in a process of its own."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos import Inputs, Job, Refused, Spot, refuse


def run_module(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: no torch in this Python (`torch-missing`); a module that ended with an error, whose words it says
    (`module-failed`).
    """
    if importlib.util.find_spec("torch") is None:
        what = "running the module takes torch, which this Python does not have"
        raise refuse("torch-missing", what, None, "pip install logos-build[torch]")
    with tempfile.TemporaryDirectory(prefix="logos-sambaflow-") as scratch:
        command = _command(inputs, Path(scratch))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise _failed(inputs, command, done)
        shapes = job.graph.newest()
        found = {}
        for name in inputs.taps:
            array = np.load(Path(scratch) / "out" / f"{name}.npy")
            found[name] = array.reshape(len(array), *shapes[name].shape)
    return found


def _command(inputs: Inputs, scratch: Path) -> list[str]:
    command = [sys.executable, "-I", str(inputs.artifact / "model.py"), "--weights", str(inputs.weights)]
    command += ["--dtype", inputs.dtype, "--get", ",".join(inputs.taps), "--npy", str(scratch / "out")]
    for number, (name, array) in enumerate(inputs.arrays.items()):
        path = scratch / f"{number}.npy"
        np.save(path, array)
        command += ["--set", f"{name}=@{path}"]
    if len(inputs.tokens):
        command += ["--tokens", ",".join(str(token) for token in inputs.tokens)]
    return command


def _failed(inputs: Inputs, command: list[str], done: subprocess.CompletedProcess[str]) -> Refused:
    lines = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode} and said nothing"]
    # A traceback says its error last; the module's own messages are one line.
    what = lines[-1] if lines[0].startswith("Traceback") else "\n".join(lines)
    next_ = f"exit code {done.returncode}; the command: {shlex.join(command[:5])} …"
    return refuse("module-failed", what, Spot(str(inputs.artifact / "model.py")), next_)
