"""Ops that carry a state from step to step, and the decay that one of them takes."""

from __future__ import annotations

import math
from typing import Any

from logos.late import np
from logos.op import Op, Rows, Shapes
from logos.ops.exact import Array
from logos.ops.pointwise import silu


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


OPS = (
    Op(
        "causal conv",
        "causal conv of X with weight WC state CS over TAPS taps",
        (Shapes("X (1, c), WC (TAPS, c), CS (TAPS, c) -> (1, c)"),),
        causal_conv,
        counts=("TAPS",),
        writes=("CS",),
        rows=Rows(("X",), value=causal_conv_rows),
    ),
    Op(
        "decay",
        "decay of AR with bias DT rate AL",
        (Shapes("AR (r, c), DT (r, c), AL (r, c) -> (r, c)"),),
        decay,
        negative=("AL",),
        rows=Rows(("AR", "DT", "AL"), True, decay),
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
    ),
)
