"""What each torch operator of the spellings gives, in numpy float64 and exact integers: what its probe is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHAPES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "x": (3, 8), "y": (3, 8), "p": (3, 8), "a": (2, 3, 4), "b": (2, 4, 3), "c": (3, 1),
        "w": (4, 8), "table": (6, 8), "g": (8,), "h": (8,), "row": (1, 1), "rows": (3,), "mask": (3, 8),
    }
)  # fmt: skip
"""The shape of what a parameter of emitted/operator_probes.py takes, by its name; `p` is positive."""

PARAMETERS = ("w", "table", "g", "h")
"""Those that are parameters of the module, not inputs."""


def _gelu(x: Array) -> Array:
    z = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(z)))


def _layer_norm(x: Array, g: Array, h: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * g + h)


def _max(x: Array) -> tuple[Array, ...]:
    return x.max(-1, keepdims=True), x.argmax(-1)[:, None]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


FORMULAS: Mapping[str, Callable[..., Array | tuple[Array, ...]]] = MappingProxyType(
    {
        "abs": np.abs,
        "add": lambda x, y: x + y,
        "argmax": lambda x: x.argmax(1)[:, None],
        "bmm": lambda a, b: a @ b,
        "cast": lambda x, rows: (rows.astype(x.dtype), x),
        "cat": lambda x, y: np.concatenate([x, y], 1),
        "div": lambda x: x / 7,
        "embedding": lambda row, table: table[row],
        "eq": lambda rows, row: rows == row,
        "exp": np.exp,
        "expand": lambda c: np.broadcast_to(c, (3, 8)),
        "gelu": _gelu,
        "gt": lambda rows, row: rows > row,
        "index_select": lambda table, rows: table[rows],
        "layer_norm": _layer_norm,
        "linear": lambda x, w: x @ w.T,
        "masked_fill": lambda x, mask: np.where(mask, -2, x),
        "matmul": lambda a, b: a @ b,
        "max": _max,
        "mean": lambda x: x.mean(-1, keepdims=True),
        "minimum": np.minimum,
        "mul": lambda x, y: x * y,
        "neg": np.negative,
        "permute": lambda a: a.transpose(1, 2, 0),
        "pow": lambda p, x: (p**-0.5, p**x),
        "reciprocal": lambda p: 1 / p,
        "reshape": lambda x: x.reshape(4, 6),
        "rsqrt": lambda p: p**-0.5,
        "sigmoid": _sigmoid,
        "silu": lambda x: x * _sigmoid(x),
        "slice": lambda x: x[:, 2:6],
        "softmax": _softmax,
        "softplus": lambda x: np.logaddexp(0, x),
        "split": lambda x: (x[:, :3], x[:, 3:]),
        "sqrt": np.sqrt,
        "squeeze": lambda c: c[:, 0],
        "sub": lambda x, y: x - y,
        "sum": lambda x: x.sum(-1, keepdims=True),
        "transpose": lambda x: x.T,
        "unsqueeze": lambda x: x[:, :, None],
        "where": np.where,
    }
)
"""The formula of each operator, by the parameters of its function in emitted/operator_probes.py."""
