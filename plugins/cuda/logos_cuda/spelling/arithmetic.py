"""Products, sums and transposition."""

from __future__ import annotations

from logos_cuda.lowering import FAULT, Lowering, Parameter, blocks_for, quants
from logos_cuda.spelling.chains import chain
from logos_cuda.spelling.tensor import tensor_product
from logos_cuda.stages import Buffer, Element
from logos_cuda.storage import Multiply

FILLING_ROWS = 2048
"""Rows of a weight from which a warp for each fills a device; fewer rows get a block each."""

SHORT_ROW = 512
"""Columns up to which a warp holds a whole row in one round of its loads."""

TOGETHER = 8
"""Rows by which a weight in Q8_0 is multiplied while it is read once."""

SHORT_Q8_ROW = 2048
"""The same as SHORT_ROW for a row in Q8_0, of which a load takes four times as many elements."""

_TILE = 64
_MOST_ROW_BLOCKS = 65536


def matmul(lowering: Lowering) -> None:
    """One row: a matrix-vector product that reads B once. More: tiles. Two Int operands: exact."""
    m, k, n = (lowering.sizes[symbol] for symbol in ("m", "k", "n"))
    out = lowering.out
    if not out.real:
        sizes: list[Parameter] = [("Size m", m), ("Size k", k), ("Size n", n)]
        operands = [("const Int *a", lowering.buffer("A")), ("const Int *b", lowering.buffer("B")), ("Int *y", out)]
        parameters: list[Parameter] = [*operands, FAULT, *sizes]
        lowering.launch("matmul_int", "matmul_int.cuh", "matmul_int", parameters, blocks_for(m * n))
        return
    b = lowering.real("B")
    if b.element is Element.QUANT:
        _product_q8(lowering, b, out, (m, k, n))
        return
    product(lowering, lowering.real("A"), b, out, (m, k, n), b.transposed)


