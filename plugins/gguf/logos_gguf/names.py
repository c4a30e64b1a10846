"""Which tensor a program variable takes: one naming table for all families."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from logos import Graph, Value

_LAYERED = re.compile(r"([A-Za-z]+)(0|[1-9][0-9]{0,8})\Z")
_DIGITS = re.compile(r"(?<![0-9])(0|[1-9][0-9]{0,8})\Z")

HYBRID = ("qwen35", "qwen35moe")
"""Families whose layers are attention or delta blocks; in every other one each layer is an attention block."""

_WITHOUT = {
    "llama": ("Qn", "Kn", "Wqg"),
    "qwen3": ("Wqg",),
    "qwen3moe": ("Wqg",),
    "qwen35": (),
    "qwen35moe": (),
}
"""The families, each with the stems of an attention block that its blocks do not have. Whether a feed-forward network
is routed is not the family's to say: a llama file may have experts."""

# A stem's tensor, after `blk.<layer>.`, in any block; in an attention block; in a delta block.
_ANY = {
    "an": "attn_norm.weight",
    "Wg": "ffn_gate.weight",
    "Wu": "ffn_up.weight",
    "Wd": "ffn_down.weight",
    "Wr": "ffn_gate_inp.weight",
    "Eg": "ffn_gate_exps.weight",
    "Eu": "ffn_up_exps.weight",
    "Ed": "ffn_down_exps.weight",
    "Sr": "ffn_gate_inp_shexp.weight",
    "Sg": "ffn_gate_shexp.weight",
    "Su": "ffn_up_shexp.weight",
    "Sd": "ffn_down_shexp.weight",
}
_ATTENTION = {
    "Qn": "attn_q_norm.weight",
    "Kn": "attn_k_norm.weight",
    "Wq": "attn_q.weight",
    "Wqg": "attn_q.weight",
    "Wk": "attn_k.weight",
    "Wv": "attn_v.weight",
    "Wo": "attn_output.weight",
}
_DELTA = {
    "Wq": "attn_qkv.weight",
    "Wk": "attn_qkv.weight",
    "Wv": "attn_qkv.weight",
    "Wz": "attn_gate.weight",
    "Wo": "ssm_out.weight",
    "Wcq": "ssm_conv1d.weight",
    "Wck": "ssm_conv1d.weight",
    "Wcv": "ssm_conv1d.weight",
    "Wb": "ssm_beta.weight",
    "Wa": "ssm_alpha.weight",
    "Dt": "ssm_dt.bias",
    "Al": "ssm_a",
    "Gn": "ssm_norm.weight",
}
_UNNUMBERED = {
    "emb": "token_embd.weight",
    "Emb": "token_embd.weight",
    "on": "output_norm.weight",
    "Wout": "output.weight",
}
AS_STORED = frozenset(("an", "fn", "Qn", "Kn", "Dt", "Al", "Gn", "Wr", "Eg", "Eu", "Ed", "emb", "Emb", "on"))
"""The stems whose variable has its tensor's own shape; every other one is the transpose."""


def split_name(variable: str) -> tuple[str, int | None]:
    """A variable as stem and layer: `Wq3` is ("Wq", 3), `on` is ("on", None)."""
    match = _LAYERED.match(variable)
    return (match[1], int(match[2])) if match else (variable, None)


def gguf_name(variable: str, attention_layers: Container[int], family: str = "qwen35") -> str | None:
    """The full name of the tensor that a variable takes by a family's naming, such as `blk.0.attn_norm.weight`.

    `attention_layers` holds the layers that are attention blocks; it decides in a hybrid family alone. None for
    states, inputs, tables, names outside the convention, stems without a meaning in that kind of block (a gate or
    norms of queries in llama), and a family that is none of these. The output head is `output.weight`, which a
    checkpoint with a tied head lacks.
    """
    stem, layer = split_name(variable)
    if family not in _WITHOUT or stem in _WITHOUT[family]:
        return None
    if layer is None:
        return _UNNUMBERED.get(stem)
    hybrid = family in HYBRID
    if stem == "fn":
        name: str | None = "post_attention_norm.weight" if hybrid else "ffn_norm.weight"
    else:
        block = _ATTENTION if not hybrid or layer in attention_layers else _DELTA
        name = _ANY.get(stem) or block.get(stem)
    return f"blk.{layer}.{name}" if name else None


def attention_layers(graph: Graph) -> frozenset[int]:
    """The layers l of a program for which the Q of an `attention` op ends in the digits l."""
    return frozenset(_layers(graph))


def _layers(graph: Graph) -> Iterator[int]:
    for node in graph.nodes:
        query = node.operands.get("Q")
        if node.op.name == "attention" and isinstance(query, Value) and (match := _DIGITS.search(query.name)):
            yield int(match[1])
