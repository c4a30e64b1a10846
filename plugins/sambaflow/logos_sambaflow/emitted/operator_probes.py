# mypy: ignore-errors
"""One function for each torch operator of the spellings, as these use it: what the operators' probes hold.

A parameter's name says what it takes (operators.py has the shapes): `x`, `y`, `p`, `a`, `b`, `c` are inputs of the
probe's dtype, `w`, `table`, `g`, `h` parameters of it, `row` and `rows` int32 inputs, `mask` a boolean one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def abs(x):
    return torch.abs(x)


def add(x, y):
    return x + y


def argmax(x):
    return torch.argmax(x, dim=1, keepdim=True)


def bmm(a, b):
    return torch.bmm(a, b)


def cast(x, rows):
    return rows.to(x.dtype), x.float()


def cat(x, y):
    return torch.cat([x, y], dim=1)


def div(x):
    return x / 7


def embedding(row, table):
    return F.embedding(row, table)


def eq(rows, row):
    return rows == row


def exp(x):
    return torch.exp(x)


def expand(c):
    return c.expand(3, 8)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def gt(rows, row):
    return rows > row


def index_select(table, rows):
    return table.index_select(0, rows)


def layer_norm(x, g, h):
    return F.layer_norm(x, [8], g, h, 1e-06)


def linear(x, w):
    return F.linear(x, w)


def masked_fill(x, mask):
    return x.masked_fill(mask, -2.0)


def matmul(a, b):
    return torch.matmul(a, b)


def max(x):
    values, places = torch.max(x, dim=-1, keepdim=True)
    return values, places


def mean(x):
    return x.mean(dim=-1, keepdim=True)


def minimum(x, y):
    return torch.minimum(x, y)


def mul(x, y):
    return x * y


def neg(x):
    return torch.neg(x)


def permute(a):
    return a.permute(1, 2, 0)


def pow(p, x):
    return p.pow(-0.5), p.pow(x)


def reciprocal(p):
    return torch.reciprocal(p)


def reshape(x):
    return x.reshape(4, 6)


def rsqrt(p):
    return torch.rsqrt(p)


def sigmoid(x):
    return torch.sigmoid(x)


def silu(x):
    return F.silu(x)


def slice(x):
    return x[:, 2:6]


def softmax(x):
    return torch.softmax(x, dim=-1)


def softplus(x):
    return F.softplus(x, threshold=40.0)


def split(x):
    return torch.split(x, [3, 5], dim=1)


def sqrt(p):
    return torch.sqrt(p)


def squeeze(c):
    return c.squeeze(1)


def sub(x, y):
    return x - y


def sum(x):
    return x.sum(dim=-1, keepdim=True)


def transpose(x):
    return x.transpose(0, 1)


def unsqueeze(x):
    return x.unsqueeze(2)


def where(mask, x, y):
    return torch.where(mask, x, y)
