"""Reading and writing rows by number, and the number of the largest element."""

from __future__ import annotations

from typing import Any

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes, TypeRule
from logos.ops.exact import Array


def argmax(X: Array) -> Array:
    """The index, from 0, of the first largest element of the flattened X, as a 1 by 1 Int. A NaN is an error."""
    if X.dtype.kind == "f" and np.isnan(X).any():
        raise ArithmeticError("the operand holds a NaN, so it has no largest element")
    return np.full((1, 1), int(np.argmax(X)), dtype=np.int64)


def argmax_rows(X: Array) -> Array:
    """`argmax` of each of T rows, as T by 1."""
    return np.concatenate([argmax(X[row : row + 1]) for row in range(X.shape[0])])


def embedding(TOK: int, TABLE: Array) -> Array:
    """Row TOK of TABLE, counted from 0. A row outside the table is an error."""
    return TABLE[TOK : TOK + 1].copy()


def embedding_rows(TOK: Array, TABLE: Array) -> Array:
    """Rows TOK, of T numbers, of TABLE."""
    return np.asarray(TABLE[TOK])


def set_row(P: int, T: Array, R: Array) -> dict[str, Any]:
    """Row P of table T, counted from 0, becomes the one-row R; the other rows stay. A row outside is an error."""
    table = T.copy()
    table[P] = R[0]
    return {"T": table}


def set_rows(P: Array, T: Array, R: Array) -> dict[str, Any]:
    """Rows P, of different numbers, of table T become the rows of R."""
    table = T.copy()
    table[P] = R
    return {"T": table}


_NO_NAN = """      Let number be 0.
      If item row, column of X = item row, column of X:
        Set number to 1.
      Let no_NaN be item number, 1 of X.
"""
"""A NaN does not equal itself, and then the row 0 of X is an error."""


def argmax_loops(form: LoopForm) -> str:
    return _argmax(_NO_NAN)


def argmax_of_numbers(form: LoopForm) -> str:
    """Where no item is a NaN."""
    return _argmax("")


def _argmax(check: str) -> str:
    return f"""
Repeat for once from 1 to 1:
  Let largest be item 1, 1 of X.
  Let place be 0.
  Repeat for row from 1 to r:
    Repeat for column from 1 to c:
{check}      If item row, column of X > largest:
        Set largest to item row, column of X.
        Set place to (row - 1) * c + column - 1.
  Set item 1, 1 of OUT to place.
"""


def embedding_loops(form: LoopForm) -> str:
    return f"""
Repeat for column from 1 to c:
  Set item 1, column of OUT to item {form.row("TOK")} + 1, column of TABLE.
"""


def set_row_loops(form: LoopForm) -> str:
    return f"""
Repeat for column from 1 to c:
  Set item {form.row("P")} + 1, column of T to item 1, column of R.
"""


OPS = (
    Op(
        "argmax",
        "argmax of X",
        (Shapes("X (r, c) -> (1, 1)"),),
        argmax,
        TypeRule.INT,
        exact=True,
        rows=Rows(("X",), value=argmax_rows),
        loops=argmax_loops,
        other_loops=(argmax_of_numbers,),
    ),
    Op(
        "embedding",
        "row TOK of TABLE",
        (Shapes("TABLE (n, c) -> (1, c)"),),
        embedding,
        TypeRule.SAME,
        indexes={"TOK": "n"},
        exact=True,
        rows=Rows(("TOK",), value=embedding_rows),
        loops=embedding_loops,
    ),
    Op(
        "set row",
        "Set row P of T to R",
        (Shapes("T (n, c), R (1, c)"),),
        set_row,
        TypeRule.SAME,
        indexes={"P": "n"},
        writes=("T",),
        exact=True,
        statement=True,
        rows=Rows(("P", "R"), value=set_rows, sets={"T": "P"}),
        loops=set_row_loops,
    ),
)
