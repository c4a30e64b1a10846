"""Checkpoints as Hugging Face folders: config.json beside safetensors files.

They are offered by the names that LOGOS's families know, those of GGUF files: `blk.0.attn_q.weight` for
`model.layers.0.self_attn.q_proj.weight`, `llama.block_count` for `num_hidden_layers`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from logos import FORMATS, Checkpoint, Spot, Tensor, Text, refuse
from logos_sample.container import INDEX, broken, read_json, shard_paths, tensors_of

KEYS = {
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
PLAIN = {
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "use_sliding_window": False,
    "rope_type": "default",
    "partial_rotary_factor": 1,
}
"""Keys that change what a layer computes, with the one value that the families' programs compute."""

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True)
class HuggingFaceFormat:
    """The contract of `logos.CheckpointFormat`; a `logos.FolderFormat`, as its checkpoints are folders."""

    name: str = "huggingface"
    reads_folders: bool = True

    def reads(self, path: Path) -> bool:
        return (path / "config.json").is_file()

    def open(self, path: Path) -> Checkpoint:
        return HuggingFaceCheckpoint(path)


class HuggingFaceCheckpoint:
    """The contract of `logos.Checkpoint`."""

    def __init__(self, path: Path) -> None:
        # null is said of what is not there.
        config = {key: value for key, value in read_json(path / "config.json").items() if value is not None}
        shards = shard_paths(path)
        self.path = path
        described = (path / "config.json", path / INDEX)
        self.files = (*(file for file in described if file.is_file()), *shards)
        self.metadata: Mapping[str, object] = metadata(path / "config.json", config)
        self.tensors: dict[str, Tensor] = {}
        self.rows: dict[str, Any] = {}
        self.orders: dict[str, Any] = {}
        for tensor, start in (found for shard in shards for found in tensors_of(shard)):
            self._add(replace(tensor, name=our_name(tensor.name)), start, config)
        if "output.weight" not in self.tensors and not config.get("tie_word_embeddings"):
            raise broken(path, "there is no lm_head.weight, and config.json does not tie it to the embedding")

    def _add(self, tensor: Tensor, start: int, config: Mapping[str, Any]) -> None:
        name = tensor.name
        if name in self.tensors:
            raise broken(tensor.file, f"its tensor {name} stands in {self.tensors[name].file.name} too")
        if name == "output.weight" and config.get("tie_word_embeddings"):
            return
        self.tensors[name] = tensor
        self.rows[name] = np.memmap(tensor.file, np.uint8, "r", start, (tensor.rows, tensor.nbytes // tensor.rows))
        if config["model_type"] == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
            width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
            if width < 1 or tensor.rows % width or width % 2:
                raise broken(tensor.file, f"its tensor {name} has {tensor.rows} rows, no heads of {width}")
            self.orders[name] = side_by_side(tensor.rows, width)

    def raw_rows(self, name: str, start: int, stop: int) -> Any:
        rows = self.rows[name]
        return rows[self.orders[name][start:stop]] if name in self.orders else rows[start:stop]

    def float_rows(self, name: str, start: int, stop: int) -> Any:
        return FORMATS[self.tensors[name].storage].floats(self.raw_rows(name, start, stop))

    def text(self) -> Text:
        what = "the sample reads no tokenizer.json"
        raise refuse("huggingface-no-text", what, Spot(str(self.path)), "give ids: `logos run … --tokens 1,2,3`")

    def close(self) -> None:
        self.rows.clear()


def side_by_side(rows: int, width: int) -> Any:
    """The order of llama's query and key rows in GGUF files: those that rope turns together lie side by side, row
    2i + s of a head being its row s · width/2 + i here. LOGOS's llama family puts them back."""
    return np.arange(rows).reshape(-1, 2, width // 2).swapaxes(1, 2).reshape(-1)


def metadata(file: Path, config: Mapping[str, Any]) -> dict[str, object]:
    """The configuration by the families' keys. Refused: a model that they do not compute."""
    kind = config.get("model_type")
    if kind not in ("llama", "qwen3"):
        raise broken(file, f"its model_type is {kind!r}; the sample reads llama and qwen3")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict) or any(isinstance(value, dict) for value in rope.values()):
        raise broken(file, f"it has the rope parameters {rope!r:.80}; one set of them for all layers is due")
    said = {**PLAIN, **config, **rope, "rope_type": rope.get("rope_type", rope.get("type", "default"))}
    changed = [f"{key} = {said[key]!r}" for key, plain in PLAIN.items() if said[key] != plain]
    if changed:
        raise broken(file, f"it says {', '.join(changed)}, which the sample does not compute")
    for key in ("hidden_size", "num_attention_heads", "head_dim"):
        count = config.get(key, 1 if key == "head_dim" else None)
        if type(count) is not int or count < 1:
            raise broken(file, f"its {key} is {count!r}, not a count")
    if type(config.get("tie_word_embeddings", False)) is not bool:
        raise broken(file, f"its tie_word_embeddings is {config['tie_word_embeddings']!r}, not true or false")
    found = {f"{kind}.{ours}": config[theirs] for theirs, ours in KEYS.items() if theirs in config}
    found[f"{kind}.rope.freq_base"] = said.get("rope_theta", 10000.0)
    return {"general.architecture": kind, "general.name": file.parent.resolve().name, **found}


def our_name(name: str) -> str:
    """A tensor's name as the families know it; one that they do not know stays, and they will say so."""
    match = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?(.+)\.weight", name)
    if match is None or match[2] not in NAMES:
        return name
    return f"blk.{match[1]}.{NAMES[match[2]]}.weight" if match[1] else f"{NAMES[match[2]]}.weight"
