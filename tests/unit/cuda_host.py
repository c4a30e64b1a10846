"""The programs of `tests/cuda`, built for the host and run under one setting of the stand-in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from logos_cuda.host_build import HOST, compile_host

PROGRAMS = Path(__file__).parents[1] / "cuda"
ORDERS = ("forward", "reverse", "shuffle:1", "shuffle:99")


def build(
    name: str, folder: Path, sanitize: bool = False, compiler: str | None = None, flags: Sequence[str] = ()
) -> Path:
    """The executable of `tests/cuda/NAME.cu`."""
    output = folder / name
    compile_host(PROGRAMS / f"{name}.cu", output, sanitize, compiler, [f"-I{HOST.parent / 'kernels'}", *flags])
    return output


def run(
    program: Path,
    *arguments: str,
    data: bytes = b"",
    prefix: Sequence[str] = (),
    threads: int | str = 2,
    order: str = "forward",
    poison: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """The program run to its end, within a minute: on so many OS threads, in that order, with poisoned memory."""
    chosen = {"THREADS": str(threads), "ORDER": order, "POISON": str(int(poison))}
    environment = {**os.environ, **{f"LOGOS_HOST_{name}": value for name, value in chosen.items()}}
    command = [*prefix, os.fspath(program), *arguments]
    return subprocess.run(command, input=data, env=environment, capture_output=True, timeout=60, check=False)


def text(program: Path, *arguments: str, order: str = "forward", threads: int = 2) -> str:
    """What a program that succeeds printed."""
    ran = run(program, *arguments, order=order, threads=threads)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.decode()


def numbers(program: Path, *arguments: str, order: str = "forward", threads: int = 2) -> dict[str, list[int]]:
    """The same where each line is a name and integers."""
    lines = [line.split() for line in text(program, *arguments, order=order, threads=threads).splitlines()]
    return {line[0]: [int(word) for word in line[1:]] for line in lines}
