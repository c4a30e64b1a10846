"""Kind gemm: one product by a weight in Q8_0, on the tensor cores, captured as one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator

from logos import Job, Q8Reference, Refusal, Source, Spot, make_manager, read_program
from logos_cuda.block import block_text, shared_stem
from logos_cuda.choice import storage_of
from logos_cuda.lower import stored_graph
from logos_cuda.storage import Multiply, Storage, name_of
from logos_cuda.tiling import SUBTILES, Tiling


def emit_marlin_q8_gemm(nt: int, rows: int, weight: Q8Reference, *, file: str = "gemm.cu") -> str:
    """y (rows, n) = x (rows, k) times a weight's transpose on the tensor cores, as one CUDA source.

    `weight` is (n, k) in Q8_0, read by its files' names, STEM.q and STEM.s, in a folder; x comes by `--set x=FILE`,
    else it is the ramp. A warp makes two rows of `nt` subtiles of 16 by 8 results, a block of eight warps 64 rows and
    32 nt columns. Activations are quantized to 8 bits with a scale for each 32; of each 32 products
    the sum is exact and is scaled in float32, as by dp4a. Raises ValueError for an nt that there is no kernel for, rows
    below 1 or files not named alike; ForwardError with the limit for sizes beyond the kernel.
    """
    if nt not in SUBTILES:
        raise ValueError(f"nt is {nt}; there are kernels for {', '.join(map(str, SUBTILES))}")
    if rows < 1:
        raise ValueError(f"rows is {rows}; there is at least one")
    n, k = weight.rows, weight.columns
    text = (
        f"Let x be a {rows} by {k} tensor of Real.\nLet W be a {k} by {n} tensor of Real.\nLet y be x matmul W.\n"
    )
    graph = read_program(Source("gemm.lg", text), make_manager().grammar)
    storage = Storage(frozenset("W"), Multiply.DP4A, tiling=Tiling(1, nt=nt, asked=True))
    return block_text(stored_graph(graph, storage), file, {"W": shared_stem(weight)})


def gemm_refusals(job: Job) -> Iterator[Refusal]:
    """Why a program is no product (`not-a-gemm`)."""
    graph, q8 = job.graph, storage_of(job).q8
    products = [node for node in graph.nodes if node.op.name == "matmul"]
    if len(products) != 1:
        has = f"{len(products)} matmuls"
    elif (name := name_of(products[0], "B")) not in q8:
        has = f"its weight {name} in float32"
    elif graph.states:
        has = f"the state {graph.states[0].name}"
    else:
        return
    what = f"kind gemm takes a program with one matmul by a weight in Q8_0 and no state; this one has {has}"
    next_ = "name the weight in -D q8=NAME, or leave the option kind out"
    yield Refusal("not-a-gemm", what, Spot(graph.source.name), next_)
