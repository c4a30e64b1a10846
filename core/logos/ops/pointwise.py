"""Functions of each element, and softmax."""

from __future__ import annotations

import math
from functools import partial

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes
from logos.ops.exact import Array


def sigmoid(X: Array) -> Array:
    """1 / (1 + e^−x), without overflow on either side."""
    small = np.exp(-np.abs(X))
    return np.where(X >= 0, 1.0, small) / (1.0 + small)


def silu(X: Array) -> Array:
    """x · sigmoid(x) (Elfwing, Uchibe, Doya 2018)."""
    return X * sigmoid(X)


def gelu(X: Array) -> Array:
    """The tanh approximation of GELU (Hendrycks and Gimpel 2016): x / (1 + e^(−2z)), z = √(2/π) (x + 0.044715 x³)."""
    return X * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (X + 0.044715 * X**3))


def swiglu(GATE: Array, UP: Array) -> Array:
    """silu(gate) · up elementwise (Shazeer 2020)."""
    return silu(GATE) * UP


def softmax(X: Array) -> Array:
    """e^x / Σ e^x per row, shifted by the row's maximum."""
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


_EACH = """
Repeat for row from 1 to r:
  Repeat for column from 1 to c:
"""
SIGMOID_LINES = """
    Let small be x.
    If x > 0:
      Set small to -x.
    Set small to exp(small).
    Let share be small / (1 + small).
    If x >= 0:
      Set share to 1 / (1 + small).
"""
"""sigmoid(x) is `share`: e to a number that is not positive does not overflow."""


def _each(x: str, out: str) -> str:
    return f"{_EACH}    Let x be {x}.{SIGMOID_LINES}    Set item row, column of OUT to {out}.\n"


_OUT = "item row, column of OUT"
_POWER = "exp(item row, column of X - largest)"
_SHARES = (
    f"""  Let sum be 0.
  Repeat for column from 1 to c:
    Set {_OUT} to {_POWER}.
    Set sum to sum + {_OUT}.
  Repeat for column from 1 to c:
    Set {_OUT} to {_OUT} / sum.
""",
    f"""  Repeat for column from 1 to c:
    Set {_OUT} to {_POWER}.
  Let sum be 0.
  Repeat for column from 1 to c:
    Set sum to sum + {_OUT}.
  Repeat for column from 1 to c:
    Set {_OUT} to {_OUT} / sum.
""",
    f"""  Let sum be 0.
  Repeat for column from 1 to c:
    Set sum to sum + {_POWER}.
  Repeat for column from 1 to c:
    Set {_OUT} to {_POWER} / sum.
""",
)
"""A row's powers of e in OUT, by their sum: summed as they are made, summed by a loop of their own, or made twice."""


def _softmax(shares: str, form: LoopForm) -> str:
    return f"""
Repeat for row from 1 to r:
  Let largest be item row, 1 of X.
  Repeat for column from 1 to c:
    If item row, column of X > largest:
      Set largest to item row, column of X.
{shares}"""


def sigmoid_loops(form: LoopForm) -> str:
    return _each("item row, column of X", "share")


def silu_loops(form: LoopForm) -> str:
    return _each("item row, column of X", "x * share")


def gelu_loops(form: LoopForm) -> str:
    x = "item row, column of X"
    return _each(f"2 * sqrt(2 / {math.pi!r}) * ({x} + 0.044715 * pow({x}, 3))", f"{x} * share")


def swiglu_loops(form: LoopForm) -> str:
    return _each("item row, column of GATE", "x * share * item row, column of UP")


_SAME = (Shapes("X (r, c) -> (r, c)"),)
_ROWS = Rows(("X",), rowwise=True)
_SOFTMAX = tuple(partial(_softmax, shares) for shares in _SHARES)

OPS = (
    Op("softmax", "softmax of X", _SAME, softmax, rows=_ROWS, loops=_SOFTMAX[0], other_loops=_SOFTMAX[1:]),
    Op("sigmoid", "sigmoid of X", _SAME, sigmoid, rows=_ROWS, loops=sigmoid_loops),
    Op("silu", "silu of X", _SAME, silu, rows=_ROWS, loops=silu_loops),
    Op("gelu", "gelu of X", _SAME, gelu, rows=_ROWS, loops=gelu_loops),
    Op(
        "swiglu",
        "swiglu of GATE and UP",
        (Shapes("GATE (r, c), UP (r, c) -> (r, c)"),),
        swiglu,
        rows=Rows(("GATE", "UP"), True, swiglu),
        loops=swiglu_loops,
    ),
)
