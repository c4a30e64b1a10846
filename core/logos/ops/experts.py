"""Routed experts."""

from __future__ import annotations

from logos.late import np
from logos.op import Op, Rows, Shapes
from logos.ops.exact import Array
from logos.ops.pointwise import silu, softmax


def moe(X: Array, WR: Array, WG: Array, WU: Array, WD: Array, TOP: int, EXPERTS: int) -> Array:
    """A mixture of SwiGLU experts (Shazeer et al. 2017; Fedus et al. 2021), per row of X.

    Scores WR x; softmax over all experts; the TOP largest are kept (ties: the lowest index first) and renormalized to
    sum 1; OUT = Σ p_e · D_e (silu(G_e x) · U_e x). Expert e's rows start at e·f in WG and WU and at e·d in WD.
    """
    d, f = WD.shape[0] // EXPERTS, WD.shape[1]
    probabilities = softmax(X @ WR.T)
    chosen = np.argsort(-probabilities, axis=1, kind="stable")[:, :TOP]
    shares = np.take_along_axis(probabilities, chosen, axis=1)
    shares = shares / shares.sum(axis=1, keepdims=True)
    out = np.zeros_like(X)
    for expert in np.unique(chosen):
        # Each expert is read once, for all rows that chose it.
        rows, places = np.nonzero(chosen == expert)
        gate, up = WG[expert * f : (expert + 1) * f], WU[expert * f : (expert + 1) * f]
        hidden = silu(X[rows] @ gate.T) * (X[rows] @ up.T)
        out[rows] += shares[rows, places, None] * (hidden @ WD[expert * d : (expert + 1) * d].T)
    return out


OPS = (
    Op(
        "moe",
        "moe of X with router WR gate WG up WU down WD top TOP of EXPERTS experts",
        (
            Shapes(
                "X (t, d), WR (EXPERTS, d), WG (EXPERTS*f, d), WU (EXPERTS*f, d), WD (EXPERTS*d, f) -> (t, d)",
                most=(("TOP", "EXPERTS"),),
            ),
        ),
        moe,
        counts=("TOP", "EXPERTS"),
        rows=Rows(("X",), rowwise=True),
    ),
)
