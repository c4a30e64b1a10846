"""Further spellings of ops: each takes the place of one of torch_helpers where a probe found that the vendor's tools do
not do that one well. Its name says the operator that it uses instead.

The same rules of naming as in torch_helpers.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from logos_sambaflow.emitted.torch_helpers import (
    as_dtype_of,
    delta_rule,
    grouped_mix,
    grouped_scores,
    later_rows,
    sigmoid,
    widened,
)


def linear_by_matmul(A: Tensor, B: Tensor) -> Tensor:
    return A @ B.transpose(0, 1)


def matmul_by_bmm(A: Tensor, B: Tensor) -> Tensor:
    return torch.bmm(A.unsqueeze(0), B.unsqueeze(0)).squeeze(0)


def plus_by_sub(A: Tensor, B: Tensor) -> Tensor:
    return A - torch.neg(B)


def transpose_by_permute(X: Tensor) -> Tensor:
    return X.permute(1, 0)


def rmsnorm_by_pow(
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
    y = x * ((x * x).sum(dim=-1, keepdim=True) / width + EPS).pow(-0.5)
    if W is not None:
        y = y * W
    return y if H is None else y.reshape(X_rows, X_columns)


def layernorm_by_pow(X: Tensor, W: Tensor, B: Tensor, EPS: float, X_columns: int) -> Tensor:
    x = X - X.sum(dim=-1, keepdim=True) / X_columns
    return x * ((x * x).sum(dim=-1, keepdim=True) / X_columns + EPS).pow(-0.5) * W + B


def l2norm_by_pow(X: Tensor, EPS: float, X_rows: int, X_columns: int, H: int | None = None) -> Tensor:
    x = X if H is None else X.reshape(H, X_columns // H)
    y = x * ((x * x).sum(dim=-1, keepdim=True) + EPS).pow(-0.5)
    return y if H is None else y.reshape(X_rows, X_columns)


def softmax_by_exp(X: Tensor) -> Tensor:
    e = torch.exp(X - torch.max(X, dim=-1, keepdim=True)[0])
    return e * torch.reciprocal(e.sum(dim=-1, keepdim=True))


def exp_by_silu(X: Tensor) -> Tensor:
    # For x up to 0: silu(x − 1) / silu(1 − x) is −e^(x − 1), and 1 − x is never 0.
    return F.silu(X - 1) * torch.reciprocal(F.silu(torch.neg(X) + 1)) * -2.718281828459045


def softmax_by_silu(X: Tensor) -> Tensor:
    e = exp_by_silu(X - torch.max(X, dim=-1, keepdim=True)[0])
    return e * torch.reciprocal(e.sum(dim=-1, keepdim=True))


def mix_by_exp(scores: Tensor, V: Tensor, KV: int, width: int, V_rows: int, columns: int) -> Tensor:
    v = V.reshape(V_rows, KV, width).permute(1, 0, 2)
    return torch.matmul(softmax_by_exp(scores), v).reshape(1, columns)


def mix_by_silu(scores: Tensor, V: Tensor, KV: int, width: int, V_rows: int, columns: int) -> Tensor:
    v = V.reshape(V_rows, KV, width).permute(1, 0, 2)
    return torch.matmul(softmax_by_silu(scores), v).reshape(1, columns)


def attention_by_exp(Q: Tensor, K: Tensor, V: Tensor, H: int, KV: int, Q_columns: int, K_rows: int) -> Tensor:
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    return mix_by_exp(scores, V, KV, Q_columns // H, K_rows, Q_columns)


def attention_by_silu(Q: Tensor, K: Tensor, V: Tensor, H: int, KV: int, Q_columns: int, K_rows: int) -> Tensor:
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    return mix_by_silu(scores, V, KV, Q_columns // H, K_rows, Q_columns)


def attention_up_to_by_abs(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    H: int,
    KV: int,
    P: Tensor,
    Q_columns: int,
    K_rows: int,
    K_numbers: Tensor,
    one: Tensor,
) -> Tensor:
    # d + |d| is 0 up to P and at least 2 after it.
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    d = K_numbers - P
    later = torch.minimum(d + torch.abs(d), one).reshape(1, 1, K_rows).to(scores.dtype)
    return grouped_mix(scores + later * -1e30, V, KV, Q_columns // H, K_rows, Q_columns)


def attention_up_to_by_exp(
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
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    later = later_rows(P, K_numbers, zero, one).reshape(1, 1, K_rows).to(scores.dtype)
    return mix_by_exp(scores + later * -1e30, V, KV, Q_columns // H, K_rows, Q_columns)


def attention_up_to_by_silu(
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
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    later = later_rows(P, K_numbers, zero, one).reshape(1, 1, K_rows).to(scores.dtype)
    return mix_by_silu(scores + later * -1e30, V, KV, Q_columns // H, K_rows, Q_columns)


def full_attention_by_exp(Q: Tensor, K: Tensor, V: Tensor, H: int, Q_rows: int, Q_columns: int) -> Tensor:
    width = Q_columns // H
    q = Q.reshape(Q_rows, H, width).permute(1, 0, 2)
    k = K.reshape(Q_rows, H, width).permute(1, 2, 0)
    v = V.reshape(Q_rows, H, width).permute(1, 0, 2)
    weights = softmax_by_exp(torch.matmul(q, k) / math.sqrt(width))
    return torch.matmul(weights, v).permute(1, 0, 2).reshape(Q_rows, Q_columns)


def full_attention_by_silu(Q: Tensor, K: Tensor, V: Tensor, H: int, Q_rows: int, Q_columns: int) -> Tensor:
    width = Q_columns // H
    q = Q.reshape(Q_rows, H, width).permute(1, 0, 2)
    k = K.reshape(Q_rows, H, width).permute(1, 2, 0)
    v = V.reshape(Q_rows, H, width).permute(1, 0, 2)
    weights = softmax_by_silu(torch.matmul(q, k) / math.sqrt(width))
    return torch.matmul(weights, v).permute(1, 0, 2).reshape(Q_rows, Q_columns)


def sigmoid_by_torch(X: Tensor) -> Tensor:
    return torch.sigmoid(X)


def sigmoid_by_exp(X: Tensor) -> Tensor:
    # Where e^−x overflows, its reciprocal is the 0 that is due.
    return torch.reciprocal(torch.exp(torch.neg(X)) + 1)


def sigmoid_by_silu(X: Tensor, zero: Tensor) -> Tensor:
    # e^min(x, 0) / (1 + e^−|x|); −|x| is min(x, 0) + min(−x, 0).
    low = torch.minimum(X, zero.to(X.dtype))
    far = low + torch.minimum(torch.neg(X), zero.to(X.dtype))
    return exp_by_silu(low) * torch.reciprocal(exp_by_silu(far) + 1)


def silu_by_softmax(X: Tensor, X_rows: int, X_columns: int, zero: Tensor) -> Tensor:
    return X * sigmoid(X, X_rows, X_columns, zero)


def silu_by_sigmoid(X: Tensor) -> Tensor:
    return X * torch.sigmoid(X)


def swiglu_by_softmax(GATE: Tensor, UP: Tensor, GATE_rows: int, GATE_columns: int, zero: Tensor) -> Tensor:
    return GATE * sigmoid(GATE, GATE_rows, GATE_columns, zero) * UP


def swiglu_by_sigmoid(GATE: Tensor, UP: Tensor) -> Tensor:
    return GATE * torch.sigmoid(GATE) * UP


def gelu_by_silu(X: Tensor) -> Tensor:
    # x · sigmoid(c · x) = silu(c · x) / c, with c = 2 √(2/π) (1 + 0.044715 x²), which is never 0.
    c = (X * X * 0.044715 + 1) * 1.5957691216057308
    return F.silu(X * c) * torch.reciprocal(c)


def gelu_by_torch(X: Tensor) -> Tensor:
    return F.gelu(X, approximate="tanh")


def argmax_by_max(X: Tensor, X_size: int) -> Tensor:
    return torch.max(X.reshape(1, X_size), dim=1, keepdim=True)[1].int()


def embedding_by_index_select(TOK: Tensor, TABLE: Tensor) -> Tensor:
    return TABLE.index_select(0, TOK.reshape(1))


def set_row_by_abs(P: Tensor, T: Tensor, R: Tensor, T_numbers: Tensor, one: Tensor) -> Tensor:
    hot = (one - torch.minimum(torch.abs(T_numbers - P), one)).to(T.dtype)
    return T * (one.to(T.dtype) - hot) + hot * R


def set_row_by_where(P: Tensor, T: Tensor, R: Tensor, T_numbers: Tensor) -> Tensor:
    return torch.where(T_numbers == P, R, T)


def exp_by_softmax(X: Tensor, X_rows: int, X_columns: int, zero: Tensor) -> Tensor:
    # For x up to 0: the halves of a softmax over (x, 0) are e^x / (1 + e^x) and 1 / (1 + e^x).
    zeros = zero.to(X.dtype).reshape(1, 1, 1).expand(X_rows, X_columns, 1)
    halves = torch.split(torch.softmax(torch.cat([X.unsqueeze(2), zeros], dim=2), dim=2), [1, 1], dim=2)
    return (halves[0] * torch.reciprocal(halves[1])).squeeze(2)


def decay_by_pow(AR: Tensor, DT: Tensor, AL: Tensor, AR_rows: int, AR_columns: int, zero: Tensor) -> Tensor:
    # (1 + e^x)^al = e^(al · max(x, 0)) · sigmoid(|x|)^(−al), of which no part overflows where al is not positive.
    x = AR + DT
    above = torch.neg(torch.minimum(torch.neg(x), zero.to(x.dtype)))
    below = torch.neg(torch.minimum(x, zero.to(x.dtype)))
    near = sigmoid(above + below, AR_rows, AR_columns, zero).pow(torch.neg(AL))
    return exp_by_softmax(AL * above, AR_rows, AR_columns, zero) * near


def gated_delta_by_softmax(
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
    zero: Tensor,
) -> tuple[Tensor, Tensor]:
    o, new = delta_rule(Q, K, V, B, A, S, HV, HK, S_columns)
    o = o * torch.rsqrt((o * o).sum(dim=-1, keepdim=True) / S_columns + EPS)
    out = widened(GN) * o * silu_by_softmax(widened(Z).reshape(HV, S_columns), HV, S_columns, zero)
    return as_dtype_of(out.reshape(1, HV * S_columns), V), as_dtype_of(new.reshape(HV * S_columns, S_columns), S)


def gated_delta_by_softmax_and_pow(
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
    zero: Tensor,
) -> tuple[Tensor, Tensor]:
    o, new = delta_rule(Q, K, V, B, A, S, HV, HK, S_columns)
    o = o * ((o * o).sum(dim=-1, keepdim=True) / S_columns + EPS).pow(-0.5)
    out = widened(GN) * o * silu_by_softmax(widened(Z).reshape(HV, S_columns), HV, S_columns, zero)
    return as_dtype_of(out.reshape(1, HV * S_columns), V), as_dtype_of(new.reshape(HV * S_columns, S_columns), S)


def gated_delta_by_pow(
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
    o = o * ((o * o).sum(dim=-1, keepdim=True) / S_columns + EPS).pow(-0.5)
    out = widened(GN) * o * F.silu(widened(Z).reshape(HV, S_columns))
    return as_dtype_of(out.reshape(1, HV * S_columns), V), as_dtype_of(new.reshape(HV * S_columns, S_columns), S)
