"""The machine code of a program's kernels: what ptxas reports of each, and what the disassembly shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from logos import CompiledKernel, Spot, refuse
from logos_cuda.compiling import COMPILE, architectures, host_flags
from logos_cuda.ptxas import limits_of, reports, resident_blocks
from logos_cuda.toolkit import Toolkit, find_toolkit

_PACKAGE = "nvidia-cuda-nvdisasm"
_KERNEL = re.compile(r'^extern "C" __global__ void __launch_bounds__\((\d+)(?:, \d+)?\) (\w+)\(', re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.MULTILINE)
_LAUNCH = re.compile(r"^    LAUNCH\((\w+), dim3\([^)]*\), dim3\([^)]*\), (\d+)[,)]", re.MULTILINE)
_LOAD = re.compile(r"\bLDG(?:STS)?(?:\.\w+)*?(?:\.(U?S?8|U?S?16|64|128|256))?(?=[.\s])[.\w]*")
_PRODUCT = re.compile(r"\b(IDP|IMMA)\b")
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


def compiled_kernels(text: str, names: Sequence[str], ccbin: str = "") -> tuple[CompiledKernel, ...]:
    """What nvcc makes of a source's kernels for each architecture of `names`.

    Refused: what finding a toolkit refuses; a source that nvcc does not take (`nvcc-failed`); no disassembler
    (`no-disassembler`).
    """
    toolkit, disassembler = find_toolkit(), find_disassembler()
    found: list[CompiledKernel] = []
    with tempfile.TemporaryDirectory(prefix="logos-audit-") as folder:
        (Path(folder) / "program.cu").write_text(text, encoding="utf-8")
        for arch in architectures(names, toolkit):
            report = _compile(toolkit, Path(folder), arch, host_flags(ccbin))
            code = _run([os.fspath(disassembler), "-c", "program.cubin"], Path(folder)).stdout
            found += _kernels(text, arch, report, bodies_of(code))
    return tuple(found)


def find_disassembler() -> Path:
    """nvdisasm: of CUDA_HOME, of PATH, or of PyPI's package. Refused: there is none (`no-disassembler`)."""
    home = os.environ.get("CUDA_HOME")
    named = shutil.which(os.path.join(home, "bin", "nvdisasm")) if home else None
    named = named or shutil.which("nvdisasm") or _packaged()
    if named is None:
        what = "there is no nvdisasm: neither CUDA_HOME, PATH nor PyPI's package has it"
        raise refuse("no-disassembler", what, Spot("nvdisasm"), f"pip install {_PACKAGE}")
    return Path(named)


def _packaged() -> str | None:
    try:
        files = distribution(_PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    paths = (str(file.locate()) for file in files if file.match("*/bin/nvdisasm"))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if ran.returncode:
        said = next((line for line in (*ran.stderr.splitlines(), *ran.stdout.splitlines()) if "error" in line), "")
        what = f"{Path(command[0]).name} failed: {said.strip() or 'it said nothing'}"
        by_hand = f"`logos emit` writes the source; run beside it (exit code {ran.returncode}): {shlex.join(command)}"
        raise refuse("nvcc-failed", what, Spot("nvcc"), by_hand)
    return ran


def _compile(toolkit: Toolkit, folder: Path, arch: str, host: Sequence[str]) -> str:
    """What ptxas reports of a cubin that it makes."""
    flags = sorted((*COMPILE, *host, f"-arch={arch}", "-cubin", "-Xptxas=-v"))
    return _run([os.fspath(toolkit.nvcc), "program.cu", "-o", "program.cubin", *flags], folder).stderr


def bodies_of(code: str) -> dict[str, str]:
    """The instructions of each function of a disassembly, by its name."""
    parts = _SECTION.split(code)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _kernels(text: str, arch: str, report: str, bodies: Mapping[str, str]) -> Iterator[CompiledKernel]:
    found = {one.name: one for one in reports(report)}
    dynamic: dict[str, int] = {}
    for name, launched in _LAUNCH.findall(text):
        dynamic[name] = max(dynamic.get(name, 0), int(launched))
    for bound, name in _KERNEL.findall(text):
        one, body, threads = found[name], bodies[name], int(bound)
        shared = one.shared + dynamic.get(name, 0)
        yield CompiledKernel(
            name.removesuffix("_kernel"), arch, threads, one.registers, one.stack, one.spilled, shared,
            occupancy(arch, threads, one.registers, shared),
            tuple(sorted(Counter(map(_width, _LOAD.finditer(body))).items())),
            tuple(sorted(Counter(_PRODUCT.findall(body)).items())),
        )  # fmt: skip


def _width(load: re.Match[str]) -> int:
    return next((_WIDTHS[part] for part in load[0].split(".") if part in _WIDTHS), 32)


def occupancy(arch: str, threads: int, registers: int, shared: int) -> float:
    """The warps that a multiprocessor has room for, of those that it can have."""
    return resident_blocks(arch, threads, registers, shared) * -(-threads // 32) / limits_of(arch).warps
