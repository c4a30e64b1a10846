"""The target's table: for every op the helper that spells it, and the torch operators of each helper."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from logos import Op, refuse, suggestion
from logos_sambaflow.alternatives import ALTERNATIVES, OPERATORS
from logos_sambaflow.parts import Part, helpers

QWEN38_OPS: tuple[str, ...] = (
    "rmsnorm",
    "rope",
    "attention",
    "sigmoid",
    "hadamard",
    "causal conv",
    "silu",
    "l2norm",
    "decay",
    "gated delta",
    "swiglu",
    "matmul",
    "argmax",
    "embedding",
)
"""The ops of a Gated DeltaNet hybrid's decode step (Qwen3.5 and later); `plus` and `set row` are spelled too."""

_SPELLED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "matmul": ("matmul", "linear"),
        "plus": ("plus",),
        "hadamard": ("hadamard",),
        "transpose": ("transpose",),
        "rmsnorm": ("rmsnorm",),
        "layernorm": ("layernorm",),
        "l2norm": ("l2norm",),
        "rope": ("rope",),
        "attention": ("attention_up_to", "attention"),
        "full attention": ("full_attention",),
        "softmax": ("softmax",),
        "sigmoid": ("sigmoid",),
        "silu": ("silu",),
        "gelu": ("gelu",),
        "swiglu": ("swiglu",),
        "argmax": ("argmax",),
        "embedding": ("embedding",),
        "set row": ("set_row",),
        "causal conv": ("causal_conv",),
        "decay": ("decay",),
        "gated delta": ("gated_delta",),
    }
)

SPELLS: frozenset[str] = frozenset(_SPELLED)
"""The names of the ops that the target spells."""

FIRST_OPS: Mapping[str, str] = MappingProxyType({helper: op for op, names in _SPELLED.items() for helper in names})
"""The op that each helper of torch_helpers spells: its first spelling."""

HELPER_OPS: Mapping[str, str] = MappingProxyType(
    {helper: op for first, op in FIRST_OPS.items() for helper in (first, *ALTERNATIVES.get(first, ()))}
)
"""The op that each helper spells, alternatives included."""

ROW_OPS: Mapping[str, str] = MappingProxyType(
    {
        "rmsnorm_rows": "rmsnorm",
        "l2norm_rows": "l2norm",
        "rope_rows": "rope",
        "attention_rows": "attention",
        "attention_up_to_rows": "attention",
        "full_attention_rows": "full attention",
        "argmax_rows": "argmax",
        "embedding_rows": "embedding",
        "set_rows": "set row",
        "causal_conv_rows": "causal conv",
        "gated_delta_rows": "gated delta",
    }
)
"""The op that each helper of many steps at once spells; an op without one has a helper that takes a row a step."""

_GROUPED = "reshape permute matmul div softmax"
_LISTED: Mapping[str, str] = MappingProxyType(
    {
        "linear": "linear",
        "matmul": "matmul",
        "plus": "add",
        "hadamard": "mul",
        "transpose": "transpose",
        "rmsnorm": "add reshape mul sum div rsqrt",
        "layernorm": "sub sum div mul rsqrt add",
        "l2norm": "reshape mul sum add rsqrt",
        "rope": "reshape split mul sub add cat",
        "attention": _GROUPED,
        "attention_up_to": f"{_GROUPED} sub neg minimum cast mul add",
        "full_attention": _GROUPED,
        "softmax": "softmax",
        "sigmoid": "cast reshape expand unsqueeze cat softmax split squeeze",
        "silu": "silu",
        "gelu": "mul add cast reshape expand unsqueeze cat softmax split squeeze",
        "swiglu": "silu mul",
        "argmax": "reshape argmax cast",
        "embedding": "embedding reshape",
        "set_row": "sub minimum neg add cast mul",
        "causal_conv": "split cat mul sum",
        "decay": "add softplus mul exp",
        "gated_delta": "cast reshape cat mul matmul sub add transpose div sum rsqrt silu",
        "rmsnorm_rows": "add reshape mul sum div rsqrt",
        "l2norm_rows": "reshape mul sum add rsqrt",
        "rope_rows": "reshape split mul sub add cat expand",
        "attention_rows": _GROUPED,
        "attention_up_to_rows": f"{_GROUPED} sub neg minimum cast mul add",
        "full_attention_rows": "reshape mul sum div softmax expand",
        "argmax_rows": "argmax cast",
        "embedding_rows": "embedding reshape",
        "set_rows": "reshape sub minimum neg add cast sum mul matmul",
        "causal_conv_rows": "split cat mul add",
        "gated_delta_rows": "split cast reshape cat mul matmul sub add transpose div sum rsqrt silu",
    }
)
_PLAIN: Mapping[str, str] = MappingProxyType(
    {
        "rmsnorm": "add reshape mul mean sqrt div",
        "layernorm": "reshape layer_norm",
        "l2norm": "reshape mul sum add sqrt div",
        "rope": "reshape slice mul sub add cat",
        "attention_up_to": "reshape permute matmul div gt masked_fill softmax",
        "sigmoid": "sigmoid",
        "gelu": "gelu",
        "set_row": "eq where",
        "causal_conv": "slice cat mul sum",
    }
)

