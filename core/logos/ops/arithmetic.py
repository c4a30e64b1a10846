"""Products, sums and transposition."""

from __future__ import annotations

from logos.op import LoopForm, Op, Rows, Shapes, TypeRule
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


def matmul_loops(form: LoopForm) -> str:
    return """
Repeat for row from 1 to m:
  Repeat for column from 1 to n:
    Let sum be 0.
    Repeat for inner from 1 to k:
      Set sum to sum + item row, inner of A * item inner, column of B.
    Set item row, column of OUT to sum.
"""


def matmul_in_place(form: LoopForm) -> str:
    """The sum in OUT itself."""
    return """
Repeat for row from 1 to m:
  Repeat for column from 1 to n:
    Set item row, column of OUT to 0.
    Repeat for inner from 1 to k:
      Set item row, column of OUT to item row, column of OUT + item row, inner of A * item inner, column of B.
"""


def _pairwise_loops(sign: str, form: LoopForm) -> str:
    rows, columns = form.rule.operands["B"]
    place = f"{'row' if rows == 'r' else '1'}, {'column' if columns == 'c' else '1'}"
    return f"""
Repeat for row from 1 to r:
  Repeat for column from 1 to c:
    Set item row, column of OUT to item row, column of A {sign} item {place} of B.
"""


def plus_loops(form: LoopForm) -> str:
    return _pairwise_loops("+", form)


def hadamard_loops(form: LoopForm) -> str:
    return _pairwise_loops("*", form)


def transpose_loops(form: LoopForm) -> str:
    return """
Repeat for row from 1 to r:
  Repeat for column from 1 to c:
    Set item column, row of OUT to item row, column of X.
"""


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
        loops=matmul_loops,
        other_loops=(matmul_in_place,),
    ),
    Op(
        "plus",
        "A plus B",
        _PAIRWISE,
        plus,
        TypeRule.SAME,
        exact=True,
        rows=Rows(("A", "B"), True, plus),
        loops=plus_loops,
    ),
    Op(
        "hadamard",
        "A hadamard B",
        _PAIRWISE,
        hadamard,
        TypeRule.SAME,
        exact=True,
        rows=Rows(("A", "B"), True, hadamard),
        loops=hadamard_loops,
    ),
    Op(
        "transpose",
        "transpose of X",
        (Shapes("X (r, c) -> (c, r)"),),
        transpose,
        TypeRule.SAME,
        exact=True,
        loops=transpose_loops,
    ),
)
