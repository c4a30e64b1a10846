"""Functions of each element, and softmax."""

from __future__ import annotations

import math

from logos.late import np
from logos.op import Op, Rows, Shapes
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


_SAME = (Shapes("X (r, c) -> (r, c)"),)
_ROWS = Rows(("X",), rowwise=True)

OPS = (
    Op("softmax", "softmax of X", _SAME, softmax, rows=_ROWS),
    Op("sigmoid", "sigmoid of X", _SAME, sigmoid, rows=_ROWS),
    Op("silu", "silu of X", _SAME, silu, rows=_ROWS),
    Op("gelu", "gelu of X", _SAME, gelu, rows=_ROWS),
    Op(
        "swiglu",
        "swiglu of GATE and UP",
        (Shapes("GATE (r, c), UP (r, c) -> (r, c)"),),
        swiglu,
        rows=Rows(("GATE", "UP"), True, swiglu),
    ),
)
