"""A decoder's sizes, read from a checkpoint's metadata."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from logos import Header, Spot, refuse
from logos_gguf import rope
from logos_gguf.keys import FEW, Keys, file_of

# Keys that change what a layer computes. LOGOS writes programs without them, so a value other than these is refused.
_LARGEST_FLOAT32 = float.fromhex("0x1.fffffep+127")
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "attention.sliding_window": (0,),
    "attn_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_weights_scale": (0.0, 1.0),
    "final_logit_softcapping": (0.0,),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "use_parallel_residual": (False,),
}


def keys_of(header: Header) -> Keys:
    """The keys below the architecture's prefix. Refused: a file that names no architecture (`checkpoint-metadata`)."""
    file = file_of(header)
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise refuse(
            "checkpoint-metadata",
            "the file has no such key as text, so its model is unknown",
            Spot(f"{file}metadata key general.architecture"),
            "convert the model again with a current converter",
        )
    return Keys(header.metadata, architecture, file)


@dataclass(frozen=True)
class Attention:
    """Query heads, key-value heads, the width of one head."""

    heads: int
    groups: int
    head: int


@dataclass(frozen=True)
class Delta:
    """A delta block's sizes: convolution taps, width d of a head, key heads HK, value heads HV."""

    taps: int
    width: int
    key_heads: int
    value_heads: int

    @property
    def keys(self) -> int:
        return self.key_heads * self.width

    @property
    def values(self) -> int:
        return self.value_heads * self.width


@dataclass(frozen=True)
class Experts:
    """Experts in all, experts used, the width of one, the width of the shared one (0: none)."""

    count: int
    used: int
    width: int
    shared: int


def read_attention(keys: Keys) -> Attention:
    heads = keys.count("attention.head_count", most=FEW)
    groups = keys.count("attention.head_count_kv", heads, most=FEW)
    head = keys.count("attention.key_length", max(1, keys.count("embedding_length") // heads), most=FEW)
    if heads % groups:
        raise keys.bad("attention.head_count_kv", f"is {groups}, which does not divide the {heads} query heads")
    if (value := keys.count("attention.value_length", head)) != head:
        raise keys.bad("attention.value_length", f"is {value}; LOGOS does attention whose values are as wide as keys")
    return Attention(heads, groups, head)


def read_delta(keys: Keys) -> Delta:
    delta = Delta(
        keys.count("ssm.conv_kernel", most=FEW),
        keys.count("ssm.state_size", most=FEW),
        keys.count("ssm.group_count", most=FEW),
        keys.count("ssm.time_step_rank", most=FEW),
    )
    if keys.count("ssm.inner_size") != delta.values:
        raise keys.bad("ssm.inner_size", f"is not {delta.value_heads} value heads times their width {delta.width}")
    if delta.value_heads % delta.key_heads:
        raise keys.bad("ssm.group_count", f"is {delta.key_heads}, which does not divide {delta.value_heads} heads")
    return delta


def read_experts(keys: Keys, shared: bool) -> Experts:
    experts = Experts(
        keys.count("expert_count", most=FEW),
        keys.count("expert_used_count"),
        keys.count("expert_feed_forward_length"),
        keys.count("expert_shared_feed_forward_length") if shared else 0,
    )
    if experts.used > experts.count:
        raise keys.bad("expert_used_count", f"is {experts.used} of {experts.count} experts")
    return experts


def read_layers(keys: Keys) -> int:
    """Layers that a step runs: all blocks but those that only predict further tokens."""
    blocks = keys.count("block_count", most=FEW)
    layers = blocks - keys.count("nextn_predict_layers", 0, least=0, most=FEW)
    if layers < 1:
        raise keys.bad("nextn_predict_layers", f"leaves no layer of {blocks}")
    return layers


def read_attention_layers(keys: Keys, layers: int) -> frozenset[int]:
    """A hybrid's attention layers: by the list of recurrent layers where there is one, else each interval's last."""
    recurrent = keys.flags("attention.recurrent_layers")
    if recurrent is None:
        interval = keys.count("full_attention_interval")
        return frozenset(range(interval - 1, layers, interval))
    if len(recurrent) < layers:
        raise keys.bad("attention.recurrent_layers", f"lists {len(recurrent)} layers of {layers}")
    return frozenset(layer for layer in range(layers) if not recurrent[layer])


def read_eps(keys: Keys) -> str | None:
    """The norms' eps as the shortest text that reads back the same float32; None for the language's default, 1e-6."""
    eps = keys.real("attention.layer_norm_rms_epsilon", 1e-6)
    if not 0 <= eps <= _LARGEST_FLOAT32:
        raise keys.bad("attention.layer_norm_rms_epsilon", f"is {eps}; a number from 0 up is due")
    single = _float32(eps)
    return None if single == _float32(1e-6) else shortest(single)


def shortest(single: float) -> str:
    """The text of fewest digits that reads back the same float32."""
    texts = (f"{single:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if _float32(float(text)) == single)


def _float32(value: float) -> float:
    """The nearest float32; infinity beyond the largest."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0]) if value <= _LARGEST_FLOAT32 else math.inf


def rotary(keys: Keys, attention: Attention) -> int:
    """The rotary width n of a head."""
    return rope.width(keys, attention.head)


def check_neutral(keys: Keys) -> None:
    """Refuses a key that changes what a layer computes in a way that the language's programs here do not say."""
    for key, neutral in _NEUTRAL.items():
        value = keys.metadata.get(f"{keys.architecture}.{key}")
        if value is not None and value not in neutral:
            raise keys.bad(key, f"is {value!r}, which LOGOS does not compute for this family yet")
