"""Running an emitted program on this machine: on a GPU where there is one, else on the host."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from logos import Inputs, Job, Place, Refused, Spot, refuse
from logos_cuda.compiling import no_gpu
from logos_cuda.executables import gpu_executable, host_executable
from logos_cuda.gpu import find_gpu
from logos_cuda.toolkit import find_toolkit

_REFUSED = 1
_AT_ONCE = 1000
"""Names or ids in one argument: the system takes no argument beyond 128 KiB."""

_MESSAGE = re.compile(r".*:(\d+):(\d+): (.*) \[([a-z0-9-]+)\]$")


def run_program(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: what the program itself refuses, at its sentence; one that ends otherwise (`cuda-failed`); `no-gpu`, and
    what finding and running a compiler refuses.
    """
    source = inputs.artifact / f"{job.options.kind}.cu"
    executable = _executable(job, inputs, source)
    with tempfile.TemporaryDirectory(prefix="logos-cuda-") as scratch:
        command = [str(executable), *_arguments(inputs, Path(scratch))]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=_environment())
        if done.returncode:
            raise _failed(job, inputs, done)
        found = {name: np.load(Path(scratch) / "out" / f"{place}.npy") for place, name in enumerate(inputs.taps)}
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
    executable = _executable(job, inputs, inputs.artifact / "generate.cu")
    with tempfile.TemporaryDirectory(prefix="logos-cuda-") as scratch:
        ids, said = Path(scratch) / "ids", Path(scratch) / "said"
        ids.write_text(",".join(map(str, inputs.tokens)), encoding="ascii")
        given = [*_values(inputs, Path(scratch)), "--prompt-ids", f"@{ids}", "-n", str(inputs.generate), "--lines"]
        if stop:
            given += ["--stop", ",".join(map(str, sorted(stop)))]
        with said.open("wb") as messages, _started([str(executable), *given], messages) as process:
            assert process.stdout is not None
            yield from map(int, process.stdout)
            code = process.wait()
        words = said.read_text("utf-8", "replace")
    if code:
        raise _failed(job, inputs, subprocess.CompletedProcess((), code, "", words))
    for line in words.splitlines():
        inputs.say(line)


@contextmanager
def _started(command: Sequence[str], messages: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that does not outlive what it was started for."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, env=_environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _environment() -> dict[str, str]:
    # On the host, memory that no kernel has written holds no number, and shows; what a program holds when it ends is
    # no leak that a sanitizer is to tell.
    return {"LOGOS_HOST_POISON": "1", "ASAN_OPTIONS": "detect_leaks=0", **os.environ}


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


def _arguments(inputs: Inputs, scratch: Path) -> Iterator[str]:
    yield from _values(inputs, scratch)
    yield from _shown(inputs)
    yield from ("--dump", str(scratch / "out"), "--numbered")  # a name may be too long for a file's


def _values(inputs: Inputs, scratch: Path) -> Iterator[str]:
    for folder in (inputs.artifact / "weights", inputs.weights):
        if folder.is_dir():
            yield from ("--weights", str(folder))
    for number, (name, array) in enumerate(inputs.arrays.items()):
        path = scratch / f"{number}.raw"
        with np.errstate(over="ignore"):  # beyond float32 it is an infinity, as on any device
            array.astype("<f4" if array.dtype.kind == "f" else "<i8").tofile(path)
        yield from ("--set", f"{name}={path}")


def _shown(inputs: Inputs) -> Iterator[str]:
    """The arguments that say the same in every folder."""
    for first in range(0, len(inputs.tokens), _AT_ONCE):
        yield from ("--tokens", ",".join(map(str, inputs.tokens[first : first + _AT_ONCE])))
    if inputs.generate:
        yield from ("--generate", str(inputs.generate))
    if not inputs.checks:
        yield "--unchecked"
    for first in range(0, len(inputs.taps), _AT_ONCE):
        yield from ("--get", ",".join(inputs.taps[first : first + _AT_ONCE]))


def _failed(job: Job, inputs: Inputs, done: subprocess.CompletedProcess[str]) -> Refused:
    lines = done.stderr.strip().splitlines() or ["it said nothing"]
    refused = [place for place, line in enumerate(lines) if _MESSAGE.fullmatch(line)]
    message = _MESSAGE.fullmatch(lines[refused[0]]) if refused else None
    if done.returncode == _REFUSED and message is not None:
        line, column, what, code = message.groups()
        return refuse(code, what, _place(job, int(line), int(column)), lines[-1].removeprefix("  next: "))
    # The artifact and the arrays lie in folders that may be gone when this is read.
    program, kind = job.graph.source.name, job.options.kind
    by_hand = (
        f"`{shlex.join(['logos', 'build', program, '--target', 'cuda'])} --out DIR` with the options given here, then "
        f"`DIR/{kind} {shlex.join(_shown(inputs))}`"
    )
    next_ = f"it ended with exit code {done.returncode}; to run it by hand, {by_hand}"
    return refuse("cuda-failed", "\n".join(lines), Spot(f"{kind}.cu of {program}"), next_)


def _place(job: Job, line: int, column: int) -> Place:
    """The sentence that a message of the program points at."""
    spans: Sequence[Place] = [node.span for node in job.graph.nodes if (node.line, node.span.column) == (line, column)]
    return spans[0] if spans else Spot(f"{job.graph.source.name}:{line}:{column}")


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
