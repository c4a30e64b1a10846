"""The ops' formulas as language.md writes them, in numpy float64: what the torch helpers must give."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rmsnorm(X, EPS, RES=None, W=None, H=None):
    x = X if RES is None else X + RES
    runs = x if H is None else x.reshape(H, -1)
    y = np.empty_like(runs)
    for r, run in enumerate(runs):
        y[r] = run / math.sqrt(float(np.mean(run**2)) + EPS) * (1 if W is None else W[0])
    return y.reshape(X.shape)


def layernorm(X, W, B, EPS):
    return np.stack([(x - x.mean()) / math.sqrt(x.var() + EPS) * W[0] + B[0] for x in X])


def l2norm(X, EPS, H=None):
    runs = X if H is None else X.reshape(H, -1)
    return np.stack([x / math.sqrt(float((x**2).sum()) + EPS) for x in runs]).reshape(X.shape)


def rope(Q, RC, RS, H=None):
    half = RC.shape[1]
    width = 2 * half if H is None else Q.shape[1] // H
    out = Q.copy()
    for start in range(0, Q.shape[1], width):
        for i in range(half):
            a, b = Q[0, start + i], Q[0, start + half + i]
            out[0, start + i] = a * RC[0, i] - b * RS[0, i]
            out[0, start + half + i] = a * RS[0, i] + b * RC[0, i]
    return out


def attention(Q, K, V, H, KV, P=None):
    hd = Q.shape[1] // H
    rows = K.shape[0] if P is None else int(P[0, 0]) + 1
    out = np.empty_like(Q)
    for h in range(H):
        group = h // (H // KV)
        q = Q[0, h * hd : (h + 1) * hd]
        scores = [float(q @ K[r, group * hd : (group + 1) * hd]) / math.sqrt(hd) for r in range(rows)]
        weights = np.exp(np.array(scores) - max(scores))
        weights /= weights.sum()
        out[0, h * hd : (h + 1) * hd] = sum(w * V[r, group * hd : (group + 1) * hd] for r, w in enumerate(weights))
    return out


def full_attention(Q, K, V, H):
    return np.concatenate(
        [
            np.concatenate(
                [attention(q[:, part], K[:, part], V[:, part], 1, 1) for part in np.split(np.arange(Q.shape[1]), H)],
                axis=1,
            )
            for q in Q[:, None, :]
        ]
    )


def softmax(X):
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sigmoid(X):
    return np.array([[1 / (1 + math.exp(-x)) if x > -700 else 0.0 for x in row] for row in X])


def silu(X):
    return X * sigmoid(X)


def gelu(X):
    z = math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)
    return X * sigmoid(2 * z)


def swiglu(GATE, UP):
    return silu(GATE) * UP


def set_row(P, T, R):
    out = T.copy()
    out[int(P[0, 0])] = R[0]
    return out


def embedding(TOK, TABLE):
    return TABLE[int(TOK[0, 0])][None]


def argmax(X):
    flat = X.reshape(-1)
    return np.array([[min(i for i in range(flat.size) if flat[i] == flat.max())]])


def causal_conv(X, WC, CS, TAPS):
    ring = np.vstack([CS[i + 1] if i + 1 < TAPS else X[0] for i in range(TAPS)])
    y = np.zeros_like(X)
    for tap in range(TAPS):
        y[0] += ring[tap] * WC[tap]
    return y, ring


def decay(AR, DT, AL):
    x = AR + DT
    return np.exp(AL * (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))))


def gated_delta(Q, K, V, Z, B, A, S, GN, EPS, HV, HK):
    d = S.shape[1]
    out, new = np.empty_like(V), np.empty_like(S)
    for h in range(HV):
        own = slice(h * d, (h + 1) * d)
        shared = slice(h % HK * d, (h % HK + 1) * d)
        q, k, v, z = Q[0, shared], K[0, shared], V[0, own], Z[0, own]
        s = S[own]
        u = s @ k
        s = A[0, h] * s + B[0, h] * np.outer(v - A[0, h] * u, k)
        o = s @ q / math.sqrt(d)
        out[0, own] = GN[0] * o / math.sqrt(float(np.mean(o**2)) + EPS) * z * sigmoid(z[None])[0]
        new[own] = s
    return out, new
