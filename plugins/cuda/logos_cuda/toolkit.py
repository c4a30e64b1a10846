"""The CUDA toolkit: where it is, which version, what it builds for, and whether its host compiler is one it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from logos import Refusal, Spot, refuse

OLDEST = (12, 0)
"""The oldest toolkit that takes the emitted text: C++17 and sm_90."""

NVCC_ENVIRONMENT = ("NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS")
"""The environment variables that nvcc heeds."""

ENVIRONMENT = ("CUDA_HOME", *NVCC_ENVIRONMENT, "PATH")
"""The environment variables that decide which toolkit and host compiler are used, and how."""

PACKAGES = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-nvvm")
_INSTALL = (
    "pip install 'logos-build[cuda]' (some 370 MB), or install NVIDIA's toolkit and set CUDA_HOME; "
    "-D compile=off writes the source without it"
)
_GNU = re.compile(r"#if __GNUC__ > (\d+)")
_CLANG = re.compile(r"__clang_major__ < (\d+)\) \|\| \(__clang_major__ > (\d+)\)")


def output(command: tuple[str, ...]) -> str:
    """What a command prints, both ways; what the system says where it cannot be run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    except OSError as error:
        return error.strerror or str(error)
    return done.stdout.decode("utf-8", "replace")


@dataclass(frozen=True)
class Toolkit:
    """A toolkit: its nvcc, and where it was found (`CUDA_HOME`, `PATH`, `PyPI's packages`). `says` is what tells what a
    command prints: `output`, or what remembers it."""

    nvcc: Path
    origin: str
    says: Callable[[tuple[str, ...]], str] = field(default=output, repr=False, compare=False)

    @cached_property
    def version(self) -> str:
        """Such as 13.0.88. Refused: an nvcc that does not say it (`cuda-toolkit-broken`)."""
        said = self.says((os.fspath(self.nvcc), "--version"))
        found = re.search(r"\bV(\d+\.\d+\.\d+)", said)
        if found is None:
            what = f"{self.nvcc}, found in {self.origin}, does not say its version: {_first_line(said)}"
            raise refuse("cuda-toolkit-broken", what, Spot("nvcc"), "install the toolkit again, or set CUDA_HOME")
        return found[1]

    @property
    def label(self) -> str:
        """As a build names it."""
        return f"nvcc {self.version} ({self.nvcc}, from {self.origin})"

    @cached_property
    def architectures(self) -> frozenset[str]:
        """What it builds for, such as sm_90; nothing where it does not say."""
        return frozenset(re.findall(r"^sm_\w+$", self.says((os.fspath(self.nvcc), "--list-gpu-code")), re.MULTILINE))

    @cached_property
    def _top(self) -> Path:
        """The folder that holds its headers and libraries, as nvcc itself says: the command may be a link or script."""
        found = re.search(r"^#\$ TOP=(.*)$", self.says((os.fspath(self.nvcc), "-dryrun", "-E", "x.cu")), re.MULTILINE)
        return Path(os.path.normpath(found[1])) if found else self.nvcc.parent.parent

    @property
    def files(self) -> tuple[str, ...]:
        """Its programs, which are another version where they are other files."""
        named = (self.nvcc, *(self._top / path for path in ("bin/nvcc", "bin/ptxas", "nvvm/bin/cicc")))
        return tuple(dict.fromkeys(os.fspath(path) for path in named if path.is_file()))

    @property
    def library_flags(self) -> tuple[str, ...]:
        """What the linking takes beside nvcc's own choice: PyPI's packages have their libraries in another folder."""
        folder = self._top / "lib"
        return () if (self._top / "targets").is_dir() else (f"-L{folder}",)

    def host_config(self) -> str:
        """The header that says which host compilers it takes; empty where it is not found."""
        for folder in (self._top / "include", *sorted(self._top.glob("targets/*/include"))):
            file = folder / "crt" / "host_config.h"
            if file.is_file():
                return file.read_text("utf-8", "replace")
        return ""


