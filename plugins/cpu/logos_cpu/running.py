"""Running an emitted program on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from logos import EmittedProgram, Inputs, Job
from logos_cpu.building import executable


def run_program(job: Job, inputs: Inputs) -> Mapping[str, NDArray[Any]]:
    """Each tap over all steps, (steps, rows, columns).

    Refused: what the program itself refuses, at its sentence; one that ends otherwise (`cpu-failed`); what finding and
    running a compiler refuses.
    """
    source = f"{job.options.kind}.cpp"
    found, done = _program(job, source, executable(inputs.artifact / source, job.options)).run(inputs)
    inputs.say(done.stderr.strip())
    return found


def generate_ids(job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
    """The ids that a program of kind generate says, as they come; ends the program where nobody takes the next.
    Refused as by `run_program`."""
    program = _program(job, "generate.cpp", executable(inputs.artifact / "generate.cpp", job.options, inputs.say))
    _lay(program, inputs.artifact / "weights", inputs.say)
    yield from program.generate(inputs, stop)


def _program(job: Job, source: str, path: Path) -> EmittedProgram:
    machine = ["--tell"]
    if job.options.threads:
        machine += ["-t", str(job.options.threads)]
    if job.options.level != "auto":
        machine += ["--level", job.options.level]
    return EmittedProgram(path, job, "cpu", source, machine)


def _lay(program: EmittedProgram, folder: Path, say: Callable[[str], None]) -> None:
    """Writes the weights in tiles beside what was extracted, once; where that cannot be, each run makes them."""
    laid = folder / ".laid"
    if laid.exists() or not any(folder.glob("*.q")):
        return
    say("laying out the weights for the processor")
    done = subprocess.run([program.executable, "--lay", folder], stderr=subprocess.DEVNULL, env=program.environ())
    if done.returncode == 0:
        with suppress(OSError):
            laid.touch()
