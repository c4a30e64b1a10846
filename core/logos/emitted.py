"""Running a program that a target emitted: the command line of LOGOS's drivers, and what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from logos.refusal import Refused, refuse
from logos.source import Place, Spot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.hookspecs import Inputs, Job

_REFUSED = 1
_AT_ONCE = 1000
"""Names or ids in one argument: the system takes no argument beyond 128 KiB."""

_MESSAGE = re.compile(r".*:(\d+):(\d+): (.*) \[([a-z0-9-]+)\]$")


@dataclass(frozen=True)
class EmittedProgram:
    """An executable that takes the command line of LOGOS's drivers (docs/cuda.md, Running it).

    `target` made it of `source`, a file of the artifact; `machine` are arguments that say how to run, `environment`
    what it starts with where the caller's says nothing else.
    """

    executable: Path
    job: Job
    target: str
    source: str
    machine: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, inputs: Inputs) -> tuple[Mapping[str, NDArray[Any]], subprocess.CompletedProcess[str]]:
        """Each tap over all steps, (steps, rows, columns), and what the program printed.

        Refused: what the program itself refuses, at its sentence; one that ends otherwise (`TARGET-failed`).
        """
        with self._scratch() as scratch:
            command = [str(self.executable), *self._values(inputs, scratch), *self.machine, *_shown(inputs)]
            command += ["--dump", str(scratch / "out"), "--numbered"]  # a name may be too long for a file's
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=self.environ())
            if done.returncode:
                raise self._failed(inputs, done.returncode, done.stderr)
            return {name: np.load(scratch / "out" / f"{place}.npy") for place, name in enumerate(inputs.taps)}, done

    def generate(self, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
        """The ids that a program of kind generate says, as they come; ends the program where nobody takes the next.
        Refused as by `run`."""
        with self._scratch() as scratch:
            ids, said = scratch / "ids", scratch / "said"
            ids.write_text(",".join(map(str, inputs.tokens)), encoding="ascii")
            command = [str(self.executable), *self._values(inputs, scratch), *self.machine]
            command += ["--prompt-ids", f"@{ids}", "-n", str(inputs.generate), "--lines"]
            command += ["--stop", ",".join(map(str, sorted(stop)))] if stop else []
            with said.open("wb") as messages, self._process(command, messages) as process:
                assert process.stdout is not None
                yield from map(int, process.stdout)
                code = process.wait()
            words = said.read_text("utf-8", "replace")
        if code:
            raise self._failed(inputs, code, words)
        for line in words.splitlines():
            inputs.say(line)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix=f"logos-{self.target}-") as scratch:
            yield Path(scratch)

    def environ(self) -> dict[str, str]:
        """The environment that it starts in."""
        # What a program holds when it ends is no leak that a sanitizer is to tell.
        return {"ASAN_OPTIONS": "detect_leaks=0", **self.environment, **os.environ}

    @contextmanager
    def _process(self, command: Sequence[str], messages: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """A program that does not outlive what it was started for."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, env=self.environ())
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _values(self, inputs: Inputs, scratch: Path) -> Iterator[str]:
        for folder in (inputs.artifact / "weights", inputs.weights):
            if folder.is_dir():
                yield from ("--weights", str(folder))
        for number, (name, array) in enumerate(inputs.arrays.items()):
            path = scratch / f"{number}.raw"
            with np.errstate(over="ignore"):  # beyond float32 it is an infinity, as on any device
                array.astype("<f4" if array.dtype.kind == "f" else "<i8").tofile(path)
            yield from ("--set", f"{name}={path}")

    def _failed(self, inputs: Inputs, code: int, words: str) -> Refused:
        lines = words.strip().splitlines() or ["it said nothing"]
        message = next(filter(None, map(_MESSAGE.fullmatch, lines)), None)
        if code == _REFUSED and message is not None:
            line, column, what, name = message.groups()
            return refuse(name, what, self._place(int(line), int(column)), lines[-1].removeprefix("  next: "))
        # The artifact and the arrays lie in folders that may be gone when this is read.
        program, kind = self.job.graph.source.name, Path(self.source).stem
        by_hand = (
            f"`{shlex.join(['logos', 'build', program, '--target', self.target])} --out DIR` with the options given "
            f"here, then `DIR/{kind} {shlex.join(_shown(inputs))}`"
        )
        next_ = f"it ended with exit code {code}; to run it by hand, {by_hand}"
        return refuse(f"{self.target}-failed", "\n".join(lines), Spot(f"{self.source} of {program}"), next_)

    def _place(self, line: int, column: int) -> Place:
        """The sentence that a message of the program points at."""
        graph = self.job.graph
        spans: Sequence[Place] = [node.span for node in graph.nodes if (node.line, node.span.column) == (line, column)]
        return spans[0] if spans else Spot(f"{graph.source.name}:{line}:{column}")


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
