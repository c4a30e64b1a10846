"""`logos explain --compiled`: what ptxas and the disassembly say of kernels, those of a decode step above all."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from toy_build import Toy

from logos import CompiledKernel, Refused
from logos_cuda import audit
from logos_cuda.audit import bodies_of, compiled_kernels, find_disassembler, occupancy
from logos_cuda.emit import kernel_text
from machine_code import needs_disassembler

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "cuda"))

TEXT = (
    'extern "C" __global__ void __launch_bounds__(128, 1) one_kernel(const Real *x) { one(x); }\n'
    'extern "C" __global__ void __launch_bounds__(256) two_kernel(Real *y) { two(y); }\n'
    "    LAUNCH(two_kernel, dim3(1u, 1u, 1u), dim3(256u), 74752, real(b0_y));\n"
    "    LAUNCH(one_kernel, dim3(1u, 1u, 1u), dim3(128u), 0, real(b0_y));\n"
    "    LAUNCH(two_kernel, dim3(9u, 1u, 1u), dim3(256u), 0, real(b0_y));\n"
)
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'two_kernel' for 'sm_90'
ptxas info    : Function properties for two_kernel
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 48 registers, used 1 barriers, 8 bytes cumulative stack size, 132 bytes smem
ptxas info    : Compiling entry function 'one_kernel' for 'sm_90'
ptxas info    : Function properties for one_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers
"""
CODE = """\
\t.section\t.text.two_kernel,"ax",@progbits
        /*0000*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0008*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;
\t.section\t.text.one_kernel,"ax",@progbits
        /*0010*/                   LDG.E.128.CONSTANT R8, desc[UR6][R6.64] ;
        /*0020*/              @!P0 LDG.E.U16.CONSTANT R8, desc[UR6][R6.64] ;
        /*0030*/                   LDG.E.64 R8, desc[UR6][R6.64+0x8] ;
        /*0040*/                   IDP.4A.S8.S8 R8, R9, R10, R8 ;
        /*0050*/                   IDP.4A.S8.S8 R8, R9, R10, R8 ;
        /*0060*/                   LDS.128 R8, [R3] ;
"""


def test_a_kernel_has_what_the_report_and_the_code_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "find_toolkit", lambda: None)
    monkeypatch.setattr(audit, "find_disassembler", lambda: Path("nvdisasm"))
    monkeypatch.setattr(audit, "architectures", lambda names, toolkit: names)
    monkeypatch.setattr(audit, "_compile", lambda *given: REPORT)
    monkeypatch.setattr(audit, "_run", lambda *given: type("Ran", (), {"stdout": CODE}))
    assert compiled_kernels(TEXT, ["sm_90"]) == (
        CompiledKernel("one", "sm_90", 128, 20, 0, 0, 0, 1.0, ((16, 1), (64, 1), (128, 1)), (("IDP", 2),)),
        CompiledKernel("two", "sm_90", 256, 48, 8, 16, 74884, 0.375, ((32, 1), (128, 1)), ()),
    )


def test_functions_of_a_disassembly_by_name() -> None:
    assert list(bodies_of(CODE)) == ["two_kernel", "one_kernel"]
    assert bodies_of(CODE)["one_kernel"].count("IDP") == 2


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "due"),
    [
        ("sm_90", 256, 32, 0, 1.0),
        ("sm_80", 128, 54, 0, 0.5625),
        ("sm_90", 128, 128, 41092, 0.25),
        ("sm_80", 128, 128, 41092, 0.1875),
        ("sm_120", 256, 32, 0, 1.0),
        ("sm_86", 1024, 32, 0, 32 / 48),
        ("sm_90", 32, 16, 0, 0.5),
        ("sm_121", 256, 32, 0, 1.0),
    ],
)
def test_occupancy_is_what_a_multiprocessor_has_room_for(
    arch: str, threads: int, registers: int, shared: int, due: float
) -> None:
    assert occupancy(arch, threads, registers, shared) == due


