"""An op of the plugin's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from logos import Op, Rows, Shapes


def squared_relu(X: Any) -> Any:
    """max(x, 0)², elementwise (So et al. 2021, Primer)."""
    return np.maximum(X, 0.0) ** 2


SQUARED_RELU = Op(
    "squared relu",
    "squared relu of X",
    (Shapes("X (r, c) -> (r, c)"),),
    squared_relu,
    rows=Rows(("X",), rowwise=True),
)
