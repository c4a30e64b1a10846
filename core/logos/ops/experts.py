"""Routed experts."""

from __future__ import annotations

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes
from logos.ops.exact import Array
from logos.ops.pointwise import SIGMOID_LINES, silu, softmax


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


def moe_loops(form: LoopForm) -> str:
    sigmoid = SIGMOID_LINES.replace("    ", "      ")
    return f"""
Repeat for row from 1 to t:
  Let shares be a 1 by EXPERTS tensor of Real.
  Let largest be 0.
  Repeat for expert from 1 to EXPERTS:
    Let score be 0.
    Repeat for column from 1 to d:
      Set score to score + item row, column of X * item expert, column of WR.
    Set item 1, expert of shares to score.
    If expert = 1:
      Set largest to score.
    If score > largest:
      Set largest to score.
  Let whole be 0.
  Repeat for expert from 1 to EXPERTS:
    Set item 1, expert of shares to exp(item 1, expert of shares - largest).
    Set whole to whole + item 1, expert of shares.
  Repeat for expert from 1 to EXPERTS:
    Set item 1, expert of shares to item 1, expert of shares / whole.
  Let chosen be a 1 by TOP tensor of Int.
  Let kept be a 1 by TOP tensor of Real.
  Let total be 0.
  Repeat for place from 1 to TOP:
    Let most be -1.
    Let best be 1.
    Repeat for expert from 1 to EXPERTS:
      If item 1, expert of shares > most:
        Set most to item 1, expert of shares.
        Set best to expert.
    Set item 1, place of chosen to best.
    Set item 1, place of kept to item 1, best of shares.
    Set item 1, best of shares to -1.
    Set total to total + item 1, place of kept.
  Repeat for column from 1 to d:
    Set item row, column of OUT to 0.
  Repeat for place from 1 to TOP:
    Let expert be item 1, place of chosen.
    Let hidden be a 1 by f tensor of Real.
    Repeat for inner from 1 to f:
      Let x be 0.
      Let up be 0.
      Repeat for column from 1 to d:
        Set x to x + item row, column of X * item (expert - 1) * f + inner, column of WG.
        Set up to up + item row, column of X * item (expert - 1) * f + inner, column of WU.
{sigmoid.lstrip(chr(10))}      Set item 1, inner of hidden to x * share * up.
    Repeat for column from 1 to d:
      Let sum be 0.
      Repeat for inner from 1 to f:
        Set sum to sum + item 1, inner of hidden * item (expert - 1) * d + column, inner of WD.
      Set item row, column of OUT to item row, column of OUT + item 1, place of kept / total * sum.
"""


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
        loops=moe_loops,
    ),
)