_DOCUMENTED = (
    "abs add addmm argmax bitwise_not bmm cat cross_entropy cumsum div dropout expand flatten gelu index_select linear"
    " logical_or masked_fill matmul"
)
_VENDOR_USED = (
    "cast contiguous embedding max minimum mul neg permute pow reciprocal reshape rsqrt silu softmax split squeeze sub"
    " sum transpose unsqueeze view"
)


def support(operator: str) -> str:
    """`documented` by the vendor, `vendor-used` in its published inference graphs, else `unknown`."""
    if operator in _DOCUMENTED.split():
        return "documented"
    return "vendor-used" if operator in _VENDOR_USED.split() else "unknown"


def operators_of(helper: str, operators: str) -> tuple[str, ...]:
    """The torch operators that a helper may use, by torch's names (`cast` is a change of dtype)."""
    if helper in OPERATORS:
        return tuple(OPERATORS[helper].split())
    table = _LISTED if operators == "listed" or helper not in _PLAIN else _PLAIN
    return tuple(table[helper].split())


def spelled(part: Part) -> str:
    """A helper with the op's formal operands: its expression where it is one of them alone, else its call."""
    operands = [name for name in part.parameters if name.isupper()]
    if part.result is not None and len(operands) == len(part.parameters):
        return part.result
    return f"{part.name}({', '.join(operands)})"


def torch_spelling(op: str | Op) -> str:
    """How the target writes an op, in torch, with the op's formal operands: `torch.softmax(X, dim=-1)`.

    A call such as `rope(Q, RC, RS, H)` names a helper whose text is emitted with the module. A matmul by a weight
    is F.linear on the weight's stored [out, in] rows instead of `A @ B`. Refused (`op-not-spelled`): any other op.
    """
    name = op if isinstance(op, str) else op.name
    if name not in _SPELLED:
        raise refuse(
            "op-not-spelled",
            f"rdu-sambaflow does not spell {name!r}{suggestion(name, SPELLS)}",
            None,
            f"use an op that it spells: {', '.join(sorted(SPELLS))}",
        )
    return spelled(helpers("listed")[_SPELLED[name][0]])


def base_op(op: str) -> str:
    """The op that an op of many steps at once was made from; any other itself."""
    base = op.removesuffix(" rows")
    return base if base in SPELLS else op


def _rows_helper(helper: str) -> str:
    """The helper of many steps for that of one, which serves both where it takes a row for each step."""
    name = "set_rows" if helper == "set_row" else f"{helper}_rows"
    return name if name in ROW_OPS else helper


def helper_of(op: str, linear: bool, bounded: bool) -> str:
    """The helper for an operation: `linear` where a matmul's B is a weight kept as [out, in] rows, `bounded` where an
    attention reads rows up to a position."""
    base = base_op(op)
    names = _SPELLED[base]
    if base != op:
        return _rows_helper(names[0 if bounded or base != "attention" else 1])
    if op == "matmul":
        return "linear" if linear else "matmul"
    if op == "attention":
        return "attention_up_to" if bounded else "attention"
    return names[0]