def test_without_a_disassembler_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(audit, "_PACKAGE", "no-such-package")
    with pytest.raises(Refused) as error:
        find_disassembler()
    (refusal,) = error.value.refusals
    assert refusal.text() == (
        "nvdisasm: there is no nvdisasm: neither CUDA_HOME, PATH nor PyPI's package has it [no-disassembler]\n"
        "  next: pip install no-such-package"
    )
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "nvdisasm"
    tool.write_text("#!/bin/sh\n", encoding="utf-8")
    tool.chmod(0o755)
    assert find_disassembler() == tool


def test_the_command_prints_a_line_or_an_object_a_kernel(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = CompiledKernel("one", "sm_90", 128, 20, 0, 0, 132, 0.5625, ((16, 1), (128, 4)), (("IDP", 2),))
    other = CompiledKernel("two", "sm_90", 256, 48, 8, 16, 0, 0.625, (), ())
    monkeypatch.setattr(audit, "compiled_kernels", lambda *given: (kernel, other))
    toy.write("p.lg", "Let x be a 1 by 4 tensor of Real.\nLet y be silu of x.\n")
    ran = toy.logos("explain", "p.lg", "--target", "cuda", "--compiled")
    assert (ran.code, ran.out) == (0, """\
sm_90: 2 kernels, registers do not suffice in two
  one: 128 threads of 20 registers; 132 bytes shared; occupancy 56 %; loads 1 of 16 bits, 4 of 128 bits; 2 IDP
  two: 256 threads of 48 registers; 8 bytes of stack; 16 bytes spilled; 0 bytes shared; occupancy 62 %; loads nothing
""")
    ran = toy.logos("explain", "p.lg", "--target", "cuda", "--compiled", "--json")
    assert [json.loads(line)["loads"] for line in ran.out.splitlines()] == [{"16": 1, "128": 4}, {}]


@pytest.mark.slow
@needs_disassembler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_weights_in_q8_are_loaded_by_128_bits_and_multiplied_by_idp_and_nothing_spills(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And from sm_90 on nothing is read or written before the wait for the launch before, which the compiler could
    move loads of constants above."""
    import fused_q8_cases
    import narrow_cases

    specs = (*fused_q8_cases.SPECS, *narrow_cases.SPECS)
    found = [kernel for spec in specs for one in spec.cases(range(3, 5)) for kernel in one.graph.kernels]
    bodies: dict[str, str] = {}

    def kept(code: str) -> dict[str, str]:
        bodies.update(bodies_of(code))
        return bodies

    monkeypatch.setattr(audit, "bodies_of", kept)
    kernels = compiled_kernels("\n".join(kernel_text(dict.fromkeys(found))), [arch])
    assert {name.removesuffix("_kernel") for name in bodies} == {kernel.name for kernel in kernels}
    for name, body in bodies.items():
        first, wait, _ = body.partition("ACQBULK")
        assert bool(wait) == (arch != "sm_80"), name
        assert not wait or not MEMORY.search(first), name
    assert {kernel.name: (kernel.stack, kernel.spills) for kernel in kernels if kernel.stack or kernel.spills} == {}
    products = [kernel for kernel in kernels if "q8_by" in kernel.name or kernel.name.startswith(Q8)]
    assert len(products) >= 20
    for kernel in products:
        loads, counts = dict(kernel.loads), dict(kernel.products)
        # A load of 16 bytes of the weight and of the row for each sixteen products; a scale of 16 bits for 32.
        assert counts["IDP"] >= 16, kernel.name
        assert loads[128] >= counts["IDP"] // 5, kernel.name
        assert loads[16] >= 2, kernel.name
        assert 8 not in loads, kernel.name


MEMORY = re.compile(r"\b(LDG|LDGSTS|LD|STG|ST|ATOMG?|RED)\b")
Q8 = ("matvec_q8_", "gate_up_q8_", "experts_hidden_q", "experts_down_q")
