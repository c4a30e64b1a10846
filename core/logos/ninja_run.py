"""Running ninja, and reading what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from logos.lock import HELD
from logos.refusal import refuse
from logos.source import Spot

PROGRESS_TERMINAL = "LOGOS_PROGRESS_TERMINAL"
"""The environment variable by which a step that ninja started finds the terminal to show its progress on."""

_INTERRUPTED = 130
_MARK = "\x1f"
_STATUS = re.compile(rf"{_MARK}(\d+)/(\d+) (.*)")
_FAILED = re.compile(r"FAILED: \[code=(\d+)\] ")


@dataclass(frozen=True, slots=True)
class Progress:
    """A step that ended: steps done, of how many, its title."""

    done: int
    total: int
    title: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A step whose command failed: its exit code, the command to run by hand, and all that it printed."""

    title: str
    code: int
    command: str
    output: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of ninja came to. `steps` are the titles of what ran; `code` is ninja's own exit code."""

    code: int
    steps: tuple[str, ...]
    failures: tuple[Failure, ...]
    rest: str
    """What ninja printed beside its steps: its own complaint, when it has one."""


def find_ninja() -> str:
    """The ninja of the PyPI package, else the one on PATH. Refused: none (`no-ninja`)."""
    try:
        from ninja import BIN_DIR
    except ImportError:
        found = None
    else:
        found = shutil.which("ninja", path=BIN_DIR)
    found = found or shutil.which("ninja")
    if found is None:
        raise refuse("no-ninja", "ninja is not installed", Spot("ninja"), "install it: pip install ninja")
    return found


def _unheard(title: str) -> None:
    return


def run_ninja(
    folder: Path,
    listener: Callable[[Progress], None],
    options: Sequence[str] = (),
    lock: int | None = None,
    failed: Callable[[str], None] = _unheard,
) -> Outcome:
    """Builds everything in the build.ninja of a folder, telling the listener of each step that ends and `failed`, by
    its title, of each that did not end well.

    Every step that does not need a failed one is still made, so that all failures are found in one run. The lock's
    descriptor is handed on, so that it is held as long as anything that ninja started. Raises KeyboardInterrupt when
    interrupted, after ninja has stopped its commands.
    """
    command = [find_ninja(), "-C", os.fspath(folder), "-k", "0", *options]
    environment = {**os.environ, **terminal(), "NINJA_STATUS": f"{_MARK}%f/%t "}
    if lock is not None:
        environment[HELD] = os.path.abspath(folder)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=() if lock is None else (lock,),
    ) as process:
        assert process.stdout is not None
        lines = (line.decode("utf-8", "replace").rstrip("\r\n") for line in process.stdout)
        try:
            steps, failures, rest = read_output(lines, listener, failed)
        except KeyboardInterrupt:
            # It reaches ninja too, which stops its commands and removes what they left half done.
            process.wait()
            raise
    if process.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    return Outcome(process.returncode, steps, failures, rest)


def terminal() -> dict[str, str]:
    """The variable that names the terminal to a step, whose own output ninja holds back; none where nobody watches."""
    if not sys.stderr.isatty():
        return {}
    return {PROGRESS_TERMINAL: os.ttyname(sys.stderr.fileno())}


def read_output(
    lines: Iterable[str], listener: Callable[[Progress], None], fault: Callable[[str], None] = _unheard
) -> tuple[tuple[str, ...], tuple[Failure, ...], str]:
    """The steps that ran, the failures, and the rest, from ninja's lines."""
    steps: list[str] = []
    rest: list[str] = []
    into = rest
    stream = iter(lines)
    pending: list[tuple[str, int, str, list[str]]] = []
    for line in stream:
        status = _STATUS.match(line)
        failed = _FAILED.match(line)
        if status is not None:
            steps.append(status[3])
            listener(Progress(int(status[1]), int(status[2]), status[3]))
            into = rest
        elif failed is not None:
            output: list[str] = []
            title = steps[-1] if steps else ""
            fault(title)
            pending.append((title, int(failed[1]), next(stream, ""), output))
            into = output
        elif line.startswith("ninja: "):
            rest.append(line)
        else:
            into.append(line)
    failures = [Failure(title, code, command, "\n".join(output)) for title, code, command, output in pending]
    return tuple(steps), tuple(failures), "\n".join(rest)
