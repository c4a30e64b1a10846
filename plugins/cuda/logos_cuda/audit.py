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
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from logos import CompiledKernel, Spot, refuse
from logos_cuda.compiling import COMPILE, architectures, host_flags
from logos_cuda.toolkit import Toolkit, find_toolkit

_PACKAGE = "nvidia-cuda-nvdisasm"
_KERNEL = re.compile(r'^extern "C" __global__ void __launch_bounds__\((\d+)(?:, \d+)?\) (\w+)\(', re.MULTILINE)
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+)", re.MULTILINE)
_LOAD = re.compile(r"\bLDG(?:\.\w+)*?(?:\.(U?S?8|U?S?16|64|128|256))?(?=[.\s])[.\w]*")
_PRODUCT = re.compile(r"\b(IDP|IMMA)\b")
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a multiprocessor holds: warps, blocks, bytes of shared memory."""

    warps: int
    blocks: int
    shared: int


_REGISTERS, _REGISTER_UNIT, _SHARED_UNIT, _SHARED_RESERVED = 65536, 256, 128, 1024
_LIMITS = {
    "75": Limits(32, 16, 64 << 10), "80": Limits(64, 32, 164 << 10), "86": Limits(48, 16, 100 << 10),
    "87": Limits(48, 16, 164 << 10), "89": Limits(48, 24, 100 << 10), "90": Limits(64, 32, 228 << 10),
    "100": Limits(64, 32, 228 << 10), "103": Limits(64, 32, 228 << 10), "120": Limits(48, 24, 100 << 10),
}  # fmt: skip
"""By compute capability, of the programming guide's table of them."""


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
    parts = _ENTRY.split(report)
    reports = dict(zip(parts[1::2], parts[2::2], strict=True))
    for bound, name in _KERNEL.findall(text):
        threads = int(bound)
        frame, used = _FRAME.search(reports[name]), _USED.search(reports[name])
        assert frame is not None
        assert used is not None
        registers, shared = int(used[1]), int(used[2] or 0)
        body = bodies[name]
        yield CompiledKernel(
            name.removesuffix("_kernel"), arch, threads, registers, int(frame[1]),
            int(frame[2]) + int(frame[3]), shared, occupancy(arch, threads, registers, shared),
            tuple(sorted(Counter(map(_width, _LOAD.finditer(body))).items())),
            tuple(sorted(Counter(_PRODUCT.findall(body)).items())),
        )  # fmt: skip


def _width(load: re.Match[str]) -> int:
    return next((_WIDTHS[part] for part in load[0].split(".") if part in _WIDTHS), 32)


def occupancy(arch: str, threads: int, registers: int, shared: int) -> float:
    """The warps that a multiprocessor has room for, of those that it can have, as the programming guide counts them:
    registers are given to a warp by 256, shared memory to a block by 128 bytes, 1024 beside. Of an architecture that is
    not known, those of its generation."""
    number = re.sub(r"\D", "", arch)
    limits = _LIMITS.get(number) or _LIMITS[min(_LIMITS, key=lambda known: abs(int(known) - int(number)))]
    warps = -(-threads // 32)
    by_warp = -(-registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
    by_block = -(-(shared + _SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    blocks = min(limits.blocks, limits.warps // warps, _REGISTERS // by_warp // warps, limits.shared // by_block)
    return blocks * warps / limits.warps
