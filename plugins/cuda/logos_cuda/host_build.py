"""Building an emitted program for the host: a C++ compiler over the same text and the stand-in of `host/`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from logos import refuse

HOST = Path(__file__).parent / "host"
"""The folder of `logos_host.h`."""

_COMPILERS = ("g++", "clang++")
_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fstack-clash-protection", "-pthread")
_SANITIZING = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-g1")


def find_host_compiler(compiler: str | None = None) -> tuple[str, ...]:
    """The C++ compiler's command: `compiler` if given, else CXX of the environment, else g++, else clang++.

    Refused: none of them is there (`no-host-compiler`).
    """
    wanted = compiler or os.environ.get("CXX")
    for command in [wanted] if wanted else _COMPILERS:
        words = _words(command)
        if words and shutil.which(words[0]):
            return tuple(words)
    what = f"there is no C++ compiler {wanted!r}" if wanted else "there is no C++ compiler: neither g++ nor clang++"
    follow = "install g++ (Debian and Ubuntu: apt-get install g++), or name a C++17 compiler in CXX"
    raise refuse("no-host-compiler", what, None, follow)


def _words(command: str) -> list[str]:
    """A command's words; of one with an open quote none."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def host_command(
    source: Path, output: Path, sanitize: bool = False, compiler: str | None = None, flags: Sequence[str] = ()
) -> list[str]:
    """The command that builds `output` from `source`; `flags` come last. It names its files from their folders on."""
    return [
        *find_host_compiler(compiler),
        *_FLAGS,
        *(_SANITIZING if sanitize else ()),
        f"-ffile-prefix-map={HOST.parent}/=",
        f"-ffile-prefix-map={source.parent}/=",
        f"-I{HOST}",
        *flags,
        *("-x", "c++", os.fspath(source), "-o", os.fspath(output)),
    ]


def compile_host(
    source: Path, output: Path, sanitize: bool = False, compiler: str | None = None, flags: Sequence[str] = ()
) -> None:
    """Builds a CUDA program for the host; `sanitize` with the address and undefined-behaviour sanitizers.

    Refused: no compiler (`no-host-compiler`); the compiler's first error (`host-compiler-failed`).
    """
    half = output.with_name(f"{output.name}.{os.getpid()}.half")
    ran = subprocess.run(
        host_command(source, half, sanitize, compiler, flags), capture_output=True, encoding="utf-8", errors="replace"
    )
    if ran.returncode == 0:
        os.replace(half, output)
        return
    half.unlink(missing_ok=True)
    said = [line for line in ran.stderr.splitlines() if " error: " in line] or ran.stderr.splitlines() or ["no message"]
    command = shlex.join(host_command(Path(source.name), Path(output.name), sanitize, compiler, flags))
    follow = by_hand(source.name, ran.returncode, command)
    raise refuse("host-compiler-failed", f"the host's C++ compiler failed: {said[0].strip()}", None, follow)


def by_hand(source: str, code: int, command: str) -> str:
    """How to run a failed command again: the folder that the source lay in may be gone when this is read."""
    return f"`logos build` with `-D compile=off` writes {source}; run beside it (exit code {code}): {command}"
