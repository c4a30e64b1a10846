"""The language's ops, one file a family of ops, listed here explicitly: nothing is registered by import."""

from __future__ import annotations

from logos.op import Op
from logos.ops import arithmetic, attention, experts, norms, pointwise, recurrent, tables

OPS: tuple[Op, ...] = (
    *arithmetic.OPS,
    *norms.OPS,
    *attention.OPS,
    *pointwise.OPS,
    *tables.OPS,
    *recurrent.OPS,
    *experts.OPS,
)
