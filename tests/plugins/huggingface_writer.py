"""Folders as Hugging Face has them, made from GGUF files by the gguf and safetensors packages: what LOGOS wrote has no
part in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_folder(source: Path, folder: Path, shards: int = 1) -> dict[str, Any]:
    """A checkpoint of the same values; its configuration."""
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items() if name.partition(".")[0] != "tokenizer"}
    kind = fields["general.architecture"]
    config = configuration({name.removeprefix(f"{kind}."): value for name, value in fields.items()}, kind)
    width = config["head_dim"]
    arrays = {}
    for tensor in reader.tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if kind == "llama" and tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            array = in_halves(array, width)
        arrays[their_name(tensor.name)] = np.ascontiguousarray(array, dtype=np.float32)
    config["tie_word_embeddings"] = "lm_head.weight" not in arrays
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save(arrays, folder, shards)
    return config


def configuration(fields: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": fields["embedding_length"],
        "intermediate_size": fields["feed_forward_length"],
        "num_hidden_layers": fields["block_count"],
        "num_attention_heads": fields["attention.head_count"],
        "num_key_value_heads": fields["attention.head_count_kv"],
        "head_dim": fields["attention.key_length"],
        "max_position_embeddings": fields["context_length"],
        "rms_norm_eps": float(f"{fields['attention.layer_norm_rms_epsilon']:.3g}"),
        "rope_theta": fields["rope.freq_base"],
        "rope_scaling": None,
    }


def in_halves(array: Any, width: int) -> Any:
    """The rows of each head as the original has them: llama.cpp's converter wrote row s · width/2 + i as row 2i + s."""
    back = np.empty_like(array)
    for head in range(0, len(array), width):
        for i in range(width // 2):
            for s in range(2):
                back[head + s * (width // 2) + i] = array[head + 2 * i + s]
    return back


def their_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem.startswith("blk."):
        _, layer, own = stem.split(".", 2)
        return f"model.layers.{layer}.{NAMES[own]}.weight"
    return f"{NAMES[stem]}.weight"


def save(arrays: dict[str, Any], folder: Path, shards: int) -> None:
    if shards == 1:
        save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    home = {name: names[place % shards] for place, name in enumerate(arrays)}
    for file in names:
        save_file({name: array for name, array in arrays.items() if home[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": home}), encoding="utf-8")


if __name__ == "__main__":
    write_folder(Path(sys.argv[1]), Path(sys.argv[2]))
