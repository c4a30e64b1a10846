"""Products, sums and transposition."""

from __future__ import annotations

from logos.op import Op, Rows, Shapes, TypeRule
from logos.ops import exact
from logos.ops.exact import Array


def matmul(A: Array, B: Array) -> Array:
    """The matrix product: OUT[i, j] = Σ over k of A[i, k] · B[k, j].

    Exact on 64-bit integers when A and B are both Int.
    """
    return exact.dot(A, B)


def plus(A: Array, B: Array) -> Array:
    """A + B. A B of one row is added to every row of A, a 1 by 1 B to every element.

    Exact on 64-bit integers when A and B are both Int.
    """
    return exact.add(A, B)


def hadamard(A: Array, B: Array) -> Array:
    """A · B elementwise. A B of one row multiplies every row of A, a 1 by 1 B every element.

    Exact on 64-bit integers when A and B are both Int.
    """
    return exact.multiply(A, B)


def transpose(X: Array) -> Array:
    """The transpose: OUT[j, i] = X[i, j]."""
    return X.T


_PAIRWISE = (
    Shapes("A (r, c), B (r, c) -> (r, c)"),
    Shapes("A (r, c), B (1, c) -> (r, c)"),
    Shapes("A (r, c), B (1, 1) -> (r, c)"),
)

OPS = (
    Op(
        "matmul",
        "A matmul B",
        (Shapes("A (m, k), B (k, n) -> (m, n)"),),
        matmul,
        TypeRule.SAME,
        exact=True,
        rows=Rows(("A",), rowwise=True),
    ),
    Op("plus", "A plus B", _PAIRWISE, plus, TypeRule.SAME, exact=True, rows=Rows(("A", "B"), True, plus)),
    Op(
        "hadamard",
        "A hadamard B",
        _PAIRWISE,
        hadamard,
        TypeRule.SAME,
        exact=True,
        rows=Rows(("A", "B"), True, hadamard),
    ),
    Op("transpose", "transpose of X", (Shapes("X (r, c) -> (c, r)"),), transpose, TypeRule.SAME, exact=True),
)
