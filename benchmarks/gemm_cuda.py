"""Products of many rows by a weight in Q8_0 on this machine's GPU: tensor cores against dp4a, cuBLASLt and llama.cpp.

For M = 1 … 512 rows: microseconds and TOPS by the fastest count of subtiles, quantization of the rows included, the
share of what mma.sync reaches on this card (measured in the same run by a loop of nothing else), times of dp4a and the
crossover; cuBLASLt's int8 product, which has no scales and writes int32, where its library is found; llama.cpp's
MUL_MAT by q8_0 where its test-backend-ops is given, for the shapes that it times.

    python benchmarks/gemm_cuda.py [--shape NxK] [--test-backend-ops PATH] [--json]

Exits with 1 where there is no GPU, and where from 256 rows on the share is below 60 %.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from logos import Refused
from logos_cuda.gpu import Gpu, find_gpu
from logos_cuda.options import Options
from logos_cuda.tiling import SUBTILES
from logos_cuda.tuning import product_words, quantizing_words, timer

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
AIM, MANY = 0.6, 256
CEILING = """\
#include <stdio.h>

__global__ void __launch_bounds__(256) loop(int *out, int turns) {
    int d[8][4] = {};
    const unsigned a = threadIdx.x, b = blockIdx.x;
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, "
                         "{%0,%1,%2,%3};"
                         : "+r"(d[i][0]), "+r"(d[i][1]), "+r"(d[i][2]), "+r"(d[i][3])
                         : "r"(a), "r"(b));
        }
    }
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
    if (sum == 12345) *out = sum;
}

int main() {
    const int blocks = 132 * 16, turns = 4096;
    int *out;
    cudaEvent_t start, stop;
    if (cudaMalloc(&out, 4)) return 1;
    cudaEventCreate(&start), cudaEventCreate(&stop);
    for (int run = 0; run < 6; ++run) {
        float ms = 0;
        cudaEventRecord(start);
        loop<<<blocks, 256>>>(out, turns);
        cudaEventRecord(stop);
        if (cudaEventSynchronize(stop) || cudaEventElapsedTime(&ms, start, stop)) return 1;
        printf("%.9g\\n", 2.0 * 16 * 8 * 32 * 8 * turns * 8.0 * blocks / ms / 1e9);
    }
}
"""


@dataclass(frozen=True)
class Row:
    """M rows: microseconds of the tensor cores with their count of subtiles and of dp4a, both with the quantization;
    of cuBLASLt and of llama.cpp, None where they were not asked or do not tell; TOPS, and the share of the ceiling."""

    m: int
    nt: int
    mma: float
    dp4a: float
    cublas: float | None
    llama: float | None
    tops: float
    share: float

    @property
    def holds(self) -> bool:
        return self.m < MANY or self.share >= AIM


def ran(command: Sequence[str], what: str, folder: Path | None = None) -> str:
    """What a command prints; ends the run where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        by_hand = f"  next: run it by hand: {' '.join(command)}"
        sys.exit(f"{what} failed (exit code {done.returncode}): {lines[0]}\n{by_hand}")
    return done.stdout


def ceiling(gpu: Gpu, folder: Path) -> float:
    """TOPS of a loop of mma.sync alone: the best of six runs."""
    (folder / "loop.cu").write_text(CEILING, encoding="utf-8")
    ran(["nvcc", "-O3", f"-arch={gpu.arch}", "-o", "loop", "loop.cu"], "nvcc", folder)
    return max(float(line) for line in ran([str(folder / "loop")], "the loop").splitlines())


class CublasLt:
    """cuBLASLt's product of int8 matrices into int32, timed by the driver's events. `why` says what keeps it away."""

    _R_8I, _R_32I, _COMPUTE_32I, _TRANSPOSE, _TRANSPOSE_A = 3, 10, 72, 1, 3

    def __init__(self) -> None:
        self.why = ""
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
            self.library = self._library()
        except OSError as error:
            self.why = str(error)
            return
        self.handle, context = ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self.driver.cuInit(0))
        self._check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self._check(self.driver.cuCtxSetCurrent(context))
        self._check(self.library.cublasLtCreate(ctypes.byref(self.handle)))

    @staticmethod
    def _library() -> ctypes.CDLL:
        for name in ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"):
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise OSError("no libcublasLt.so is found: put its folder in LD_LIBRARY_PATH")

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise OSError(f"status {status}")

    def time(self, m: int, n: int, k: int, times: int = 50) -> float | None:
        """Microseconds of y (n, m) = Wᵀ x, column-major, the layout that its int8 kernels take; None where it takes no
        such shape: it may want multiples of 4."""
        if self.why:
            return None
        try:
            return self._time(m, n, k, times)
        except OSError as error:
            self.why = f"m {m}: {error}"
            return None

    def _time(self, m: int, n: int, k: int, times: int) -> float:
        description = ctypes.c_void_p()
        self._check(self.library.cublasLtMatmulDescCreate(ctypes.byref(description), self._COMPUTE_32I, self._R_32I))
        transpose = ctypes.c_int(self._TRANSPOSE)
        set_attribute = self.library.cublasLtMatmulDescSetAttribute
        self._check(set_attribute(description, self._TRANSPOSE_A, ctypes.byref(transpose), ctypes.c_size_t(4)))
        layouts = [self._layout(self._R_8I, k, n), self._layout(self._R_8I, k, m), self._layout(self._R_32I, n, m)]
        w, x, y = (self._memory(size) for size in (n * k, m * k, 4 * n * m))
        workspace, room = self._memory(1 << 25), ctypes.c_size_t(1 << 25)
        one, zero = ctypes.c_int(1), ctypes.c_int(0)

        def launch() -> None:
            self._check(self.library.cublasLtMatmul(
                self.handle, description, ctypes.byref(one), w, layouts[0], x, layouts[1], ctypes.byref(zero),
                y, layouts[2], y, layouts[2], None, workspace, room, None,
            ))  # fmt: skip

        try:
            return self._timed(launch, times)
        finally:
            for memory in (w, x, y, workspace):
                self.driver.cuMemFree_v2(memory)

    def _timed(self, launch: Callable[[], None], times: int) -> float:
        start, stop, took = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (start, stop):
            self._check(self.driver.cuEventCreate(ctypes.byref(event), 0))
        for turn in range(times + 10):
            if turn == 10:
                self._check(self.driver.cuEventRecord(start, None))
            launch()
        self._check(self.driver.cuEventRecord(stop, None))
        self._check(self.driver.cuEventSynchronize(stop))
        self._check(self.driver.cuEventElapsedTime(ctypes.byref(took), start, stop))
        return 1e3 * took.value / times

    def _layout(self, kind: int, rows: int, columns: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        self._check(self.library.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, *sizes))
        return made

    def _memory(self, size: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._check(self.driver.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(size)))
        self._check(self.driver.cuMemsetD8_v2(made, ctypes.c_ubyte(1), ctypes.c_size_t(size)))
        return made


