"""Running an emitted program on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from logos import Inputs, Job, Place, Refused, Spot, refuse
from logos_cpu.building import executable

_REFUSED = 1
_AT_ONCE = 1000
"""Names or ids in one argument: the system takes no argument beyond 128 KiB."""

_MESSAGE = re.compile(r".*:(\d+):(\d+): (.*) \[([a-z0-9-]+)\]$")


def run_program(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: what the program itself refuses, at its sentence; one that ends otherwise (`cpu-failed`); what finding and
    running a compiler refuses.
    """
    program = executable(inputs.artifact / f"{job.options.kind}.cpp", job.options)
    with tempfile.TemporaryDirectory(prefix="logos-cpu-") as scratch:
        command = [str(program), *_arguments(job, inputs, Path(scratch))]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=_environment())
        if done.returncode:
            raise _failed(job, inputs, done)
        inputs.say(done.stderr.strip())
        return {name: np.load(Path(scratch) / "out" / f"{place}.npy") for place, name in enumerate(inputs.taps)}


def generate_ids(job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
    """The ids that a program of kind generate says, as they come; ends the program where nobody takes the next.
    Refused as by `run_program`."""
    program = executable(inputs.artifact / "generate.cpp", job.options, inputs.say)
    _lay(program, inputs.artifact / "weights", inputs.say)
    with tempfile.TemporaryDirectory(prefix="logos-cpu-") as scratch:
        ids, said = Path(scratch) / "ids", Path(scratch) / "said"
        ids.write_text(",".join(map(str, inputs.tokens)), encoding="ascii")
        given = [*_values(inputs, Path(scratch)), *_machine(job), "--prompt-ids", f"@{ids}", "--lines"]
        given += ["-n", str(inputs.generate), *(["--stop", ",".join(map(str, sorted(stop)))] if stop else ())]
        with said.open("wb") as messages, _started([str(program), *given], messages) as process:
            assert process.stdout is not None
            yield from map(int, process.stdout)
            code = process.wait()
        words = said.read_text("utf-8", "replace")
    if code:
        raise _failed(job, inputs, subprocess.CompletedProcess((), code, "", words))
    for line in words.splitlines():
        inputs.say(line)


def _lay(program: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Writes the weights in tiles beside what was extracted, once; where that cannot be, each run makes them."""
    laid = folder / ".laid"
    if laid.exists() or not any(folder.glob("*.q")):
        return
    say("laying out the weights for the processor")
    done = subprocess.run([program, "--lay", folder], stderr=subprocess.DEVNULL, env=_environment())
    if done.returncode == 0:
        with suppress(OSError):
            laid.touch()


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
    # What a program holds when it ends is no leak that a sanitizer is to tell.
    return {"ASAN_OPTIONS": "detect_leaks=0", **os.environ}


def _machine(job: Job) -> Iterator[str]:
    if job.options.threads:
        yield from ("-t", str(job.options.threads))
    if job.options.level != "auto":
        yield from ("--level", job.options.level)
    yield "--tell"


def _arguments(job: Job, inputs: Inputs, scratch: Path) -> Iterator[str]:
    yield from _values(inputs, scratch)
    yield from _machine(job)
    yield from _shown(inputs)
    yield from ("--dump", str(scratch / "out"), "--numbered")  # a name may be too long for a file's


def _values(inputs: Inputs, scratch: Path) -> Iterator[str]:
    for folder in (inputs.artifact / "weights", inputs.weights):
        if folder.is_dir():
            yield from ("--weights", str(folder))
    for number, (name, array) in enumerate(inputs.arrays.items()):
        path = scratch / f"{number}.raw"
        with np.errstate(over="ignore"):  # beyond float32 it is an infinity, as on any processor
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
        f"`{shlex.join(['logos', 'build', program, '--target', 'cpu'])} --out DIR` with the options given here, then "
        f"`DIR/{kind} {shlex.join(_shown(inputs))}`"
    )
    next_ = f"it ended with exit code {done.returncode}; to run it by hand, {by_hand}"
    return refuse("cpu-failed", "\n".join(lines), Spot(f"{kind}.cpp of {program}"), next_)


def _place(job: Job, line: int, column: int) -> Place:
    """The sentence that a message of the program points at."""
    spans: Sequence[Place] = [node.span for node in job.graph.nodes if (node.line, node.span.column) == (line, column)]
    return spans[0] if spans else Spot(f"{job.graph.source.name}:{line}:{column}")
