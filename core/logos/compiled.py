"""What a target's compiler made of each kernel of a program, for `logos explain --compiled`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from logos.hookspecs import Job


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in the machine code of an architecture.

    threads    of a block
    registers  of a thread
    stack      bytes of a thread's own memory: arrays that stay in no registers
    spills     bytes that are stored and loaded again because registers do not suffice
    shared     bytes of shared memory of a block: those that the code names, and the most that it is launched with
    occupancy  threads that a multiprocessor has room for, of those that it can have
    loads      instructions that load from the device's memory, by their width in bits
    products   instructions of integer products, by their names in the machine code
    """

    name: str
    arch: str
    threads: int
    registers: int
    stack: int
    spills: int
    shared: int
    occupancy: float
    loads: tuple[tuple[int, int], ...]
    products: tuple[tuple[str, int], ...]


@runtime_checkable
class CompilingTarget(Protocol):
    """A target that can say what a compiler makes of a job's kernels."""

    def compiled(self, job: Job) -> Sequence[CompiledKernel]:
        """Every kernel for every architecture of the job's options. Refused: what finding and running the tools
        refuses."""