def product(
    lowering: Lowering, a: Buffer, b: Buffer, y: Buffer, sizes: tuple[int, int, int], transposed: bool
) -> None:
    """y (m, n) = a (m, k) times b, which is (k, n) or, transposed, (n, k)."""
    m, k, n = sizes
    if m == 1:
        _one_row(lowering, a, b, y, (k, n), transposed)
        return
    blocks = min(-(-m // _TILE) * -(-n // _TILE), _MOST_ROW_BLOCKS)
    name, flag = ("gemm_transposed", "true") if transposed else ("gemm", "false")
    parameters: list[Parameter] = [
        ("const Real *a", a), ("const Real *b", b), ("Real *y", y),
        ("Size m", m), ("Size k", k), ("Size n", n),
    ]  # fmt: skip
    lowering.launch(name, "gemm.cuh", f"gemm<{flag}>", parameters, blocks)


def _product_q8(lowering: Lowering, b: Buffer, y: Buffer, sizes: tuple[int, int, int]) -> None:
    """y (m, n) = A (m, k) times b, which is (n, k) in Q8_0."""
    m, k, n = sizes
    tiling = lowering.storage.tiling
    if tiling is not None and tiling.takes(m, k, n):
        tensor_product(lowering, b, y, sizes, tiling.subtiles(m, k, n))
        return
    rows, suffix = (1, "") if m == 1 else (TOGETHER, "_rows")
    multiply = lowering.storage.multiply
    lowering.notes.append(f"{lowering.value('B').name} in Q8_0, multiplied {multiply.value}")
    last: list[Parameter] = [("Real *y", y), ("Size m", m), ("Size k", k), ("Size n", n)]
    if multiply is Multiply.EXACT:
        parameters: list[Parameter] = [("const Real *x", lowering.real("A")), *quants("w", b, True), *last]
        blocks = min(-(-n // 4), _MOST_ROW_BLOCKS)
        name = f"matvec_exact{suffix}"
        lowering.launch(name, "exact_q8.cuh", f"matvec_exact<{rows}>", parameters, blocks, threads=128)
        return
    parameters = [*quants("x", lowering.quantized("A"), True), *quants("w", b, True), *last]
    by, together, blocks = by_q8_rows(k, n)
    name, call = f"matvec_q8_by_{by}{suffix}", f"matvec_q8<{128 // together}, {rows}>"
    lowering.launch(name, "matvec_q8.cuh", call, parameters, blocks, 128, registers=True)


def _one_row(
    lowering: Lowering, a: Buffer, b: Buffer, y: Buffer, sizes: tuple[int, int], transposed: bool
) -> None:
    k, n = sizes
    last: list[Parameter] = [("Real *y", y), ("Size k", k), ("Size n", n)]
    if not transposed:
        width = 4 if n % 4 == 0 else 1
        parameters: list[Parameter] = [("const Real *x", a), ("const Real *b", b), *last]
        blocks = min(-(-n // (32 * width)), _MOST_ROW_BLOCKS)
        lowering.launch(f"matvec_columns_{width}", "matvec.cuh", f"matvec_columns<{width}>", parameters, blocks)
        return
    parameters = [("const Real *x", a), ("const Real *w", b), *last]
    by, _, blocks = by_rows(k, n)
    lowering.launch(f"matvec_by_{by}", "matvec.cuh", f"matvec_by_{by}", parameters, blocks, threads=128)


def by_rows(k: int, n: int) -> tuple[str, int, int]:
    """Whether warps or blocks of 128 threads take the n rows of a float weight, how many at once, and the blocks."""
    by, together = ("warps", 4) if n >= FILLING_ROWS or k <= SHORT_ROW else ("blocks", 1)
    return by, together, min(-(-n // together), _MOST_ROW_BLOCKS)


def by_q8_rows(k: int, n: int) -> tuple[str, int, int]:
    """The same of a weight in Q8_0."""
    by, together = ("warps", 4) if n >= FILLING_ROWS or k <= SHORT_Q8_ROW else ("blocks", 1)
    return by, together, min(-(-n // together), _MOST_ROW_BLOCKS)


def pairwise(lowering: Lowering) -> None:
    """A sum or product of elements, B spread over A's rows or over all elements."""
    if lowering.made is not None:
        chain(lowering, [lowering.node])
        return
    op = lowering.node.op.name
    function, out = op.capitalize(), lowering.out
    a, b = lowering.value("A"), lowering.value("B")
    spread = "same" if a.shape == b.shape else "scalar" if b.size == 1 else "row"
    sizes: list[Parameter] = [("Size n", a.size), ("Size columns", a.columns)]
    kind = "Real" if out.real else "Int"
    taken = lowering.real if out.real else lowering.buffer
    operands = [(f"const {kind} *a", taken("A")), (f"const {kind} *b", taken("B")), (f"{kind} *y", out)]
    name = f"{op}_{spread}" if out.real else f"{op}_{spread}_int"
    call = f"{'pairwise' if out.real else 'pairwise_int'}<{function}, {spread.upper()}>"
    parameters: list[Parameter] = [*operands, *sizes] if out.real else [*operands, FAULT, *sizes]
    lowering.launch(name, "elementwise.cuh", call, parameters, blocks_for(a.size))


def transpose(lowering: Lowering) -> None:
    """OUT[j, i] = X[i, j], in tiles of 32 by 32."""
    x = lowering.value("X")
    kind, name = ("Real", "transpose") if x.real else ("Int", "transpose_int")
    parameters: list[Parameter] = [
        (f"const {kind} *x", lowering.buffer("X")), (f"{kind} *y", lowering.out),
        ("Size rows", x.rows), ("Size columns", x.columns),
    ]  # fmt: skip
    blocks = min(-(-x.rows // 32) * -(-x.columns // 32), _MOST_ROW_BLOCKS)
    lowering.launch(name, "transpose.cuh", f"transpose<{kind}>", parameters, blocks)
