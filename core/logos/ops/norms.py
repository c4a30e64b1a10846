"""Normalizations."""

from __future__ import annotations

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes
from logos.ops.exact import Array

EPS = 1e-6


def _runs(X: Array, H: int | None) -> Array:
    return X if H is None else X.reshape(H, -1)


def rmsnorm(X: Array, RES: Array | None, W: Array | None, EPS: float, H: int | None) -> Array:
    """Root mean square normalization (Zhang and Sennrich 2019): y = x / √(mean(x²) + eps) · w.

    With `plus RES`, x is X + RES first; a weight is then required. The mean runs over each row of X or, `across H
    heads`, over each of the H equal runs of a one-row X. W is one row as long as a run; without it, w = 1.
    """
    x = _runs(X if RES is None else X + RES, H)
    y = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPS)
    return np.asarray(y if W is None else y * W).reshape(X.shape)


def _rows_of_runs(X: Array, H: int | None) -> Array:
    """(T, runs, width)"""
    return X.reshape(X.shape[0], 1 if H is None else H, -1)


def rmsnorm_rows(X: Array, RES: Array | None, W: Array | None, EPS: float, H: int | None) -> Array:
    """`rmsnorm` of T one-row operands, W's row one for each."""
    x = _rows_of_runs(X if RES is None else X + RES, H)
    y = x / np.sqrt(np.mean(x * x, axis=2, keepdims=True) + EPS)
    return np.asarray(y if W is None else y * W[:, None, :]).reshape(X.shape)


def layernorm(X: Array, W: Array, B: Array, EPS: float) -> Array:
    """Layer normalization (Ba, Kiros, Hinton 2016): (x − mean) / √(var + eps) · w + b per row, var biased."""
    x = X - X.mean(axis=1, keepdims=True)
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPS) * W + B)


def l2norm(X: Array, EPS: float, H: int | None) -> Array:
    """x / √(Σ x² + eps) per row or, `across H heads`, per run of a one-row X."""
    x = _runs(X, H)
    return np.asarray(x / np.sqrt(np.sum(x * x, axis=1, keepdims=True) + EPS)).reshape(X.shape)


def l2norm_rows(X: Array, EPS: float, H: int | None) -> Array:
    """`l2norm` of T one-row operands."""
    x = _rows_of_runs(X, H)
    return np.asarray(x / np.sqrt(np.sum(x * x, axis=2, keepdims=True) + EPS)).reshape(X.shape)


def _over_runs(form: LoopForm, body: str) -> str:
    """The body for each row of X, or for each of H runs of its one row; `{at}` is the place of the element numbered
    `place` of the run, `{width}` how many there are."""
    if "H" in form.present:
        text = body.format(at="1, (head - 1) * w + place", width="w")
        return f"\nRepeat for head from 1 to H:{text}"
    return f"\nRepeat for row from 1 to r:{body.format(at='row, place', width='c')}"


def rmsnorm_loops(form: LoopForm) -> str:
    x = "item {at} of X" + (" + item {at} of RES" if "RES" in form.present else "")
    weight = " * item 1, place of W" if "W" in form.present else ""
    return _over_runs(
        form,
        f"""
  Let sum be 0.
  Repeat for place from 1 to {{width}}:
    Let x be {x}.
    Set sum to sum + x * x.
  Let norm be sqrt(sum / {{width}} + EPS).
  Repeat for place from 1 to {{width}}:
    Set item {{at}} of OUT to ({x}) / norm{weight}.
""",
    )


def layernorm_loops(form: LoopForm) -> str:
    return """
Repeat for row from 1 to r:
  Let sum be 0.
  Repeat for column from 1 to c:
    Set sum to sum + item row, column of X.
  Let mean be sum / c.
  Let squares be 0.
  Repeat for column from 1 to c:
    Let x be item row, column of X - mean.
    Set squares to squares + x * x.
  Let norm be sqrt(squares / c + EPS).
  Repeat for column from 1 to c:
    Let x be item row, column of X - mean.
    Set item row, column of OUT to x / norm * item 1, column of W + item 1, column of B.
"""


def l2norm_loops(form: LoopForm) -> str:
    return _over_runs(
        form,
        """
  Let sum be 0.
  Repeat for place from 1 to {width}:
    Set sum to sum + item {at} of X * item {at} of X.
  Let norm be sqrt(sum + EPS).
  Repeat for place from 1 to {width}:
    Set item {at} of OUT to item {at} of X / norm.
""",
    )


OPS = (
    Op(
        "rmsnorm",
        "rmsnorm of X [plus RES] [with weight W] [with eps EPS] [across H heads]",
        (
            Shapes("X (r, c), RES (r, c), W (1, c) -> (r, c)", absent=("H",)),
            Shapes("X (1, H*w), RES (1, H*w), W (1, w) -> (1, H*w)", given=("H",)),
        ),
        rmsnorm,
        counts=("H",),
        values={"EPS": EPS},
        requires={"RES": "W"},
        rows=Rows(("X", "RES", "W"), True, rmsnorm_rows),
        loops=rmsnorm_loops,
    ),
    Op(
        "layernorm",
        "layernorm of X with weight W and bias B [with eps EPS]",
        (Shapes("X (r, c), W (1, c), B (1, c) -> (r, c)"),),
        layernorm,
        values={"EPS": EPS},
        rows=Rows(("X", "W", "B"), True, layernorm),
        loops=layernorm_loops,
    ),
    Op(
        "l2norm",
        "l2norm of X [with eps EPS] [across H heads]",
        (
            Shapes("X (r, c) -> (r, c)", absent=("H",)),
            Shapes("X (1, H*w) -> (1, H*w)", given=("H",)),
        ),
        l2norm,
        counts=("H",),
        values={"EPS": EPS},
        rows=Rows(("X",), True, l2norm_rows),
        loops=l2norm_loops,
    ),
)
