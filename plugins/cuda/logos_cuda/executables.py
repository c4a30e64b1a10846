"""Executables for running: the emitted source, built for a GPU or for the host, kept in the cache by contents."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from logos import Spot, cached, refuse
from logos_cuda.compiling import COMPILE, LINK, arch_flags, host_flags
from logos_cuda.host_build import HOST, by_hand, compile_host, find_host_compiler, host_command
from logos_cuda.options import Options
from logos_cuda.toolkit import find_toolkit


def host_executable(source: Path) -> Path:
    """The source, built with the host stand-in; where LOGOS_HOST_SANITIZE is 1, with sanitizers. Refused:
    `no-host-compiler`, `host-compiler-failed`."""
    headers = sorted(HOST.glob("*.h"))
    sanitize = os.environ.get("LOGOS_HOST_SANITIZE") == "1"
    command = shlex.join(host_command(Path(source.name), Path("host"), sanitize)).encode()
    decided = [source.read_bytes(), *(header.read_bytes() for header in headers), command, _version()]
    kind = "sanitized" if sanitize else "host"
    return _cached(kind, decided, lambda output: compile_host(source, output, sanitize))


def gpu_executable(source: Path, arch: str, options: Options) -> Path:
    """The source, built for one architecture. Refused: what finding the toolkit refuses, a compiler that fails
    (`nvcc-failed`)."""
    toolkit = find_toolkit()
    flags = [*COMPILE, *LINK, *arch_flags([arch]), *toolkit.library_flags, *host_flags(options.ccbin)]
    command = [os.fspath(toolkit.nvcc), *sorted(flags)]

    def build(output: Path) -> None:
        words = [*command, source.name, "-o", os.fspath(output)]
        done = subprocess.run(words, cwd=source.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace").strip() or "it said nothing"
            shown = shlex.join([*command, source.name, "-o", source.stem])
            next_ = by_hand(source.name, done.returncode, shown)
            raise refuse("nvcc-failed", said, Spot(source.name), next_)

    return _cached("gpu", [source.read_bytes(), shlex.join(command).encode(), toolkit.version.encode()], build)


def _version() -> bytes:
    """What the host's compiler says of itself."""
    command = find_host_compiler()
    try:
        return subprocess.run([*command, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    except OSError as error:
        what = f"the C++ compiler {command[0]} cannot be run: {error.strerror}"
        raise refuse("no-host-compiler", what, None, "name a C++17 compiler in CXX") from None


def _cached(kind: str, decided: Iterable[bytes], build: Callable[[Path], None]) -> Path:
    """The executable that these decide, built where no earlier run left it. Refused: `unwritable-file`."""
    digest = hashlib.sha256()
    for part in decided:
        digest.update(hashlib.sha256(part).digest())

    def write(folder: Path) -> None:
        for part in folder.glob(f"{kind}.*"):  # of a run that was killed
            part.unlink()
        build(folder / kind)

    with cached("programs", f"cuda-{kind}-{digest.hexdigest()[:32]}", write) as folder:
        return folder / kind
