"""Products by weights in Q8_0 on the tensor cores."""

from __future__ import annotations

from logos_cuda.lowering import Lowering, Parameter, quants
from logos_cuda.stages import Buffer
from logos_cuda.tiling import STAGES, THREADS, limits, shared_bytes, tiles

_MOST_BLOCKS = 65536


def tensor_product(lowering: Lowering, b: Buffer, y: Buffer, sizes: tuple[int, int, int], nt: int) -> None:
    """y (m, n) = A (m, k) times b, which is (n, k) in Q8_0, `nt` subtiles a warp."""
    m, k, n = sizes
    if odd := limits(k, n):
        lowering.refuse(f"{lowering.value('B').name} in Q8_0 by mma: {odd}")
        return
    lowering.notes.append(f"{lowering.value('B').name} in Q8_0, multiplied mma by {nt} subtiles")
    parameters: list[Parameter] = [
        *quants("x", lowering.quantized("A"), True), *quants("w", b, True),
        ("Real *y", y), ("Size m", m), ("Size k", k), ("Size n", n),
    ]  # fmt: skip
    blocks = min(tiles(nt, m, n), _MOST_BLOCKS)
    call = f"gemm_q8<{nt}, {STAGES[nt]}>"
    shared = shared_bytes(nt)
    lowering.launch(f"gemm_q8_{nt}", "gemm_q8.cuh", call, parameters, blocks, THREADS, registers=True, shared=shared)
