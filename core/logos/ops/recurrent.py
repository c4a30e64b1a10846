"""Ops that carry a state from step to step, and the decay that one of them takes."""

from __future__ import annotations

import math
from typing import Any

from logos.late import np
from logos.op import LoopForm, Op, Rows, Shapes
from logos.ops.exact import Array
from logos.ops.pointwise import SIGMOID_LINES, silu


def causal_conv(X: Array, WC: Array, CS: Array, TAPS: int) -> tuple[Array, dict[str, Any]]:
    """A depthwise causal convolution, one step: the ring CS moves up one row, X becomes its last row, and
    y = Σ over taps of CS · WC, per channel. Writes CS."""
    ring = np.concatenate((CS[1:], X), axis=0)
    y: Array = (ring * WC).sum(axis=0, keepdims=True)
    return y, {"CS": ring}


def causal_conv_rows(X: Array, WC: Array, CS: Array, TAPS: int) -> tuple[Array, dict[str, Any]]:
    """`causal conv` of T rows in order: X's rows below the ring's, and each tap times its window of them."""
    seen = np.concatenate((CS[1:], X), axis=0)
    y: Array = seen[: X.shape[0]] * WC[0]
    for tap in range(1, TAPS):
        y += seen[tap : tap + X.shape[0]] * WC[tap]
    return y, {"CS": seen[-TAPS:].copy()}


def decay(AR: Array, DT: Array, AL: Array) -> Array:
    """(1 + e^(ar + dt))^al = e^(al · softplus(ar + dt)), without overflow: the decay of a gated delta rule."""
    rate: Array = AL * np.logaddexp(0.0, AR + DT)
    return np.exp(rate)


def gated_delta(
    Q: Array, K: Array, V: Array, Z: Array, B: Array, A: Array, S: Array, GN: Array, EPS: float, HV: int, HK: int
) -> tuple[Array, dict[str, Any]]:
    """The gated delta rule, one step (Yang, Kautz, Hatamizadeh 2024), with its gated output norm.

    Value head h uses key head h mod HK. With S the head's d by d state, α = A[h] and β = B[h]: u = S k;
    S ← α S + β (v − α u) kᵀ; o = S q / √d with the new S; out = gn · o / √(mean(o²) + eps) · silu(z). Writes S.
    """
    return gated_delta_rows(Q, K, V, Z, B, A, S, GN, EPS, HV, HK)


def gated_delta_rows(
    Q: Array, K: Array, V: Array, Z: Array, B: Array, A: Array, S: Array, GN: Array, EPS: float, HV: int, HK: int
) -> tuple[Array, dict[str, Any]]:
    """`gated delta` of T rows in order; only the memory goes from row to row."""
    steps, d = Q.shape[0], S.shape[1]
    heads = np.arange(HV) % HK
    q, k = (x.reshape(steps, HK, d)[:, heads] for x in (Q, K))
    v, z = V.reshape(steps, HV, d), Z.reshape(steps, HV, d)
    alpha, beta = A.reshape(steps, HV, 1), B.reshape(steps, HV, 1)
    o, s = np.empty((steps, HV, d)), S.reshape(HV, d, d)
    for t in range(steps):
        u = np.einsum("hvk,hk->hv", s, k[t])
        s = alpha[t][:, :, None] * s + (beta[t] * (v[t] - alpha[t] * u))[:, :, None] * k[t][:, None, :]
        o[t] = np.einsum("hvk,hk->hv", s, q[t]) / math.sqrt(d)
    y = GN.reshape(-1, 1, d) * o / np.sqrt(np.mean(o * o, axis=2, keepdims=True) + EPS) * silu(z)
    return y.reshape(steps, HV * d), {"S": s.reshape(HV * d, d)}


def causal_conv_loops(form: LoopForm) -> str:
    return """
Repeat for column from 1 to c:
  Repeat for tap from 1 to TAPS - 1:
    Set item tap, column of CS to item tap + 1, column of CS.
  Set item TAPS, column of CS to item 1, column of X.
  Let sum be 0.
  Repeat for tap from 1 to TAPS:
    Set sum to sum + item tap, column of CS * item tap, column of WC.
  Set item 1, column of OUT to sum.
"""


def decay_loops(form: LoopForm) -> str:
    return """
Repeat for row from 1 to r:
  Repeat for column from 1 to c:
    Let x be item row, column of AR + item row, column of DT.
    Let rate be item row, column of AL.
    Let kept be x.
    If x > 0:
      Set kept to pow(1 + exp(-x), rate) * exp(rate * x).
    If x <= 0:
      Set kept to pow(1 + exp(x), rate).
    Set item row, column of OUT to kept.
"""


def gated_delta_loops(form: LoopForm) -> str:
    head = "(turn - 1) * HK + group"
    at, of_key = f"({head} - 1) * d", "(group - 1) * d"
    sigmoid = SIGMOID_LINES.replace("    ", "      ")
    return f"""
Repeat for turn from 1 to HV_per_HK:
  Repeat for group from 1 to HK:
    Let squares be 0.
    Let read be a 1 by d tensor of Real.
    Repeat for row from 1 to d:
      Let seen be 0.
      Repeat for column from 1 to d:
        Set seen to seen + item {at} + row, column of S * item 1, {of_key} + column of K.
      Let kept be item 1, {head} of A.
      Let change be item 1, {head} of B * (item 1, {at} + row of V - kept * seen).
      Let sum be 0.
      Repeat for column from 1 to d:
        Let old be item {at} + row, column of S.
        Set item {at} + row, column of S to kept * old + change * item 1, {of_key} + column of K.
        Set sum to sum + item {at} + row, column of S * item 1, {of_key} + column of Q.
      Set item 1, row of read to sum / sqrt(d).
      Set squares to squares + item 1, row of read * item 1, row of read.
    Let norm be sqrt(squares / d + EPS).
    Repeat for row from 1 to d:
      Let x be item 1, {at} + row of Z.{sigmoid}      Let scaled be item 1, row of GN * item 1, row of read / norm.
      Set item 1, {at} + row of OUT to scaled * (x * share).
"""


OPS = (
    Op(
        "causal conv",
        "causal conv of X with weight WC state CS over TAPS taps",
        (Shapes("X (1, c), WC (TAPS, c), CS (TAPS, c) -> (1, c)"),),
        causal_conv,
        counts=("TAPS",),
        writes=("CS",),
        rows=Rows(("X",), value=causal_conv_rows),
        loops=causal_conv_loops,
    ),
    Op(
        "decay",
        "decay of AR with bias DT rate AL",
        (Shapes("AR (r, c), DT (r, c), AL (r, c) -> (r, c)"),),
        decay,
        negative=("AL",),
        rows=Rows(("AR", "DT", "AL"), True, decay),
        loops=decay_loops,
    ),
    Op(
        "gated delta",
        "gated delta of Q over K and V with gate Z beta B decay A state S norm GN [with eps EPS]"
        " with HV heads HK groups",
        (
            Shapes(
                "Q (1, HK*d), K (1, HK*d), V (1, HV*d), Z (1, HV*d), B (1, HV), A (1, HV), S (HV*d, d), GN (1, d)"
                " -> (1, HV*d)",
                divides=(("HK", "HV"),),
            ),
        ),
        gated_delta,
        counts=("HV", "HK"),
        values={"EPS": 1e-6},
        writes=("S",),
        rows=Rows(("Q", "K", "V", "Z", "B", "A", "GN"), value=gated_delta_rows),
        loops=gated_delta_loops,
    ),
)
