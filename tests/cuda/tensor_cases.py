"""Programs for the tensor-core product by a weight in Q8_0, as narrow_cases.py has for the other kernels of Q8_0."""

from __future__ import annotations

from dataclasses import replace

from kernel_bench import Case
from kernel_cases import EDGES, MANY, Generator, Make, Spec
from narrow_cases import BLOCKS, dp4a, product

from logos_cuda.storage import Storage
from logos_cuda.tiling import SUBTILES, Tiling

ROWS = (1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129)


def tensor(nt: int, *names: str) -> Storage:
    """Every product by these weights, of one row too, by `nt` subtiles."""
    return replace(dp4a(*names), tiling=Tiling(1, nt=nt, asked=True))


def tiles(nt: int) -> Make:
    """Rows and columns about a tile's; depths about a step's and a chunk's."""

    def make(random: Generator, i: int) -> Case:
        m, k, n = ROWS[(3 * i) % 17], 32 * BLOCKS[i % 17], int(random.choice(EDGES))
        if i == 0:
            m, k, n = 3, 32, MANY
        if i == 1:
            m, k, n = 9, 32 * 1029, 3
        return product(tensor(nt, "b"), m, k, n, random, i)

    return make


SPECS = tuple(Spec(f"gemm_q8_{nt}", ("quantize", f"gemm_q8_{nt}"), tiles(nt)) for nt in SUBTILES)