def their_times(told: str, n: int, k: int) -> dict[int, float]:
    """llama.cpp's microseconds by rows, of what `test-backend-ops perf -o MUL_MAT` prints: its m is our n, its n our
    rows."""
    shape = rf"MUL_MAT\(type_a=q8_0,type_b=f32,m={n},n=(\d+),k={k},bs=\[1,1\],nr=\[1,1\]"
    return {int(rows): float(took) for rows, took in re.findall(rf"{shape}.*?\): +\d+ runs - +([\d.]+) us/run", told)}


def crossover(rows: Sequence[Row]) -> int | None:
    """The rows from which on the tensor cores are no slower; None where they are at the last."""
    slower = max((row.m for row in rows if row.mma > row.dp4a), default=0)
    return next((row.m for row in rows if row.m > slower), None)


def lacking(bench: str) -> str:
    """What keeps this machine from the run, with what to do; empty where nothing does."""
    if find_gpu() is None:
        return "there is no GPU here\n  next: run this on a machine with an NVIDIA GPU and its driver"
    if shutil.which("nvcc") is None:
        return "there is no nvcc on PATH\n  next: install NVIDIA's toolkit, or put its bin folder on PATH"
    if bench and shutil.which(bench) is None:
        return f"there is no {bench}\n  next: build llama.cpp with CUDA and give build/bin/test-backend-ops"
    return ""


def measured(gpu: Gpu, n: int, k: int, bench: str) -> tuple[float, list[Row], str]:
    """The card's ceiling, a row for each M, and why cuBLASLt is not in them."""
    with tempfile.TemporaryDirectory(prefix="logos-gemm-") as name:
        top = ceiling(gpu, Path(name))
    run, blas = timer(gpu, Options()), CublasLt()
    told = ran([bench, "perf", "-o", "MUL_MAT", "-b", "CUDA0"], "test-backend-ops") if bench else ""
    theirs = their_times(told, n, k)
    rows = []
    for m in ROWS:
        shape = (m, n, k)
        before = run(quantizing_words(shape))
        times = {nt: before + run(product_words(shape, nt)) for nt in SUBTILES}
        nt = min(times, key=lambda nt: times[nt])
        tops = 2e-6 * m * n * k / times[nt]
        dp4a = before + run(product_words(shape, 0))
        rows.append(Row(m, nt, times[nt], dp4a, blas.time(m, n, k), theirs.get(m), tops, tops / top))
    return top, rows, blas.why


def show(gpu: Gpu, n: int, k: int, top: float, rows: Sequence[Row], why: str) -> None:
    print(f"{gpu.name} ({gpu.arch}): n {n}, k {k}; mma.sync alone {top:,.0f} TOPS")
    print("    M  nt     mma us     TOPS  share    dp4a us  ratio   cuBLASLt  llama.cpp")
    for row in rows:
        others = "".join(f"{'-' if took is None else f'{took:,.1f}':>11}" for took in (row.cublas, row.llama))
        ours = f"{row.m:>5}{row.nt:>4}{row.mma:>11,.1f}{row.tops:>9,.1f}{row.share:>7.0%}"
        print(f"{ours}{row.dp4a:>11,.1f}{row.dp4a / row.mma:>7.2f}{others}")
    print(f"crossover: {crossover(rows) or 'none'}{f'; cuBLASLt: {why}' if why else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", default="4096x14336", help="The weight's rows and columns.")
    parser.add_argument("--test-backend-ops", default="", help="llama.cpp's program of that name, built with CUDA.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    given = parser.parse_args()
    sizes = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", given.shape)
    if sizes is None or int(sizes[2]) % 32:
        parser.error("--shape is rows x columns, such as 4096x14336, the columns a multiple of 32")
    if why := lacking(given.test_backend_ops):
        print(why, file=sys.stderr)
        return 1
    gpu = find_gpu()
    assert gpu is not None
    n, k = int(sizes[1]), int(sizes[2])
    try:
        top, rows, why = measured(gpu, n, k, given.test_backend_ops)
    except Refused as refused:
        print("\n".join(refusal.text() for refusal in refused.refusals), file=sys.stderr)
        return 1
    if given.json:
        record = {"gpu": asdict(gpu), "n": n, "k": k, "ceiling": top, "crossover": crossover(rows), "cublas": why}
        print(json.dumps(record | {"rows": [asdict(row) for row in rows]}))
    else:
        show(gpu, n, k, top, rows, why)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
