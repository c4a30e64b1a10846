"""Named mistakes in named kernels, each of which the run on the host must find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """In a header, the first `old` after the text `after` becomes `new`: `why` that is wrong. The shapes `shapes` of
    `spec` find it, and what is said of them matches `shows`. `quick` ones are part of the fast tests."""

    name: str
    spec: str
    header: str
    after: str
    old: str
    new: str
    why: str
    shows: str = "off by|not finite|Int differ"
    shapes: tuple[int, ...] = (3, 4, 5, 8, 11, 20, 23)
    quick: bool = False


SYNC = "__syncthreads();"
READ = "AddressSanitizer|not finite|off by"
ALL = tuple(range(3, 30))

BARRIERS = (
    Mutant("reduction-written-early", "rmsnorm_wide", "logos.cuh", "x = warp_join<Join>(x);", SYNC, "",
           "the next row's sums overwrite those still read", shapes=(2, 5, 8, 11)),
    Mutant("reduction-read-early", "softmax_wide", "logos.cuh", "partial[warp] = x;", SYNC, "",
           "sums are read before every warp has written its own"),
    Mutant("tile-read-early", "gemm", "gemm.cuh", "bring(b, right, depth, start", SYNC, "",
           "a tile is read before it is there", shapes=(3, 4, 5), quick=True),
    Mutant("tile-overwritten", "gemm", "gemm.cuh", "fmaf(rows[r]", SYNC, "",
           "a tile is overwritten while it is read", shapes=(2, 23, 26, 29)),
    Mutant("transposed-early", "transpose", "transpose.cuh", "tile[i * 33 + lane] = x", SYNC, "",
           "the tile is read before it is there"),
    Mutant("tile-reused-early", "transpose", "transpose.cuh", "tile[lane * 33 + i]", SYNC, "",
           "the next tile overwrites this one", shapes=(1, 2, 20, 23, 26)),
    Mutant("columns-reused-early", "matvec_columns_4", "matvec.cuh", "y[start + i] = total", SYNC, "",
           "the next columns' sums overwrite these", shapes=(8, 20, 23, 26, 29)),
    Mutant("query-read-early", "attention_64", "attention.cuh", "* scale : 0.0f", SYNC, "",
           "scores are of a query that is not there yet"),
    Mutant("parts-joined-early", "attention_128", "attention.cuh", "= part[head].sum;", SYNC, "",
           "warps' parts are joined before they are there"),
    Mutant("best-read-early", "argmax", "argmax.cuh", "indexes[warp] = best.index", SYNC, "",
           "warps' best are compared before they are there"),
)  # fmt: skip

OFF_BY_ONE = (
    Mutant("tile-one-short", "gemm_transposed", "gemm.cuh", "int d = 0;", "d < DEPTH", "d < DEPTH - 1",
           "the last of a tile's depth is left out"),
    Mutant("chunk-lost", "gemm", "gemm.cuh", "due == 0", "depth + DEPTH >= k", "depth + DEPTH > k",
           "sums of a depth that is a multiple of the tile's are dropped", shapes=ALL),
    Mutant("pitch-one-less", "transpose", "transpose.cuh", "= tile[", "lane * 33", "lane * 32",
           "the tile is read at another pitch than it was written"),
    Mutant("last-row-left-out", "attention_up_to_64", "attention.cuh", "checked_row(last", "stage) + 1", "stage)",
           "the row at P is not attended to"),
    Mutant("split-one-short", "attention_64", "attention.cuh", "const Size share =", "(stop + splits - 1)", "stop",
           "rows left over by the split are not attended to", shapes=(4, 7, 8, 10)),
    Mutant("pair-one-late", "rope", "rope.cuh", "at = i % width;", "at < half", "at <= half",
           "the first of the second half turns as one of the first", shows=READ),
    Mutant("ties-to-the-last", "argmax", "argmax.cuh", "other == value", "at < index", "at > index",
           "of equal elements the last is taken"),
)  # fmt: skip

UNWRITTEN = (
    Mutant("last-row-unwritten", "matvec_by_warps", "matvec.cuh", "row = first_index() / 32;", "row < n", "row < n - 1",
           "the last result keeps what memory held"),
    Mutant("tail-unwritten", "silu", "elementwise.cuh", "void map(", "4 * vectors", "1 + 4 * vectors",
           "one element after the last four keeps what memory held"),
    Mutant("rows-unwritten", "softmax_narrow", "softmax.cuh", "row < rows;", "row += ", "row += 2 * ",
           "every second round of rows is left out", shapes=(2, 5, 8, 11, 14, 17)),
    Mutant("empty-part-unwritten", "attention_up_to_64", "attention.cuh", "= total;", "at == 0",
           "at == 0 && begin < end", "a part of no rows says nothing of itself", shapes=(1, 4, 7, 10, 13, 16)),
)  # fmt: skip

DIVERGENT = (
    Mutant("shuffle-in-a-branch", "attention_128", "attention.cuh", "score = dot4(", "score = warp_join",
           "if (there) score = warp_join", "lanes without a row do not take part in the sum",
           shows="exit 86.*__shfl_xor_sync", shapes=(3, 4), quick=True),
    Mutant("barrier-in-a-branch", "transpose", "transpose.cuh", "tile[i * 33 + lane] = x", SYNC,
           f"if (warp < 4) {SYNC}", "half of the warps do not come to the barrier", shows="exit 86.*__syncthreads"),
)  # fmt: skip

BEYOND = (
    Mutant("row-read-past-its-end", "matvec_by_blocks", "matvec.cuh", "*a = x + lane", "left > 3 * lanes",
           "left > 2 * lanes", "the last lanes read beyond the row", shows=READ, shapes=ALL),
    Mutant("head-read-past-its-end", "attention_128", "attention.cuh", "got.z = ", "if (at + 3 < width)", "",
           "an element beyond the last head is read", shows=READ, shapes=ALL[:9]),
    Mutant("four-written-past-the-end", "gelu", "elementwise.cuh", "void map(", "i < vectors", "i <= vectors",
           "four elements beyond the last are written", shows="AddressSanitizer", shapes=(3, 4), quick=True),
    Mutant("tile-read-past-its-end", "gemm", "gemm.cuh", "got.z = ", "if (column + 3 < columns)", "",
           "an element beyond a matrix is read", shows=READ, shapes=ALL),
)  # fmt: skip

MUTANTS = (*BARRIERS, *OFF_BY_ONE, *UNWRITTEN, *DIVERGENT, *BEYOND)
