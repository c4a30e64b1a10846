"""One helper per op, written only with operators that the vendor documents or uses itself (exp and softplus excepted).

A helper's parameters say what the emitter passes: an upper-case word is the operand of that name in the op's sentence;
`X_rows`, `X_columns` and `X_size` are the sizes of operand X, as literals, because a traced `.shape` turns into a
tensor; `X_numbers` is the int32 column 0 … rows−1 of X; `zero` and `one` are int32 parameters of shape (1, 1).
Tensors have two dimensions on both sides of a helper. Written out of place, without slices and index assignment.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def linear(A: Tensor, B: Tensor) -> Tensor:
    # B is a weight kept as its [out, in] rows.
    return F.linear(A, B)


def matmul(A: Tensor, B: Tensor) -> Tensor:
    return A @ B


def plus(A: Tensor, B: Tensor) -> Tensor:
    return A + B


def hadamard(A: Tensor, B: Tensor) -> Tensor:
    return A * B


def transpose(X: Tensor) -> Tensor:
    return X.transpose(0, 1)


def rmsnorm(
    X: Tensor,
    EPS: float,
    X_rows: int,
    X_columns: int,
    RES: Tensor | None = None,
    W: Tensor | None = None,
    H: int | None = None,
) -> Tensor:
    x = X if RES is None else X + RES
    width = X_columns
    if H is not None:
        width = X_columns // H
        x = x.reshape(H, width)
    y = x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) / width + EPS)
    if W is not None:
        y = y * W
    return y if H is None else y.reshape(X_rows, X_columns)


def layernorm(X: Tensor, W: Tensor, B: Tensor, EPS: float, X_columns: int) -> Tensor:
    x = X - X.sum(dim=-1, keepdim=True) / X_columns
    return x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) / X_columns + EPS) * W + B


def l2norm(X: Tensor, EPS: float, X_rows: int, X_columns: int, H: int | None = None) -> Tensor:
    x = X if H is None else X.reshape(H, X_columns // H)
    y = x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + EPS)
    return y if H is None else y.reshape(X_rows, X_columns)


def rope(Q: Tensor, RC: Tensor, RS: Tensor, Q_columns: int, RC_columns: int, H: int | None = None) -> Tensor:
    # Pairs (i, i + half) of every head turn; what lies beyond 2 · half passes through.
    heads = Q_columns // (2 * RC_columns) if H is None else H
    width = Q_columns // heads
    rest = width - 2 * RC_columns
    sizes = [RC_columns, RC_columns] + ([rest] if rest else [])
    parts = torch.split(Q.reshape(heads, width), sizes, dim=1)
    turned = [parts[0] * RC - parts[1] * RS, parts[0] * RS + parts[1] * RC]
    if rest:
        turned.append(parts[2])
    return torch.cat(turned, dim=1).reshape(1, Q_columns)


def later_rows(P: Tensor, numbers: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    # int32, 1 where the row's number is above P.
    return torch.minimum(torch.neg(torch.minimum(torch.neg(numbers - P), zero)), one)


def grouped_scores(Q: Tensor, K: Tensor, H: int, KV: int, width: int, K_rows: int) -> Tensor:
    # Query head h reads group h ÷ (H / KV); (KV, H / KV, rows).
    q = Q.reshape(KV, H // KV, width)
    k = K.reshape(K_rows, KV, width).permute(1, 2, 0)
    return torch.matmul(q, k) / math.sqrt(width)


def grouped_mix(scores: Tensor, V: Tensor, KV: int, width: int, V_rows: int, columns: int) -> Tensor:
    v = V.reshape(V_rows, KV, width).permute(1, 0, 2)
    return torch.matmul(torch.softmax(scores, dim=-1), v).reshape(1, columns)


def attention(Q: Tensor, K: Tensor, V: Tensor, H: int, KV: int, Q_columns: int, K_rows: int) -> Tensor:
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    return grouped_mix(scores, V, KV, Q_columns // H, K_rows, Q_columns)


def attention_up_to(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    H: int,
    KV: int,
    P: Tensor,
    Q_columns: int,
    K_rows: int,
    K_numbers: Tensor,
    zero: Tensor,
    one: Tensor,
) -> Tensor:
    # Adding −1e30 to the rows after P leaves them exact zeros behind the softmax.
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    later = later_rows(P, K_numbers, zero, one).reshape(1, 1, K_rows).to(scores.dtype)
    return grouped_mix(scores + later * -1e30, V, KV, Q_columns // H, K_rows, Q_columns)


def full_attention(Q: Tensor, K: Tensor, V: Tensor, H: int, Q_rows: int, Q_columns: int) -> Tensor:
    width = Q_columns // H
    q = Q.reshape(Q_rows, H, width).permute(1, 0, 2)
    k = K.reshape(Q_rows, H, width).permute(1, 2, 0)
    v = V.reshape(Q_rows, H, width).permute(1, 0, 2)
    weights = torch.softmax(torch.matmul(q, k) / math.sqrt(width), dim=-1)
    return torch.matmul(weights, v).permute(1, 0, 2).reshape(Q_rows, Q_columns)


def softmax(X: Tensor) -> Tensor:
    return torch.softmax(X, dim=-1)


def sigmoid(X: Tensor, X_rows: int, X_columns: int, zero: Tensor) -> Tensor:
    # 1 / (1 + e^−x) is the first half of a softmax over (x, 0).
    zeros = zero.to(X.dtype).reshape(1, 1, 1).expand(X_rows, X_columns, 1)
    pair = torch.softmax(torch.cat([X.unsqueeze(2), zeros], dim=2), dim=2)
    return torch.split(pair, [1, 1], dim=2)[0].squeeze(2)


def silu(X: Tensor) -> Tensor:
    return F.silu(X)


def gelu(X: Tensor, X_rows: int, X_columns: int, zero: Tensor) -> Tensor:
    # x / (1 + e^(−2z)), z = √(2/π) (x + 0.044715 x³): the tanh approximation.
    z2 = (X + X * X * X * 0.044715) * 1.5957691216057308
    return X * sigmoid(z2, X_rows, X_columns, zero)


def swiglu(GATE: Tensor, UP: Tensor) -> Tensor:
    return F.silu(GATE) * UP


def argmax(X: Tensor, X_size: int) -> Tensor:
    return torch.argmax(X.reshape(1, X_size), dim=1, keepdim=True).int()


def embedding(TOK: Tensor, TABLE: Tensor, TABLE_columns: int) -> Tensor:
    return F.embedding(TOK, TABLE).reshape(1, TABLE_columns)


def set_row(P: Tensor, T: Tensor, R: Tensor, T_numbers: Tensor, zero: Tensor, one: Tensor) -> Tensor:
    # Row numbers are compared in int32: in bfloat16 many rows would equal one position. Exact for finite T.
    d = T_numbers - P
    distance = torch.neg(torch.minimum(d, zero)) + torch.neg(torch.minimum(torch.neg(d), zero))
    hot = (torch.neg(torch.minimum(distance, one)) + 1).to(T.dtype)
    return T * (torch.neg(hot) + 1) + hot * R


def causal_conv(X: Tensor, WC: Tensor, CS: Tensor, TAPS: int) -> tuple[Tensor, Tensor]:
    # The ring moves up one row and X becomes its last; returns (y, ring).
    ring = X
    if TAPS > 1:
        ring = torch.cat([torch.split(CS, [1, TAPS - 1], dim=0)[1], X], dim=0)
    return (ring * WC).sum(dim=0, keepdim=True), ring


def decay(AR: Tensor, DT: Tensor, AL: Tensor) -> Tensor:
    # (1 + e^(ar + dt))^al; softplus's default threshold of 20 would be 2e-8 off.
    return torch.exp(AL * F.softplus(AR + DT, threshold=40.0))


def widened(X: Tensor) -> Tensor:
    # bfloat16 goes on in float32; decided by the dtype, so a float32 trace holds no cast.
    return X.float() if X.dtype == torch.bfloat16 else X


def as_dtype_of(X: Tensor, LIKE: Tensor) -> Tensor:
    return X if X.dtype == LIKE.dtype else X.to(LIKE.dtype)


def delta_rule(
    Q: Tensor, K: Tensor, V: Tensor, B: Tensor, A: Tensor, S: Tensor, HV: int, HK: int, width: int
) -> tuple[Tensor, Tensor]:
    # Value head h uses key head h mod HK: the key heads repeat as a whole. Returns (o, S) by heads. The rule subtracts
    # what the memory already holds, so each rounding in bfloat16 would count many times over.
    q = torch.cat([widened(Q).reshape(HK, width)] * (HV // HK), dim=0).reshape(HV, width, 1)
    k = torch.cat([widened(K).reshape(HK, width)] * (HV // HK), dim=0).reshape(HV, width, 1)
    alpha = widened(A).reshape(HV, 1, 1)
    s = widened(S).reshape(HV, width, width)
    error = widened(V).reshape(HV, width, 1) - alpha * torch.matmul(s, k)
    new = alpha * s + torch.matmul(widened(B).reshape(HV, 1, 1) * error, k.transpose(1, 2))
    return (torch.matmul(new, q) / math.sqrt(width)).reshape(HV, width), new


def gated_delta(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    Z: Tensor,
    B: Tensor,
    A: Tensor,
    S: Tensor,
    GN: Tensor,
    EPS: float,
    HV: int,
    HK: int,
    S_columns: int,
) -> tuple[Tensor, Tensor]:
    o, new = delta_rule(Q, K, V, B, A, S, HV, HK, S_columns)
    o = o * torch.rsqrt((o * o).sum(dim=-1, keepdim=True) / S_columns + EPS)
    out = widened(GN) * o * F.silu(widened(Z).reshape(HV, S_columns))
    return as_dtype_of(out.reshape(1, HV * S_columns), V), as_dtype_of(new.reshape(HV * S_columns, S_columns), S)
