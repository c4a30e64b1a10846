"""benchmarks/gemm_cuda.py: what it says where it cannot run, and what it makes of what it measures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from benchmark_module import load_benchmark, told

from logos_cuda.gpu import Gpu

THEIRS = (
    "  MUL_MAT(type_a=q8_0,type_b=f32,m=4096,n=1,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=0,o=1):"
    "  4 runs -  31.50 us/run - 117.44 MFLOP/run -   3.73 TFLOPS\n"
    "  MUL_MAT(type_a=q8_0,type_b=f32,m=4096,n=512,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],v=0):"
    "  8 runs - 150.25 us/run - 60.13 GFLOP/run - 400.2 TFLOPS\n"
    "  MUL_MAT(type_a=q4_0,type_b=f32,m=4096,n=8,k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],v=0):"
    "  8 runs - 1.0 us/run\n"
)


@pytest.fixture
def gemm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("gemm_cuda", monkeypatch)


def test_without_a_gpu_one_line_says_so(
    gemm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gemm, "find_gpu", lambda: None)
    assert told(gemm, capsys) == (
        1, "", "there is no GPU here\n  next: run this on a machine with an NVIDIA GPU and its driver\n"
    )  # fmt: skip


def test_a_shape_that_is_none_is_a_wrong_argument(gemm: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    sys.argv = ["gemm_cuda.py", "--shape", "40x48"]
    with pytest.raises(SystemExit):
        gemm.main()
    assert "--shape is rows x columns, such as 4096x14336, the columns a multiple of 32" in capsys.readouterr().err


def test_what_is_missing_is_named(gemm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "find_gpu", lambda: Gpu("NVIDIA H200", "sm_90"))
    monkeypatch.setattr(gemm.shutil, "which", lambda name: "nvcc" if name == "nvcc" else None)
    assert gemm.lacking("") == ""
    assert gemm.lacking("ops").startswith("there is no ops\n  next: build llama.cpp with CUDA")
    monkeypatch.setattr(gemm.shutil, "which", lambda name: None)
    assert gemm.lacking("").startswith("there is no nvcc on PATH")


def test_rows_stand_beside_dp4a_cublaslt_and_llama_cpp(
    gemm: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tensor cores take 38 µs up to 64 rows, by 4 subtiles, then as the rows; dp4a 10 µs a row; quantization 2 µs."""

    def run(words: Sequence[str]) -> float:
        rows = int(words[3])
        if words == gemm.quantizing_words((rows, 4096, 14336)):
            return 2.0
        if words == gemm.product_words((rows, 4096, 14336), 0):
            return 10.0 * rows
        slower = 0.0 if words == gemm.product_words((rows, 4096, 14336), 4) else 1.0
        return 38.0 * max(1, rows // 64) + slower

    monkeypatch.setattr(gemm, "find_gpu", lambda: Gpu("NVIDIA H200", "sm_90"))
    monkeypatch.setattr(gemm, "lacking", lambda bench: "")
    monkeypatch.setattr(gemm, "timer", lambda gpu, options: run)
    monkeypatch.setattr(gemm, "ceiling", lambda gpu, folder: 1000.0)
    monkeypatch.setattr(gemm, "ran", lambda command, what: THEIRS)
    blas = SimpleNamespace(why="", time=lambda m, n, k: None if m % 4 else 40.0)
    monkeypatch.setattr(gemm, "CublasLt", lambda: blas)
    code, out, err = told(gemm, capsys, "--test-backend-ops", "ops")
    lines = out.splitlines()
    assert (code, err, len(lines)) == (1, "", 13)
    assert [lines[i] for i in (0, 1, 2, 4, 10, 11, 12)] == [
        "NVIDIA H200 (sm_90): n 4096, k 14336; mma.sync alone 1,000 TOPS",
        "    M  nt     mma us     TOPS  share    dp4a us  ratio   cuBLASLt  llama.cpp",
        "    1   4       40.0      2.9     0%       12.0   0.30          -       31.5",
        "    4   4       40.0     11.7     1%       42.0   1.05       40.0          -",
        "  256   4      154.0    195.2    20%    2,562.0  16.64       40.0          -",
        "  512   4      306.0    196.5    20%    5,122.0  16.74       40.0      150.2",
        "crossover: 4",
    ]
    monkeypatch.setattr(gemm, "ceiling", lambda gpu, folder: 300.0)
    blas.why = "no library"
    code, out, _ = told(gemm, capsys, "--json")
    found = json.loads(out)
    assert (code, found["crossover"], found["cublas"], found["ceiling"]) == (0, 4, "no library", 300.0)
    assert found["rows"][-1]["share"] == pytest.approx(0.655, abs=1e-3)


def test_there_may_be_no_crossover_and_no_library(gemm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [gemm.Row(m, 2, mma, 5.0, None, None, 1.0, 0.1) for m, mma in ((1, 4.0), (2, 6.0))]
    assert gemm.crossover(rows) is None
    assert gemm.crossover(rows[:1]) == 1

    def none(name: str) -> None:
        raise OSError(f"{name}: cannot open")

    monkeypatch.setattr(gemm.ctypes, "CDLL", none)
    blas = gemm.CublasLt()
    assert blas.why == "libcuda.so.1: cannot open"
    assert blas.time(16, 16, 32) is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
def test_the_loop_compiles(gemm: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "loop.cu").write_text(gemm.CEILING, "utf-8")
    subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-c", "-o", "loop.o", "loop.cu"], cwd=tmp_path, check=True)
