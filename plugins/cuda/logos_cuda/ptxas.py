"""What ptxas reports of kernels, and how many of their blocks a multiprocessor holds."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from logos import Spot, refuse
from logos_cuda.compiling import COMPILE
from logos_cuda.toolkit import Toolkit

_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Report:
    """ptxas's report of one kernel for one architecture: registers of a thread, bytes of its stack frame and of what is
    spilled (stores and loads together), bytes of static shared memory of a block."""

    name: str
    arch: str
    registers: int
    stack: int
    spilled: int
    shared: int


def reports(said: str) -> Iterator[Report]:
    """The kernels that `ptxas -v` told of."""
    pieces = _ENTRY.split(said)
    for name, arch, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        stack, used, shared = _STACK.search(text), _USED.search(text), _SHARED.search(text)
        if stack is not None and used is not None:
            spilled = int(stack[2]) + int(stack[3])
            yield Report(name, arch, int(used[1]), int(stack[1]), spilled, int(shared[1]) if shared else 0)


def compile_report(text: str, arch: str, toolkit: Toolkit, flags: tuple[str, ...] = ()) -> tuple[Report, ...]:
    """What ptxas says of a CUDA source for an architecture. Refused: a compiler that fails (`nvcc-failed`)."""
    with tempfile.TemporaryDirectory(prefix="logos-cuda-") as scratch:
        source = Path(scratch) / "kernels.cu"
        source.write_text(text, encoding="utf-8")
        command = [os.fspath(toolkit.nvcc), *COMPILE, *flags, f"-arch={arch}", "-cubin", "-Xptxas", "-v"]
        words = [*command, "-o", "kernels.cubin", source.name]
        done = subprocess.run(words, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        next_ = "name an architecture that nvcc builds for"
        raise refuse("nvcc-failed", said.strip() or "it said nothing", Spot(arch), next_)
    return tuple(reports(said))


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


def limits_of(arch: str) -> Limits:
    """What a multiprocessor of an architecture holds; of one that is not known, what its generation's does."""
    number = re.sub(r"\D", "", arch)
    return _LIMITS.get(number) or _LIMITS[min(_LIMITS, key=lambda known: abs(int(known) - int(number)))]


def resident_blocks(arch: str, threads: int, registers: int, shared: int) -> int:
    """Blocks of a kernel that a multiprocessor holds at once, as the programming guide counts them: registers are given
    to a warp by 256, shared memory to a block by 128 bytes, 1024 beside."""
    limits, warps = limits_of(arch), -(-threads // 32)
    by_warp = -(-registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
    by_block = -(-(shared + _SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    return min(limits.blocks, limits.warps // warps, _REGISTERS // by_warp // warps, limits.shared // by_block)
