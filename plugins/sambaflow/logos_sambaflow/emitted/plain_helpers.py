"""The helpers of `-D operators=plain`: readable torch where torch_helpers keeps to the vendor's operators.

The same rules of naming as in torch_helpers. A helper that is not here is the same in both.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from logos_sambaflow.emitted.torch_helpers import grouped_mix, grouped_scores


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
    if H is not None:
        x = x.reshape(H, X_columns // H)
    y = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + EPS)
    if W is not None:
        y = y * W
    return y if H is None else y.reshape(X_rows, X_columns)


def layernorm(X: Tensor, W: Tensor, B: Tensor, EPS: float, X_columns: int) -> Tensor:
    return F.layer_norm(X, [X_columns], W.reshape(X_columns), B.reshape(X_columns), EPS)


def l2norm(X: Tensor, EPS: float, X_rows: int, X_columns: int, H: int | None = None) -> Tensor:
    x = X if H is None else X.reshape(H, X_columns // H)
    y = x / torch.sqrt((x * x).sum(dim=-1, keepdim=True) + EPS)
    return y if H is None else y.reshape(X_rows, X_columns)


def rope(Q: Tensor, RC: Tensor, RS: Tensor, Q_columns: int, RC_columns: int, H: int | None = None) -> Tensor:
    # Pairs (i, i + half) of every head turn; what lies beyond 2 · half passes through.
    heads = Q_columns // (2 * RC_columns) if H is None else H
    x = Q.reshape(heads, Q_columns // heads)
    a, b, rest = x[:, :RC_columns], x[:, RC_columns : 2 * RC_columns], x[:, 2 * RC_columns :]
    return torch.cat([a * RC - b * RS, a * RS + b * RC, rest], dim=1).reshape(1, Q_columns)


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
) -> Tensor:
    scores = grouped_scores(Q, K, H, KV, Q_columns // H, K_rows)
    later = (K_numbers > P).reshape(1, 1, K_rows)
    return grouped_mix(scores.masked_fill(later, float("-inf")), V, KV, Q_columns // H, K_rows, Q_columns)


def sigmoid(X: Tensor) -> Tensor:
    return torch.sigmoid(X)


def gelu(X: Tensor) -> Tensor:
    return F.gelu(X, approximate="tanh")


def set_row(P: Tensor, T: Tensor, R: Tensor, T_numbers: Tensor) -> Tensor:
    return torch.where(T_numbers == P, R, T)


def causal_conv(X: Tensor, WC: Tensor, CS: Tensor, TAPS: int) -> tuple[Tensor, Tensor]:
    # The ring moves up one row and X becomes its last; returns (y, ring).
    ring = torch.cat([CS[1:], X], dim=0)
    return (ring * WC).sum(dim=0, keepdim=True), ring
