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

_NAMES_AT_ONCE = 1000
"""Names in one argument: the system takes none beyond 128 KiB."""


def run_module(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: no torch in this Python (`torch-missing`); a module that ended with an error, whose words it says
    (`module-failed`).
    """
    if importlib.util.find_spec("torch") is None:
        what = "running the module takes torch, which this Python does not have"
        raise refuse("torch-missing", what, None, "pip install logos-build[torch]")
    with tempfile.TemporaryDirectory(prefix="logos-sambaflow-") as scratch:
        command = _command(job, inputs, Path(scratch))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise _failed(job, inputs, done)
        found = {}
        for name in inputs.taps:
            # Mapped: the arrays of all steps need not fit into memory, and outlive the folder.
            array = np.load(Path(scratch) / "out" / f"{name}.npy", mmap_mode="r")
            found[name] = array.reshape(len(array), *job.graph.taps[name].shape)
    return found


def _command(job: Job, inputs: Inputs, scratch: Path) -> list[str]:
    command = [sys.executable, "-I", str(inputs.artifact / "model.py"), "--weights", str(inputs.weights)]
    command += [*_shown(inputs, bool(job.options.prefill)), "--npy", str(scratch / "out")]
    for number, (name, array) in enumerate(inputs.arrays.items()):
        path = scratch / f"{number}.npy"
        np.save(path, array)
        command += ["--set", f"{name}=@{path}"]
    return command


def _shown(inputs: Inputs, prefill: bool) -> list[str]:
    """The arguments that say the same in every folder."""
    arguments = ["--dtype", inputs.dtype]
    for first in range(0, len(inputs.taps), _NAMES_AT_ONCE):
        arguments += ["--get", ",".join(inputs.taps[first : first + _NAMES_AT_ONCE])]
    if prefill and len(inputs.tokens):
        arguments += ["--prefill"]
    if not inputs.checks:
        arguments += ["--no-checks"]
    if len(inputs.tokens):
        arguments += ["--tokens", ",".join(str(token) for token in inputs.tokens)]
    return arguments


def _failed(job: Job, inputs: Inputs, done: subprocess.CompletedProcess[str]) -> Refused:
    lines = done.stderr.strip().splitlines() or ["it said nothing"]
    # A traceback says its error last; the module's own messages are one line.
    what = lines[-1] if lines[0].startswith("Traceback") else "\n".join(lines)
    # The artifact and the arrays lie in folders that may be gone when this is read.
    program = job.graph.source.name
    by_hand = (
        f"`{shlex.join(['logos', 'build', program, '--target', 'rdu-sambaflow'])} --out DIR` with the options given "
        f"here, then `python -I DIR/model.py {shlex.join(_shown(inputs, bool(job.options.prefill)))}`"
    )
    next_ = f"it ended with exit code {done.returncode}; to run it by hand, {by_hand}"
    return refuse("module-failed", what, Spot(f"model.py of {program}"), next_)
