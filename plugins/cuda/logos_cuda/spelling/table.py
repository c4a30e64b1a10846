"""The target's table: for every op that its kernels compute, the function that spells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from logos_cuda.lowering import Lowering
from logos_cuda.spelling import arithmetic, attention, experts, pointwise, recurrent, rows, tables

SPELLINGS: Mapping[str, Callable[[Lowering], None]] = MappingProxyType(
    {
        "matmul": arithmetic.matmul,
        "plus": arithmetic.pairwise,
        "hadamard": arithmetic.pairwise,
        "transpose": arithmetic.transpose,
        "rmsnorm": rows.rmsnorm,
        "layernorm": rows.layernorm,
        "l2norm": rows.l2norm,
        "softmax": rows.softmax,
        "argmax": rows.argmax,
        "rope": attention.rope,
        "attention": attention.attention,
        "full attention": attention.full_attention,
        "causal conv": recurrent.causal_conv,
        "decay": recurrent.decay,
        "gated delta": recurrent.gated_delta,
        "moe": experts.moe,
        "sigmoid": pointwise.function,
        "silu": pointwise.function,
        "gelu": pointwise.function,
        "swiglu": pointwise.swiglu,
        "embedding": tables.embedding,
        "set row": tables.set_row,
    }
)

SPELLS: frozenset[str] = frozenset(SPELLINGS)
"""The names of the ops that the target spells."""
