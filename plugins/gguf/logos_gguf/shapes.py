"""The tensors of a model, by its metadata: names and shapes as llama.cpp's converter writes them."""

from __future__ import annotations

from collections.abc import Container, Iterator

from logos_gguf import model
from logos_gguf.keys import Keys

Shape = tuple[int, ...]
"""In numpy's order, slowest dimension first."""


def tensor_shapes(keys: Keys, vocabulary: int, tied: bool) -> Iterator[tuple[str, Shape]]:
    """Every tensor of a qwen3, qwen3moe, qwen35 or qwen35moe model; without `output.weight` where the head is tied."""
    width, layers = keys.count("embedding_length"), model.read_layers(keys)
    hybrid = keys.has("ssm.conv_kernel")
    attends: Container[int] = model.read_attention_layers(keys, layers) if hybrid else range(layers)
    yield "token_embd.weight", (vocabulary, width)
    for layer in range(layers):
        block = _attention(keys, width, hybrid) if layer in attends else _delta(keys, width)
        feed_forward = _experts(keys, width) if keys.has("expert_count") else _dense(keys, width)
        yield f"blk.{layer}.attn_norm.weight", (width,)
        yield from ((f"blk.{layer}.{name}", shape) for name, shape in block.items())
        yield f"blk.{layer}.{'post_attention_norm' if hybrid else 'ffn_norm'}.weight", (width,)
        yield from ((f"blk.{layer}.{name}", shape) for name, shape in feed_forward.items())
    yield "output_norm.weight", (width,)
    if not tied:
        yield "output.weight", (vocabulary, width)


def _attention(keys: Keys, width: int, gate: bool) -> dict[str, Shape]:
    sizes = model.read_attention(keys)
    queries, others = sizes.heads * sizes.head, sizes.groups * sizes.head
    return {
        "attn_q.weight": (2 * queries if gate else queries, width),
        "attn_k.weight": (others, width),
        "attn_v.weight": (others, width),
        "attn_q_norm.weight": (sizes.head,),
        "attn_k_norm.weight": (sizes.head,),
        "attn_output.weight": (width, queries),
    }


def _delta(keys: Keys, width: int) -> dict[str, Shape]:
    sizes = model.read_delta(keys)
    channels, heads = 2 * sizes.keys + sizes.values, sizes.value_heads
    return {
        "attn_qkv.weight": (channels, width),
        "attn_gate.weight": (sizes.values, width),
        "ssm_conv1d.weight": (channels, sizes.taps),
        "ssm_beta.weight": (heads, width),
        "ssm_alpha.weight": (heads, width),
        "ssm_dt.bias": (heads,),
        "ssm_a": (heads,),
        "ssm_norm.weight": (sizes.width,),
        "ssm_out.weight": (width, sizes.values),
    }


def _dense(keys: Keys, width: int) -> dict[str, Shape]:
    hidden = keys.count("feed_forward_length")
    return {"ffn_gate.weight": (hidden, width), "ffn_up.weight": (hidden, width), "ffn_down.weight": (width, hidden)}


def _experts(keys: Keys, width: int) -> dict[str, Shape]:
    sizes = model.read_experts(keys, keys.has("expert_shared_feed_forward_length"))
    found: dict[str, Shape] = {
        "ffn_gate_inp.weight": (sizes.count, width),
        "ffn_gate_exps.weight": (sizes.count, sizes.width, width),
        "ffn_up_exps.weight": (sizes.count, sizes.width, width),
        "ffn_down_exps.weight": (sizes.count, width, sizes.width),
    }
    if sizes.shared:
        found |= {
            "ffn_gate_inp_shexp.weight": (width,),
            "ffn_gate_shexp.weight": (sizes.shared, width),
            "ffn_up_shexp.weight": (sizes.shared, width),
            "ffn_down_shexp.weight": (width, sizes.shared),
        }
    return found
