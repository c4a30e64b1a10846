"""Published models by name: what their checkpoints' headers say, so that they can be authored without a checkpoint.

Not every size was read from the model's own configuration: some come from cards and reports, some from memory. A test
holds each to a parameter count. A checkpoint's own header stands before its preset: where the file is at hand, author
from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from logos import Tensor
from logos_gguf.keys import Keys
from logos_gguf.shapes import tensor_shapes


@dataclass(frozen=True)
class Preset:
    """A published model's header; satisfies `logos.Header`. `keys` are its metadata below the family's prefix."""

    name: str
    family: str
    keys: Mapping[str, object]
    vocabulary: int
    tied: bool = False

    @cached_property
    def metadata(self) -> Mapping[str, object]:
        keys = {f"{self.family}.{key}": value for key, value in self.keys.items()}
        return {"general.architecture": self.family, "general.name": self.name} | keys

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors in BF16, as the models are published."""
        found = {}
        for name, shape in tensor_shapes(Keys(self.metadata, self.family), self.vocabulary, self.tied):
            size = 1
            for dimension in shape:
                size *= dimension
            found[name] = Tensor(name, shape, "BF16", 2 * size, Path(self.name))
        return found


def _keys(layers: int, width: int, heads: int, groups: int, more: Mapping[str, object]) -> dict[str, object]:
    return {
        "block_count": layers,
        "embedding_length": width,
        "attention.head_count": heads,
        "attention.head_count_kv": groups,
        "attention.layer_norm_rms_epsilon": 1e-6,
        **more,
    }


_QWEN3: dict[str, object] = {"context_length": 40960, "attention.key_length": 128, "rope.freq_base": 1e6}
_HYBRID: dict[str, object] = {
    "context_length": 262144, "attention.key_length": 256, "rope.freq_base": 1e7, "rope.dimension_count": 64,
    "full_attention_interval": 4, "ssm.conv_kernel": 4, "ssm.state_size": 128, "ssm.group_count": 16,
}  # fmt: skip


def _qwen3(name: str, layers: int, width: int, hidden: int, heads: int, groups: int, tied: bool = False) -> Preset:
    dense: dict[str, object] = {"feed_forward_length": hidden}
    keys = _keys(layers, width, heads, groups, _QWEN3 | dense)
    return Preset(name, "qwen3", keys, 151936, tied)


def _qwen3moe(name: str, layers: int, width: int, heads: int, experts: int, used: int, expert: int) -> Preset:
    routed: dict[str, object] = {
        "expert_count": experts, "expert_used_count": used, "expert_feed_forward_length": expert,
    }  # fmt: skip
    return Preset(name, "qwen3moe", _keys(layers, width, heads, 4, _QWEN3 | routed), 151936)


def _qwen35(
    name: str, layers: int, width: int, hidden: int, heads: int, groups: int, values: int, tied: bool = False
) -> Preset:
    sizes: dict[str, object] = {
        "feed_forward_length": hidden, "ssm.time_step_rank": values, "ssm.inner_size": values * 128,
    }  # fmt: skip
    return Preset(name, "qwen35", _keys(layers, width, heads, groups, _HYBRID | sizes), 248320, tied)


def _qwen35moe(
    name: str, layers: int, width: int, heads: int, values: int, experts: int, used: int, expert: int
) -> Preset:
    sizes: dict[str, object] = {
        "expert_count": experts, "expert_used_count": used, "expert_feed_forward_length": expert,
        "expert_shared_feed_forward_length": expert, "ssm.time_step_rank": values, "ssm.inner_size": values * 128,
    }  # fmt: skip
    return Preset(name, "qwen35moe", _keys(layers, width, heads, 2, _HYBRID | sizes), 248320)


_ALL = (
    _qwen3("Qwen3-0.6B", 28, 1024, 3072, 16, 8, tied=True),
    _qwen3("Qwen3-1.7B", 28, 2048, 6144, 16, 8, tied=True),
    _qwen3("Qwen3-4B", 36, 2560, 9728, 32, 8, tied=True),
    _qwen3("Qwen3-8B", 36, 4096, 12288, 32, 8),
    _qwen3("Qwen3-14B", 40, 5120, 17408, 40, 8),
    _qwen3("Qwen3-32B", 64, 5120, 25600, 64, 8),
    _qwen3moe("Qwen3-30B-A3B", 48, 2048, 32, 128, 8, 768),
    _qwen3moe("Qwen3-235B-A22B", 94, 4096, 64, 128, 8, 1536),
    _qwen35("Qwen3.5-0.8B", 24, 1024, 3584, 8, 2, 16, tied=True),
    _qwen35("Qwen3.5-2B", 24, 2048, 6144, 8, 2, 16, tied=True),
    _qwen35("Qwen3.5-4B", 32, 2560, 9216, 16, 4, 32, tied=True),
    _qwen35("Qwen3.5-9B", 32, 4096, 12288, 16, 4, 32),
    _qwen35("Qwen3.5-27B", 64, 5120, 17408, 24, 4, 48),
    _qwen35("Qwen3.6-27B", 64, 5120, 17408, 24, 4, 48),
    _qwen35("Qwen3.8-27B", 64, 5120, 17408, 24, 4, 48),
    _qwen35moe("Qwen3.5-35B-A3B", 40, 2048, 16, 32, 256, 8, 512),
    _qwen35moe("Qwen3.6-35B-A3B", 40, 2048, 16, 32, 256, 8, 512),
    _qwen35moe("Qwen3.5-122B-A10B", 48, 3072, 32, 64, 256, 8, 1024),
    _qwen35moe("Qwen3.5-397B-A17B", 60, 4096, 32, 64, 512, 10, 1024),
)

PRESETS: Mapping[str, Preset] = {preset.name.lower(): preset for preset in _ALL}
"""Every preset, by the name that `logos author --preset` takes."""


def presets_of(family: str) -> Mapping[str, Preset]:
    """A family's presets, by name."""
    return {name: preset for name, preset in PRESETS.items() if preset.family == family}
