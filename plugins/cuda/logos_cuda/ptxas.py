"""What the compiler says of kernels, and how many of their blocks a multiprocessor holds."""

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
class Processor:
    """A multiprocessor of an architecture, by the CUDA programming guide's table of compute capabilities.

    warps, blocks  the most that it holds at once
    shared         bytes of shared memory, of which each block takes 1 KB besides its own
    count          multiprocessors of the device that stands for the architecture, `device`
    products       products of bytes that its tensor cores add in a clock by mma.sync, dense
    floats         float32 operations in a clock
    """

    device: str
    count: int
    warps: int
    blocks: int
    shared: int
    products: int
    floats: int


REGISTERS = 65_536
"""Registers of a multiprocessor, which a warp takes by 256."""

PROCESSORS = {
    "sm_80": Processor("A100", 108, 64, 32, 164 << 10, 2048, 64),
    "sm_86": Processor("RTX 3090", 82, 48, 16, 100 << 10, 1024, 128),
    "sm_89": Processor("RTX 4090", 128, 48, 24, 100 << 10, 1024, 128),
    "sm_90": Processor("H200", 132, 64, 32, 228 << 10, 2540, 128),
    "sm_100": Processor("B200", 148, 64, 32, 228 << 10, 2048, 128),
    "sm_120": Processor("RTX 5090", 170, 48, 24, 100 << 10, 1024, 128),
}
"""Products of bytes come from the makers' dense figures; of sm_90 62 % of them, what mma.sync is said to reach, and of
sm_100, which gives no figure for mma.sync, those of sm_80: a model's numbers, not measurements."""


def resident_blocks(processor: Processor, registers: int, threads: int, shared: int) -> int:
    """Blocks of a kernel that a multiprocessor holds at once; 0 where it does not hold one."""
    warps = -(-threads // 32)
    by_registers = REGISTERS // (-(-registers * 32 // 256) * 256) // warps
    return min(processor.blocks, processor.warps // warps, by_registers, processor.shared // (shared + 1024))
