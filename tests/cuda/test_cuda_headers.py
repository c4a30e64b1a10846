"""The kernels' text: each header alone under both compilers, the width of offsets, and what ptxas says of stacks."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import fused_cases
import kernel_cases
import narrow_cases
import pytest
import state_cases
import steps_cases
import tensor_cases
from kernel_bench import KERNELS

from logos_cuda.compiling import COMPILE
from logos_cuda.host_build import HOST, find_host_compiler
from logos_cuda.stages import Kernel

HEADERS = sorted(path.name for path in KERNELS.glob("*.cuh"))
CHECKS = ("-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-unknown-pragmas")
NARROWED = {
    "argmax.cuh": 1, "attention.cuh": 4, "attention_combined.cuh": 1, "delta_combined.cuh": 1, "exact_q8.cuh": 1,
    "gemm_q8.cuh": 1, "matvec_q8.cuh": 1, "matvec_q8_fused.cuh": 1, "router.cuh": 1, "tiles.cuh": 1,
}  # fmt: skip
"""How often each header makes an int of a Size: a head's width, the heads of a block, the rows that are multiplied at
once, the rows of a tile and the scale blocks of a row, all bounded by the kernel; and how often the arrivals that a
last block waits for, of blocks in the grid or of rows in a head."""

COUNTED = {"attention.cuh": ["count * width"]}
"""Bounds of loops over an int that have the name of a Size elsewhere in the header."""

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")


def kernels() -> tuple[Kernel, ...]:
    specs = (*kernel_cases.SPECS, *state_cases.SPECS, *narrow_cases.SPECS, *fused_cases.SPECS, *steps_cases.SPECS,
             *tensor_cases.SPECS)  # fmt: skip
    return tuple(dict.fromkeys(k for spec in specs for case in spec.cases(range(3, 6)) for k in case.graph.kernels))


def every_kernel(folder: Path) -> Path:
    """A source of every kernel and nothing else."""
    includes = [f'#include "{header}"' for header in HEADERS]
    source = folder / "kernels.cu"
    source.write_text("\n".join([*includes, *(kernel.text for kernel in kernels())]) + "\n", encoding="utf-8")
    return source


def checked(source: Path, include: Path = KERNELS) -> str:
    """What the host's compiler says of a source, its warnings as errors."""
    command = [*find_host_compiler(), *CHECKS, f"-I{include}", "-isystem", str(HOST), "-x", "c++", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def narrowed(header: str, text: str) -> list[str]:
    """Where a header takes a number of 64 bits for one of 32 without the compiler's saying so."""
    found = []
    casts = re.findall(r"static_cast<(?:int|unsigned|unsigned int)>\((?!__cvta)|\(int\)", text)
    if len(casts) != NARROWED.get(header, 0):
        found.append(f"{len(casts)} casts to int")
    found += re.findall(r"(?:block|grid|thread)(?:Idx|Dim)\.[xyz] \* .*", text)
    for name, bound in re.findall(r"for \((?:int|unsigned) (\w+) = [^;]*; \1 <=? ([^;]+);", text):
        wide = [word for word in re.findall(r"[a-z]\w*", bound) if re.search(rf"\bSize {word}\b", text)]
        if wide and bound not in COUNTED.get(header, []):
            found.append(f"int {name} up to {bound}")
    return found


@pytest.mark.parametrize("header", HEADERS)
def test_no_offset_is_narrowed_in_words(header: str) -> None:
    assert narrowed(header, (KERNELS / header).read_text("utf-8")) == []


def test_no_offset_is_narrowed_by_the_way(tmp_path: Path) -> None:
    assert checked(every_kernel(tmp_path)) == ""


@pytest.mark.parametrize(
    ("header", "old", "new"),
    [
        ("rmsnorm.cuh", "for (Size i = lane", "for (int i = lane"),
        ("gemm.cuh", "const Size top = tile / across * TILE", "const int top = tile / across * TILE"),
        ("tables.cuh", "table + row * columns, y", "table + static_cast<int>(row * columns), y"),
        ("logos.cuh", "static_cast<Size>(blockIdx.x) * blockDim.x", "blockIdx.x * blockDim.x"),
        ("logos.cuh", "typedef long long Size;", "typedef int Size;"),
    ],
)
def test_an_offset_that_is_narrowed_is_found(header: str, old: str, new: str, tmp_path: Path) -> None:
    copy = shutil.copytree(KERNELS, tmp_path / "copy")
    text = (copy / header).read_text("utf-8")
    assert old in text
    (copy / header).write_text(text.replace(old, new), encoding="utf-8")
    assert narrowed(header, text.replace(old, new)) != [] or "error" in checked(every_kernel(tmp_path), copy)


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone_on_the_host(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cu"
    source.write_text(f'#include "{header}"\n', encoding="utf-8")
    assert checked(source) == ""


def reports(source: Path, arch: str) -> Iterator[tuple[str, str]]:
    """(kernel, what ptxas says of its stack) for each kernel of a source."""
    command = ["nvcc", *COMPILE, f"-arch={arch}", "-Werror", "all-warnings", "-Xptxas", "-v", "--cubin",
               f"-I{KERNELS}", "-o", str(source.with_suffix(".cubin")), str(source)]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[:3000]
    yield from re.findall(r"Function properties for (\w+)\s+(.*)", ran.stderr)


CLEAN = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"


def assert_nothing_spills(folder: Path, arch: str) -> None:
    said = dict(reports(every_kernel(folder), arch))
    assert {name: what for name, what in said.items() if what != CLEAN} == {}
    assert set(said) == {kernel.name for kernel in kernels()}


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_no_kernel_spills_or_has_a_stack_frame(arch: str, tmp_path: Path) -> None:
    assert_nothing_spills(tmp_path, arch)


@needs_nvcc
@pytest.mark.slow
def test_a_stack_frame_is_found(tmp_path: Path) -> None:
    source = tmp_path / "frame.cu"
    body = "int i[64]; for (int j = 0; j < 64; ++j) i[x[j]] = j; x[0] = i[x[64]];"
    source.write_text(f'extern "C" __global__ void frame(int *x) {{ {body} }}\n', encoding="utf-8")
    assert dict(reports(source, "sm_90"))["frame"] != CLEAN


def compiled(header: str, folder: Path) -> Sequence[str]:
    source = folder / "alone.cu"
    source.write_text(f'#include "{header}"\n', encoding="utf-8")
    command = ["nvcc", *COMPILE, "-arch=sm_90", "-Werror", "all-warnings", "--cubin", f"-I{KERNELS}",
               "-o", str(folder / "alone.cubin"), str(source)]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_compiles_alone_under_nvcc(header: str, tmp_path: Path) -> None:
    assert compiled(header, tmp_path) == []


WIDE_READERS = ("matvec_by_warps", "matvec_by_blocks", "matvec_columns_4", "gemm", "gemm_transposed", "attention_64",
                "attention_128", "attention_up_to_64", "attention_up_to_512")  # fmt: skip


@needs_nvcc
@pytest.mark.slow
def test_weights_and_tables_are_read_16_bytes_at_a_time(tmp_path: Path) -> None:
    source, text = every_kernel(tmp_path), tmp_path / "kernels.ptx"
    command = ["nvcc", *COMPILE, "-arch=sm_90", "-ptx", f"-I{KERNELS}", "-o", str(text), str(source)]
    subprocess.run(command, check=True)
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)^\}", text.read_text("utf-8"), re.DOTALL | re.MULTILINE))
    assert [name for name in WIDE_READERS if "ld.global.nc.v4.f32" not in bodies[f"{name}_kernel"]] == []
    assert "v4" not in bodies["matvec_columns_1_kernel"]
