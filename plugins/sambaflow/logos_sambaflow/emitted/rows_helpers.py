"""The helpers of STEPS steps at once: one for each op whose own helper takes no row a step.

The same rules of naming as in torch_helpers, and the same operators alone. STEPS is the number of steps; an operand
that differs from step to step has a row for each, any other the one row that all steps share.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from logos_sambaflow.emitted.torch_helpers import as_dtype_of, delta_rule, widened


def rmsnorm_rows(
    X: Tensor,
    EPS: float,
    STEPS: int,
    X_rows: int,
    X_columns: int,
    RES: Tensor | None = None,
    RES_rows: int = 1,
    W: Tensor | None = None,
    W_rows: int = 1,
    H: int | None = None,
) -> Tensor:
    heads = 1 if H is None else H
    width = X_columns // heads
    x = X.reshape(X_rows, heads, width)
    if RES is not None:
        x = x + RES.reshape(RES_rows, heads, width)
    y = x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) / width + EPS)
    if W is not None:
        y = y * W.reshape(W_rows, 1, width)
    return y.reshape(STEPS, X_columns)


def l2norm_rows(X: Tensor, EPS: float, STEPS: int, X_columns: int, H: int | None = None) -> Tensor:
    heads = 1 if H is None else H
    x = X.reshape(STEPS, heads, X_columns // heads)
    return (x * torch.rsqrt((x * x).sum(dim=-1, keepdim=True) + EPS)).reshape(STEPS, X_columns)


def rope_rows(
    Q: Tensor,
    RC: Tensor,
    RS: Tensor,
    STEPS: int,
    Q_rows: int,
    Q_columns: int,
    RC_rows: int,
    RC_columns: int,
    RS_rows: int,
    H: int | None = None,
) -> Tensor:
    # Every row turns by its own cosines and sines; pairs as in one row.
    heads = Q_columns // (2 * RC_columns) if H is None else H
    width = Q_columns // heads
    rest = width - 2 * RC_columns
    sizes = [RC_columns, RC_columns] + ([rest] if rest else [])
    parts = torch.split(Q.reshape(Q_rows, heads, width), sizes, dim=2)
    c = RC.reshape(RC_rows, 1, RC_columns)
    s = RS.reshape(RS_rows, 1, RC_columns)
    turned = [parts[0] * c - parts[1] * s, parts[0] * s + parts[1] * c]
    if rest:
        turned.append(parts[2] if Q_rows == STEPS else parts[2].expand(STEPS, heads, rest))
    return torch.cat(turned, dim=2).reshape(STEPS, Q_columns)


def grouped_scores_rows(Q: Tensor, K: Tensor, H: int, KV: int, width: int, Q_rows: int, K_rows: int) -> Tensor:
    # (KV, H / KV, queries, rows), the queries of a group in one product.
    group = H // KV
    q = Q.reshape(Q_rows, KV, group, width).permute(1, 2, 0, 3).reshape(KV, group * Q_rows, width)
    k = K.reshape(K_rows, KV, width).permute(1, 2, 0)
    return (torch.matmul(q, k) / math.sqrt(width)).reshape(KV, group, Q_rows, K_rows)


def grouped_mix_rows(scores: Tensor, V: Tensor, H: int, KV: int, width: int, V_rows: int, STEPS: int) -> Tensor:
    group = H // KV
    v = V.reshape(V_rows, KV, width).permute(1, 0, 2)
    shares = torch.softmax(scores, dim=-1).reshape(KV, group * STEPS, V_rows)
    mixed = torch.matmul(shares, v).reshape(KV, group, STEPS, width)
    return mixed.permute(2, 0, 1, 3).reshape(STEPS, H * width)


def attention_rows(Q: Tensor, K: Tensor, V: Tensor, H: int, KV: int, STEPS: int, Q_columns: int, K_rows: int) -> Tensor:
    scores = grouped_scores_rows(Q, K, H, KV, Q_columns // H, STEPS, K_rows)
    return grouped_mix_rows(scores, V, H, KV, Q_columns // H, K_rows, STEPS)


def attention_up_to_rows(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    H: int,
    KV: int,
    P: Tensor,
    STEPS: int,
    Q_rows: int,
    Q_columns: int,
    K_rows: int,
    P_rows: int,
    K_numbers: Tensor,
    zero: Tensor,
    one: Tensor,
) -> Tensor:
    # The mask is int32, 1 where a row's number is above its query's P; −1e30 leaves exact zeros behind the softmax.
    scores = grouped_scores_rows(Q, K, H, KV, Q_columns // H, Q_rows, K_rows)
    past = torch.neg(K_numbers.reshape(1, K_rows) - P.reshape(P_rows, 1))
    later = torch.minimum(torch.neg(torch.minimum(past, zero)), one)
    scores = scores + later.reshape(1, 1, P_rows, K_rows).to(scores.dtype) * -1e30
    return grouped_mix_rows(scores, V, H, KV, Q_columns // H, K_rows, STEPS)


def full_attention_rows(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    H: int,
    STEPS: int,
    Q_rows: int,
    Q_columns: int,
    K_rows: int,
    V_rows: int,
) -> Tensor:
    # Each step attends to its own one row: the share of that row is a softmax of one score.
    width = Q_columns // H
    products = Q.reshape(Q_rows, H, width) * K.reshape(K_rows, H, width)
    shares = torch.softmax(products.sum(dim=-1, keepdim=True) / math.sqrt(width), dim=-1)
    mixed = shares * V.reshape(V_rows, H, width)
    return mixed.expand(STEPS, H, width).reshape(STEPS, Q_columns)


def argmax_rows(X: Tensor) -> Tensor:
    return torch.argmax(X, dim=1, keepdim=True).int()


def embedding_rows(TOK: Tensor, TABLE: Tensor, STEPS: int, TABLE_columns: int) -> Tensor:
    return F.embedding(TOK, TABLE).reshape(STEPS, TABLE_columns)


def set_rows(
    P: Tensor,
    T: Tensor,
    R: Tensor,
    STEPS: int,
    T_numbers: Tensor,
    R_rows: int,
    zero: Tensor,
    one: Tensor,
) -> Tensor:
    # (rows, STEPS), 1 where a step's P is the row: no two steps set one row, so each sum has one term at most. Exact
    # for finite T and R.
    d = T_numbers - P.reshape(1, STEPS)
    distance = torch.neg(torch.minimum(d, zero)) + torch.neg(torch.minimum(torch.neg(d), zero))
    hot = (torch.neg(torch.minimum(distance, one)) + 1).to(T.dtype)
    kept = torch.neg(hot.sum(dim=1, keepdim=True)) + 1
    made = torch.matmul(hot, R) if R_rows == STEPS else hot.sum(dim=1, keepdim=True) * R
    return T * kept + made


def causal_conv_rows(X: Tensor, WC: Tensor, CS: Tensor, TAPS: int, STEPS: int) -> tuple[Tensor, Tensor]:
    # X's rows stand below the ring's; a tap takes the STEPS rows that begin at its own. Returns (y, ring).
    seen = X
    if TAPS > 1:
        seen = torch.cat([torch.split(CS, [1, TAPS - 1], dim=0)[1], X], dim=0)
    weights = torch.split(WC, 1, dim=0)
    y = split_at(seen, 0, STEPS, TAPS - 1) * weights[0]
    for tap in range(1, TAPS):
        y = y + split_at(seen, tap, STEPS, TAPS - 1 - tap) * weights[tap]
    return y, split_at(seen, STEPS - 1, TAPS, 0)


def split_at(X: Tensor, before: int, rows: int, after: int) -> Tensor:
    # The rows between those before and those after.
    sizes = [before] * (before > 0) + [rows] + [after] * (after > 0)
    return torch.split(X, sizes, dim=0)[int(before > 0)] if len(sizes) > 1 else X


def step_rows(X: Tensor, X_rows: int, STEPS: int) -> list[Tensor]:
    # Each step's row, in order.
    if X_rows < STEPS:
        return [X] * STEPS
    return list(torch.split(X, 1, dim=0)) if STEPS > 1 else [X]


def gated_delta_rows(
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
    STEPS: int,
    Q_rows: int,
    K_rows: int,
    V_rows: int,
    Z_rows: int,
    B_rows: int,
    A_rows: int,
    S_columns: int,
    GN_rows: int,
) -> tuple[Tensor, Tensor]:
    # The memory goes from step to step; the output's norm and gate are those of all steps together.
    memory, made = S, []
    q, k, v = step_rows(Q, Q_rows, STEPS), step_rows(K, K_rows, STEPS), step_rows(V, V_rows, STEPS)
    b, a = step_rows(B, B_rows, STEPS), step_rows(A, A_rows, STEPS)
    for step in range(STEPS):
        o, memory = delta_rule(q[step], k[step], v[step], b[step], a[step], memory, HV, HK, S_columns)
        made.append(o)
    o = torch.cat(made, dim=0).reshape(STEPS, HV, S_columns)
    o = o * torch.rsqrt((o * o).sum(dim=-1, keepdim=True) / S_columns + EPS)
    gate = F.silu(widened(Z).reshape(Z_rows, HV, S_columns))
    out = widened(GN).reshape(GN_rows, 1, S_columns) * o * gate
    return as_dtype_of(out.reshape(STEPS, HV * S_columns), V), as_dtype_of(memory.reshape(HV * S_columns, S_columns), S)