def find_toolkit(says: Callable[[tuple[str, ...]], str] = output) -> Toolkit:
    """The toolkit of CUDA_HOME, else of PATH, else of PyPI's packages in this Python, which is asked by `says`.

    Refused: none (`no-cuda-toolkit`), one that is too old (`cuda-toolkit-old`), PyPI's packages of two versions
    (`cuda-toolkit-mixed`).
    """
    toolkit = replace(_found(), says=says)
    if tuple(map(int, toolkit.version.split(".")[:2])) < OLDEST:
        what = f"{toolkit.label} is older than {'.'.join(map(str, OLDEST))}, which the emitted text needs"
        raise refuse("cuda-toolkit-old", what, Spot("nvcc"), _INSTALL)
    return toolkit


def _found() -> Toolkit:
    home = os.environ.get("CUDA_HOME")
    if home:
        nvcc = Path(os.path.abspath(home)) / "bin" / "nvcc"
        if not nvcc.is_file():
            what = f"CUDA_HOME is {home}, and there is no {nvcc}"
            raise refuse("no-cuda-toolkit", what, Spot("nvcc"), f"set CUDA_HOME to a toolkit, or unset it; {_INSTALL}")
        return Toolkit(nvcc, "CUDA_HOME")
    named = shutil.which("nvcc")
    if named:
        return Toolkit(Path(os.path.abspath(named)), "PATH")
    packaged = _packaged()
    if packaged is None:
        what = "there is no CUDA toolkit: neither CUDA_HOME, PATH nor PyPI's packages have an nvcc"
        raise refuse("no-cuda-toolkit", what, Spot("nvcc"), _INSTALL)
    _check_packages()
    return Toolkit(packaged, "PyPI's packages")


def _packaged() -> Path | None:
    try:
        found = distribution(PACKAGES[0])
    except PackageNotFoundError:
        return None
    paths = (Path(str(found.locate_file(file))) for file in found.files or () if file.match("*/bin/nvcc"))
    return next((path for path in paths if path.is_file()), None)


def _check_packages() -> None:
    """Refuses parts of two releases: nvcc's own package asks for any, and they do not work together."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = distribution(name).version
        except PackageNotFoundError:
            versions[name] = "missing"
    if len({version.rpartition(".")[0] for version in versions.values()}) > 1:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        what = f"PyPI's packages are not of one release: {listed}"
        raise refuse("cuda-toolkit-mixed", what, Spot("nvcc"), "pip install --upgrade 'logos-build[cuda]'")


def host_compiler_refusals(toolkit: Toolkit, chosen: str) -> Iterator[Refusal]:
    """The host compiler that nvcc would use, if there is none (`no-host-compiler`) or the toolkit does not take it
    (`host-compiler-version`)."""
    name = chosen or os.environ.get("NVCC_CCBIN") or "g++"
    command = shutil.which(name)
    if command is None:
        what = f"nvcc needs a host compiler, and there is no {name}"
        yield Refusal("no-host-compiler", what, Spot("nvcc"), "install g++, or name a compiler with -D ccbin=PATH")
        return
    macros = dict(re.findall(r"^#define (__GNUC__|__clang_major__) (\d+)$", _macros(toolkit, command), re.MULTILINE))
    known, clang = toolkit.host_config(), macros.get("__clang_major__")
    limits, limit = _CLANG.search(known), _GNU.search(known)
    if clang is not None and limits is not None and not int(limits[1]) <= int(clang) <= int(limits[2]):
        taken, version = f"clang {limits[1]} to {limits[2]}", f"clang {clang}"
    elif clang is None and limit is not None and int(macros.get("__GNUC__", 0)) > int(limit[1]):
        taken, version = f"gcc up to {limit[1]}", f"gcc {macros['__GNUC__']}"
    else:
        return
    what = f"the host compiler {command} is {version}; nvcc {toolkit.version} takes {taken}"
    yield Refusal("host-compiler-version", what, Spot("nvcc"), "install one of those and name it with -D ccbin=PATH")


def _macros(toolkit: Toolkit, command: str) -> str:
    return toolkit.says((command, "-dM", "-E", "-x", "c++", os.devnull))


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it says nothing")
