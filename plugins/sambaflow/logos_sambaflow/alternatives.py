"""The spellings that may take the place of an op's first one, and the dtypes in which a spelling uses its operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ALTERNATIVES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "linear": ("linear_by_matmul",),
        "matmul": ("matmul_by_bmm",),
        "plus": ("plus_by_sub",),
        "transpose": ("transpose_by_permute",),
        "rmsnorm": ("rmsnorm_by_pow",),
        "layernorm": ("layernorm_by_pow",),
        "l2norm": ("l2norm_by_pow",),
        "attention": ("attention_by_exp", "attention_by_silu"),
        "attention_up_to": ("attention_up_to_by_abs", "attention_up_to_by_exp", "attention_up_to_by_silu"),
        "full_attention": ("full_attention_by_exp", "full_attention_by_silu"),
        "softmax": ("softmax_by_exp", "softmax_by_silu"),
        "sigmoid": ("sigmoid_by_torch", "sigmoid_by_exp", "sigmoid_by_silu"),
        "silu": ("silu_by_softmax", "silu_by_sigmoid"),
        "gelu": ("gelu_by_silu", "gelu_by_torch"),
        "swiglu": ("swiglu_by_softmax", "swiglu_by_sigmoid"),
        "argmax": ("argmax_by_max",),
        "embedding": ("embedding_by_index_select",),
        "set_row": ("set_row_by_abs", "set_row_by_where"),
        "decay": ("decay_by_pow",),
        "gated_delta": ("gated_delta_by_softmax", "gated_delta_by_pow", "gated_delta_by_softmax_and_pow"),
    }
)
"""For each helper of torch_helpers, those of alternative_helpers that may take its place, the likeliest first."""

_SOFTMAX = "cast reshape expand unsqueeze cat softmax split squeeze"
_BY_EXP = "max sub exp sum reciprocal mul"
_BY_SILU = "max sub silu neg add reciprocal mul sum"
_GROUPED = "reshape permute matmul div"
OPERATORS: Mapping[str, str] = MappingProxyType(
    {
        "linear_by_matmul": "transpose matmul",
        "matmul_by_bmm": "unsqueeze bmm squeeze",
        "plus_by_sub": "neg sub",
        "transpose_by_permute": "permute",
        "rmsnorm_by_pow": "add reshape mul sum div pow",
        "layernorm_by_pow": "sub sum div mul pow add",
        "l2norm_by_pow": "reshape mul sum add pow",
        "attention_by_exp": f"{_GROUPED} {_BY_EXP}",
        "attention_by_silu": f"{_GROUPED} {_BY_SILU}",
        "attention_up_to_by_abs": f"{_GROUPED} softmax sub abs add minimum cast mul",
        "attention_up_to_by_exp": f"{_GROUPED} {_BY_EXP} neg minimum cast add",
        "attention_up_to_by_silu": f"{_GROUPED} {_BY_SILU} minimum cast",
        "full_attention_by_exp": f"{_GROUPED} {_BY_EXP}",
        "full_attention_by_silu": f"{_GROUPED} {_BY_SILU}",
        "softmax_by_exp": _BY_EXP,
        "softmax_by_silu": _BY_SILU,
        "sigmoid_by_torch": "sigmoid",
        "sigmoid_by_exp": "neg exp add reciprocal",
        "sigmoid_by_silu": "cast minimum neg add sub silu reciprocal mul",
        "silu_by_softmax": f"{_SOFTMAX} mul",
        "silu_by_sigmoid": "sigmoid mul",
        "swiglu_by_softmax": f"{_SOFTMAX} mul",
        "swiglu_by_sigmoid": "sigmoid mul",
        "gelu_by_silu": "mul add silu reciprocal",
        "gelu_by_torch": "gelu",
        "argmax_by_max": "reshape max cast",
        "embedding_by_index_select": "reshape index_select",
        "set_row_by_abs": "sub abs minimum cast mul add",
        "set_row_by_where": "eq where",
        "decay_by_pow": f"add neg minimum {_SOFTMAX} pow mul reciprocal",
        "gated_delta_by_softmax": f"{_SOFTMAX} mul matmul sub add transpose div sum rsqrt",
        "gated_delta_by_softmax_and_pow": f"{_SOFTMAX} mul matmul sub add transpose div sum pow",
        "gated_delta_by_pow": "cast reshape cat mul matmul sub add transpose div sum pow silu",
    }
)
"""The torch operators that each of them may use."""

_IN_ROWS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "attention_up_to": ("sub neg minimum", "sub neg minimum"),
        "attention_up_to_by_abs": ("sub abs add minimum", "sub abs minimum"),
        "attention_up_to_by_exp": ("sub neg minimum", "neg minimum"),
        "attention_up_to_by_silu": ("sub neg minimum", "minimum"),
        "set_row": ("sub minimum neg add", "sub minimum"),
        "set_row_by_abs": ("sub abs minimum", "abs minimum"),
        "attention_up_to_rows": ("sub neg minimum", "sub neg minimum"),
        "set_rows": ("sub minimum neg add", "sub minimum"),
    }
)
"""For helpers that compute with row numbers: the operators that they use in int32, and those of them that they use
there alone."""

_COMPARISONS = ("eq", "gt")
"""Nothing else compares: they take row numbers wherever they are used."""


def in_dtypes(helper: str, operators: tuple[str, ...], dtype: str) -> tuple[tuple[str, str], ...]:
    """A helper's operators, each with the dtypes in which it is used where the helper's operands are of `dtype`."""
    rows, only = ({*names.split(), *_COMPARISONS} for names in _IN_ROWS.get(helper, ("", "")))
    in_rows = [(name, "int32") for name in operators if name in rows]
    return (*((name, dtype) for name in operators if name not in only), *in_rows)
