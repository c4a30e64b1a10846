"""Every op as language.md words it, in plain Python loops over nested lists: what the reference machine must give."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = list[float]
Matrix = list[Row]


def matmul(A: Matrix, B: Matrix) -> Matrix:
    return [[sum(A[i][k] * B[k][j] for k in range(len(B))) for j in range(len(B[0]))] for i in range(len(A))]


def plus(A: Matrix, B: Matrix) -> Matrix:
    return [[a + _beside(B, i, j) for j, a in enumerate(row)] for i, row in enumerate(A)]


def hadamard(A: Matrix, B: Matrix) -> Matrix:
    return [[a * _beside(B, i, j) for j, a in enumerate(row)] for i, row in enumerate(A)]


def _beside(B: Matrix, i: int, j: int) -> float:
    row = B[0] if len(B) == 1 else B[i]
    return row[0] if len(row) == 1 else row[j]


def transpose(X: Matrix) -> Matrix:
    return [[X[i][j] for i in range(len(X))] for j in range(len(X[0]))]


def _runs(X: Matrix, H: int | None) -> list[Row]:
    if H is None:
        return X
    width = len(X[0]) // H
    return [X[0][h * width : (h + 1) * width] for h in range(H)]


def _joined(runs: list[Row], H: int | None) -> Matrix:
    return runs if H is None else [[value for run in runs for value in run]]


def rmsnorm(X: Matrix, RES: Matrix | None, W: Matrix | None, EPS: float, H: int | None) -> Matrix:
    out = []
    for run in _runs(X if RES is None else plus(X, RES), H):
        mean = sum(x * x for x in run) / len(run)
        out.append([x / math.sqrt(mean + EPS) * (1.0 if W is None else W[0][i]) for i, x in enumerate(run)])
    return _joined(out, H)


def layernorm(X: Matrix, W: Matrix, B: Matrix, EPS: float) -> Matrix:
    out = []
    for row in X:
        mean = sum(row) / len(row)
        var = sum((x - mean) ** 2 for x in row) / len(row)
        out.append([(x - mean) / math.sqrt(var + EPS) * W[0][i] + B[0][i] for i, x in enumerate(row)])
    return out


def l2norm(X: Matrix, EPS: float, H: int | None) -> Matrix:
    return _joined([[x / math.sqrt(sum(x * x for x in run) + EPS) for x in run] for run in _runs(X, H)], H)


def rope(Q: Matrix, RC: Matrix, RS: Matrix, H: int | None) -> Matrix:
    half, columns = len(RC[0]), len(Q[0])
    width = 2 * half if H is None else columns // H
    out = list(Q[0])
    for start in range(0, columns, width):
        for i in range(half):
            a, b, c, s = Q[0][start + i], Q[0][start + i + half], RC[0][i], RS[0][i]
            out[start + i] = a * c - b * s
            out[start + i + half] = a * s + b * c
    return [out]


def _softmax(row: Sequence[float]) -> Row:
    top = max(row)
    e = [math.exp(x - top) for x in row]
    return [x / sum(e) for x in e]


def softmax(X: Matrix) -> Matrix:
    return [_softmax(row) for row in X]


def attention(Q: Matrix, K: Matrix, V: Matrix, H: int, KV: int, P: int | None) -> Matrix:
    width = len(Q[0]) // H
    rows = range(len(K) if P is None else P + 1)
    out: Row = []
    for h in range(H):
        start = h // (H // KV) * width
        scores = [sum(Q[0][h * width + i] * K[r][start + i] for i in range(width)) / math.sqrt(width) for r in rows]
        shares = _softmax(scores)
        out += [sum(shares[r] * V[r][start + i] for r in rows) for i in range(width)]
    return [out]


def full_attention(Q: Matrix, K: Matrix, V: Matrix, H: int) -> Matrix:
    return [attention([row], K, V, H, H, None)[0] for row in Q]


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def sigmoid(X: Matrix) -> Matrix:
    return [[_sigmoid(x) for x in row] for row in X]


def silu(X: Matrix) -> Matrix:
    return [[x * _sigmoid(x) for x in row] for row in X]


def gelu(X: Matrix) -> Matrix:
    def one(x: float) -> float:
        z = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + math.tanh(z))  # the usual way to write x / (1 + e^(−2z))

    return [[one(x) for x in row] for row in X]


def swiglu(GATE: Matrix, UP: Matrix) -> Matrix:
    return hadamard(silu(GATE), UP)


def argmax(X: Matrix) -> Matrix:
    flat = [x for row in X for x in row]
    best = 0
    for i, x in enumerate(flat):
        if x > flat[best]:
            best = i
    return [[best]]


def causal_conv(X: Matrix, WC: Matrix, CS: Matrix, TAPS: int) -> tuple[Matrix, Matrix]:
    ring = [*CS[1:], X[0]]
    return [[sum(ring[t][c] * WC[t][c] for t in range(TAPS)) for c in range(len(X[0]))]], ring


def decay(AR: Matrix, DT: Matrix, AL: Matrix) -> Matrix:
    return [
        [(1.0 + math.exp(a + d)) ** r for a, d, r in zip(*rows, strict=True)] for rows in zip(AR, DT, AL, strict=True)
    ]


def gated_delta(
    Q: Matrix, K: Matrix, V: Matrix, Z: Matrix, B: Matrix, A: Matrix, S: Matrix, GN: Matrix,
    EPS: float, HV: int, HK: int,
) -> tuple[Matrix, Matrix]:
    d = len(S[0])
    out: Row = []
    new: Matrix = []
    for h in range(HV):
        key = h % HK
        q, k = Q[0][key * d : (key + 1) * d], K[0][key * d : (key + 1) * d]
        v, z = V[0][h * d : (h + 1) * d], Z[0][h * d : (h + 1) * d]
        state = S[h * d : (h + 1) * d]
        u = [sum(state[i][j] * k[j] for j in range(d)) for i in range(d)]
        alpha, beta = A[0][h], B[0][h]
        state = [[alpha * state[i][j] + beta * (v[i] - alpha * u[i]) * k[j] for j in range(d)] for i in range(d)]
        o = [sum(state[i][j] * q[j] for j in range(d)) / math.sqrt(d) for i in range(d)]
        mean = sum(x * x for x in o) / d
        out += [GN[0][i] * o[i] / math.sqrt(mean + EPS) * z[i] * _sigmoid(z[i]) for i in range(d)]
        new += state
    return [out], new


def moe(X: Matrix, WR: Matrix, WG: Matrix, WU: Matrix, WD: Matrix, TOP: int, EXPERTS: int) -> Matrix:
    d, f = len(X[0]), len(WD[0])
    out = []
    for x in X:
        shares = _softmax([sum(w * value for w, value in zip(row, x, strict=True)) for row in WR])
        kept: list[int] = []
        for _ in range(TOP):
            rest = [e for e in range(EXPERTS) if e not in kept]
            best = rest[0]
            for e in rest:
                if shares[e] > shares[best]:
                    best = e
            kept.append(best)
        total = sum(shares[e] for e in kept)
        y = [0.0] * d
        for e in kept:
            hidden = []
            for j in range(f):
                gate = sum(WG[e * f + j][i] * x[i] for i in range(d))
                up = sum(WU[e * f + j][i] * x[i] for i in range(d))
                hidden.append(gate * _sigmoid(gate) * up)
            for i in range(d):
                y[i] += shares[e] / total * sum(WD[e * d + i][j] * hidden[j] for j in range(f))
        out.append(y)
    return out
