"""The C++ compiler: which one there is, and what it is told."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from logos import Edge, Refused, Rule, Spot, Steps, WeightFile, cached, refuse
from logos_cpu.levels import LEVELS, level_here
from logos_cpu.options import Options

ENVIRONMENT = ("CXX",)
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-pthread")
"""Without contraction every level has the same numbers: a product is rounded before it is added."""

SANITIZING = ("-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
_COMPILERS = ("g++", "clang++", "c++")


def find_compiler(options: Options) -> tuple[str, ...]:
    """The C++ compiler's command: the option `cxx`, else CXX of the environment, else g++ or clang++.

    Refused: none of them is there (`no-host-compiler`).
    """
    wanted = options.cxx or os.environ.get("CXX")
    for command in [wanted] if wanted else _COMPILERS:
        try:
            words = shlex.split(command)
        except ValueError:  # an open quote
            continue
        if words and (found := shutil.which(words[0])):
            return (os.path.abspath(found), *words[1:])
    what = f"there is no C++ compiler {wanted!r}" if wanted else "there is no C++ compiler: neither g++ nor clang++"
    follow = "install g++ (Debian and Ubuntu: apt-get install g++), or name a C++17 compiler in CXX"
    raise refuse("no-host-compiler", what, Spot("cxx"), follow)


def version_of(compiler: Sequence[str]) -> str:
    """The first line that a compiler says of itself. Refused: it cannot be run (`no-host-compiler`)."""
    try:
        done = subprocess.run([*compiler, "--version"], capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        what = f"the C++ compiler {compiler[0]} cannot be run: {error.strerror}"
        raise refuse("no-host-compiler", what, Spot("cxx"), "name a C++17 compiler in CXX") from None
    return (done.stdout.splitlines() or ["unknown"])[0].strip()


def build_steps(
    options: Options,
    extractions: tuple[WeightFile, ...],
    tiled: Sequence[str],
    version: Callable[[tuple[str, ...]], str] = version_of,
) -> Steps:
    """Weight files, then the executable, then the weights of `tiled` as the kernels read them. `version` is what tells
    a compiler's. What this machine lacks is among the refusals."""
    if options.compile == "off":
        return Steps(extractions)
    try:
        compiler = find_compiler(options)
        label = version(compiler)
    except Refused as refused:
        return Steps(extractions, environment=ENVIRONMENT, refusals=refused.refusals)
    kind = options.kind
    folder = 'cd "$$(dirname -- $out)"'
    words = shlex.join([*compiler, *FLAGS, f"{kind}.cpp", "-o", f".{kind}.half"]).replace("$", "$$")
    command = f"{folder} && LOGOS_CXX={shlex.quote(label).replace('$', '$$')} {words} && mv -f .{kind}.half {kind}"
    rules = [Rule("compile", command, "", "compilers")]
    edges = [Edge("compile", (kind,), (f"{kind}.cpp",))]
    if tiled:
        rules.append(Rule("lay", 'set -- $in; "$$1" --lay "$$(dirname -- "$$2")"', ""))
        folder = extractions[0].path
        made = tuple(f"{folder}/{name}.tiles" for name in tiled)
        edges.append(Edge("lay", made, (kind, *(f"{folder}/{name}.{end}" for name in tiled for end in "qs"))))
    return Steps(extractions, tuple(rules), tuple(edges), (f"{label} ({compiler[0]})",), ENVIRONMENT)


def _unsaid(text: str) -> None:
    return


def executable(source: Path, options: Options, say: Callable[[str], None] = _unsaid) -> Path:
    """The program built from a source for this processor alone, kept in the cache by contents; where
    LOGOS_HOST_SANITIZE is 1, with sanitizers.

    Refused: no compiler (`no-host-compiler`), one that fails (`host-compiler-failed`).
    """
    compiler = find_compiler(options)
    sanitize = os.environ.get("LOGOS_HOST_SANITIZE") == "1"
    level = level_here() if options.level == "auto" else options.level
    flags = [*FLAGS, *([] if level is None else [f"-DLOGOS_ONLY={LEVELS[level]}"]), *(SANITIZING if sanitize else ())]
    command = shlex.join([*compiler, *flags])
    decided = [source.read_bytes(), command.encode(), version_of(compiler).encode()]
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in decided)).hexdigest()

    def build(folder: Path) -> None:
        say(f"building the program with {compiler[0]}")
        half, words = folder / "program.half", [*compiler, *flags, source.name, "-o"]
        done = subprocess.run(
            [*words, os.fspath(half)], cwd=source.parent, capture_output=True, encoding="utf-8", errors="replace"
        )
        if done.returncode:
            raise _failed(source, done, shlex.join([*words, source.stem]))
        os.replace(half, folder / "program")

    with cached("programs", f"cpu-{digest[:32]}", build) as folder:
        return folder / "program"


def _failed(source: Path, done: subprocess.CompletedProcess[str], command: str) -> Refused:
    said = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines() or ["no message"]
    follow = f"`logos build` with `-D compile=off` writes {source.name}; run beside it (exit code {done.returncode}): "
    return refuse("host-compiler-failed", f"the C++ compiler failed: {said[0].strip()}", None, follow + command)
