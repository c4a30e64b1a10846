"""What a kernel may not do, named by the stand-in: every message whole, and exit code 86."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_host import ORDERS, PROGRAMS, build, run

MEET = "let every lane that the mask names make this very call, or name only those that make it"
NEVER = "waits for lanes that do not come"
NOWHERE = """\
it reads or writes memory that is not there, or its stack is full
  next: build it with the address sanitizer, which says where; a thread's own arrays have 128 KB"""
HERE = "kernel {}, block (0, 0, 0), thread ({}, 0, 0): "

FAULTS = {
    "divergent": f"""\
{HERE.format("divergent", 32)}__shfl_xor_sync with mask 0xffffffff at faults.cu:<divergent:4> {NEVER}
  lane 18 has exited
  lanes 16 to 17, 19 to 31 wait at __syncthreads at faults.cu:<divergent:6>
  next: {MEET}""",
    "two_places": f"""\
{HERE.format("two_places", 0)}__shfl_down_sync with mask 0xffffffff at faults.cu:<two_places:4> {NEVER}
  lanes {", ".join(map(str, range(1, 32, 2)))} wait at __shfl_down_sync with mask 0xffffffff at faults.cu:<two_places:3>
  next: {MEET}""",
    "two_masks": f"""\
{HERE.format("two_masks", 0)}__shfl_sync with mask 0xffffffff at faults.cu:<two_masks:3> {NEVER}
  lanes 20 to 31 have exited
  next: {MEET}""",
    "exited": f"""\
{HERE.format("exited", 0)}__shfl_up_sync with mask 0xffffffff at faults.cu:<exited:3> {NEVER}
  lanes 3, 7 to 9 have exited
  next: {MEET}""",
    "beyond": f"""\
{HERE.format("beyond", 32)}__shfl_xor_sync with mask 0xffffffff at faults.cu:<beyond:1> {NEVER}
  lanes 1 to 31 are beyond the block's threads
  next: {MEET}""",
    "outside_mask": f"""\
{HERE.format("outside_mask", 16)}__ballot_sync with mask 0x0000ffff at faults.cu:<outside_mask:2> is called by \
lane 16, which the mask does not name
  next: name the calling lane in the mask""",
    "reads_outside": f"""\
{HERE.format("reads_outside", 0)}__shfl_xor_sync with mask 0x0000ffff at faults.cu:<reads_outside:2> reads lane 16, \
which the mask does not name
  next: name in the mask every lane that is read""",
    "two_barriers": """\
kernel two_barriers, block (0, 0, 0): its threads wait at different barriers
  threads 0 to 32 wait at __syncthreads at faults.cu:<two_barriers:2>
  threads 33 to 63 wait at __syncthreads_or at faults.cu:<two_barriers:3>
  next: let every thread of the block reach the same barrier""",
    "deadlock": f"""\
{HERE.format("deadlock", 0)}__syncwarp with mask 0x0000ffff at faults.cu:<deadlock:3> {NEVER}
  lanes 8 to 15 wait at __syncthreads at faults.cu:<deadlock:4>
  next: {MEET}""",
    "divergent_mma": f"""\
{HERE.format("divergent_mma", 0)}logos_mma_s8 at faults.cu:<divergent_mma:4> {NEVER}
  lane 31 has exited
  next: {MEET}""",
    "width": f"""\
{HERE.format("width", 0)}a shuffle at faults.cu:<width:2> has width 12
  next: give it a width of 1, 2, 4, 8, 16 or 32""",
    "unaligned": f"""\
{HERE.format("unaligned", 0)}logos_copy_async at faults.cu:<unaligned:3> has an address that is no multiple of 16
  next: align both addresses, or copy the element itself""",
    "unaligned_matrix": f"""\
{HERE.format("unaligned_matrix", 0)}logos_load_matrices at faults.cu:<unaligned_matrix:4> has an address that is no \
multiple of 16
  next: begin every row of a matrix at such an address""",
    "divergent_matrix": f"""\
{HERE.format("divergent_matrix", 0)}logos_load_matrices at faults.cu:<divergent_matrix:4> {NEVER}
  lane 31 has exited
  next: {MEET}""",
    "too_much": f"""\
{HERE.format("too_much", 0)}245760 bytes of shared memory with row
  next: declare at most 48 KB (49152 bytes), of at most 227 KB with the dynamic memory""",
    "nowhere": f"""\
{HERE.format("nowhere", 0)}{NOWHERE}""",
    "deep": f"""\
{HERE.format("deep", 0)}{NOWHERE}""",
    "divides": f"""\
{HERE.format("divides", 5)}it divides an integer by zero
  next: on a GPU the result is any number: test for zero""",
    "host_pointer": """\
kernel plain: its argument 1 points to no memory of the device
  next: pass memory that cudaMalloc or cudaMallocHost gave and nothing freed""",
    "outside": """\
__syncthreads is called outside a kernel
  next: call it from a kernel that LOGOS_LAUNCH starts""",
}
"""What standard error holds after `host: `; <KERNEL:N> is the N-th line of a kernel's text."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("faults", tmp_path_factory.mktemp("cuda"))


def message(case: str) -> str:
    text = f"host: {FAULTS[case]}\n"
    for number, line in enumerate((PROGRAMS / "faults.cu").read_text("utf-8").splitlines(), start=1):
        if line.startswith('extern "C"'):
            kernel = line.split("void ")[1].split("(")[0]
            for step in range(1, 9):
                text = text.replace(f"<{kernel}:{step}>", str(number + step - 1))
    return text


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_and_ends_the_program(program: Path, case: str) -> None:
    ran = run(program, case, threads=1)
    assert ran.stderr.decode() == message(case)
    assert (ran.returncode, ran.stdout) == (86, b"")


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_found_in_every_order(program: Path, case: str) -> None:
    for order in ORDERS[1:]:
        ran = run(program, case, order=order, threads=1)
        assert ran.returncode == 86, order
        assert ran.stderr.decode().startswith("host: "), order


def test_a_program_without_fault_goes_to_its_end(program: Path) -> None:
    ran = run(program, "none of them")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"the end\n", b"")


@pytest.mark.parametrize(
    ("name", "value", "said", "follow"),
    [
        ("THREADS", "0", "a number of at least 1 is wanted", "set it to such a number, or unset it"),
        ("THREADS", "two", "a number of at least 1 is wanted", "set it to such a number, or unset it"),
        ("ORDER", "random", "", "set it to forward, reverse or shuffle:SEED, where SEED is a number"),
        ("ORDER", "shuffle:", "", "set it to forward, reverse or shuffle:SEED, where SEED is a number"),
    ],
)
def test_a_setting_that_is_none_is_said(program: Path, name: str, value: str, said: str, follow: str) -> None:
    ran = run(program, "two_masks", **{name.lower(): value})
    what = f"LOGOS_HOST_{name} is '{value}'" + (f": {said}" if said else "")
    assert ran.stderr.decode() == f"host: {what}\n  next: {follow}\n"
    assert ran.returncode == 86
