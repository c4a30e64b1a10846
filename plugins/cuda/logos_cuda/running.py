"""Running an emitted program on this machine: on a GPU where there is one, else on the host."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos import EmittedProgram, Inputs, Job, Refused, Spot, refuse
from logos_cuda.compiling import no_gpu
from logos_cuda.executables import gpu_executable, host_executable
from logos_cuda.gpu import find_gpu
from logos_cuda.toolkit import find_toolkit

_ENVIRONMENT = {"LOGOS_HOST_POISON": "1"}
"""On the host, memory that no kernel has written holds no number, and shows."""


def run_program(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: what the program itself refuses, at its sentence; one that ends otherwise (`cuda-failed`); `no-gpu`, and
    what finding and running a compiler refuses.
    """
    found, done = _program(job, inputs, f"{job.options.kind}.cu").run(inputs)
    if job.options.kind == "op":
        _check_sum(job, found, done.stdout)
    if job.options.kind == "forward" and job.options.prefill is not None and inputs.tokens:
        inputs.say(_chunks(len(inputs.tokens), job.options.prefill))
    return found


def _chunks(given: int, steps: int) -> str:
    """How many tokens went many at once."""
    chunks, rest = divmod(given, steps)
    return f"of {given} tokens {chunks * steps} in chunks of {steps}, {rest} one by one"


def generate_ids(job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
    """The ids that a program of kind generate says, as they come; ends the program where nobody takes the next.
    Refused as by `run_program`."""
    yield from _program(job, inputs, "generate.cu").generate(inputs, stop)


def _program(job: Job, inputs: Inputs, source: str) -> EmittedProgram:
    path = _executable(job, inputs, inputs.artifact / source)
    return EmittedProgram(path, job, "cuda", source, environment=_ENVIRONMENT)


def _executable(job: Job, inputs: Inputs, source: Path) -> Path:
    """The program, built for what it runs on, of which it tells."""
    gpu = find_gpu() if job.options.device != "host" else None
    if gpu is None and job.options.device == "gpu":
        raise Refused([no_gpu("device gpu asks for this machine's GPU, and it has none")])
    if gpu is not None and (job.options.device == "gpu" or _has_toolkit()):
        inputs.say(f"running on {gpu.name} ({gpu.arch})")
        return gpu_executable(source, gpu.arch, job.options)
    why = "there is no GPU here" if gpu is None else f"there is no CUDA toolkit here for the {gpu.name}"
    inputs.say(f"{why}: running the same text on the host's processor")
    return host_executable(source)


def _has_toolkit() -> bool:
    try:
        find_toolkit()
    except Refused:
        return False
    return True


def _check_sum(job: Job, found: Mapping[str, NDArray[Any]], printed: str) -> None:
    """The checksum that a program of kind op printed, computed again from its output, where that was read out."""
    output = job.graph.output
    if output.name not in found:
        return
    last = found[output.name][-1].reshape(-1)
    if not output.real:
        due = str(np.add.reduce(last, dtype=np.int64))
        same = due == printed.strip()
    else:
        due = repr(float(np.cumsum(last, dtype=np.float64)[-1]))
        same = np.array_equal(float(printed), float(due), equal_nan=True)
    if not same:
        what = f"the program printed the checksum {printed.strip()}; the sum of its output is {due}"
        raise refuse("checksum-differs", what, Spot(f"op.cu of {job.graph.source.name}"), "tell LOGOS's authors")
