"""Checkpoints that hold the same model otherwise: fused projections, blocks that only predict, other heads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gguf_writer import KINDS, Info, gguf
from logos import AuthorOptions, Checkpoint, Machine, Source, make_manager, read_program, run_steps
from logos.job import open_checkpoint
from logos.values import run_values
from logos.weights.binding import bind

MANAGER = make_manager()
Tensors = dict[str, Info]
Keys = dict[str, Any]


def contents(checkpoint: Checkpoint) -> tuple[Keys, Tensors]:
    """A checkpoint's keys without its vocabulary, and its tensors as stored."""
    keys = {
        key: list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value
        for key, value in checkpoint.metadata.items()
        if not key.startswith("tokenizer.")
    }
    tensors = {}
    for name, tensor in checkpoint.tensors.items():
        raw = checkpoint.raw_rows(name, 0, tensor.rows)
        tensors[name] = Info(tensor.shape[::-1], KINDS[tensor.storage], raw.tobytes())
    return keys, tensors


def logits(path: Path, tokens: list[int]) -> np.ndarray:
    checkpoint = open_checkpoint(MANAGER, path)
    family = MANAGER.family(str(checkpoint.metadata["general.architecture"]))
    graph = read_program(Source("m.lg", family.author(checkpoint, AuthorOptions(24))), MANAGER.grammar)
    values = run_values(bind(graph, family, checkpoint), {}, None, fed=("tok", "pos"))
    return run_steps(Machine(graph, values), ["logits"], tokens).stacked("logits")


def joined(tensors: Tensors, names: list[str]) -> Info:
    """Tensors of one row length, one after another."""
    parts = [tensors.pop(name) for name in names]
    rows = sum(part.dimensions[1] for part in parts)
    return Info((parts[0].dimensions[0], rows), parts[0].kind, b"".join(part.data for part in parts))


def fuse_attention(keys: Keys, tensors: Tensors) -> None:
    for layer in range(keys["block_count"]):
        names = [f"blk.{layer}.attn_{part}.weight" for part in "qkv"]
        tensors[f"blk.{layer}.attn_qkv.weight"] = joined(tensors, names)


def fuse_experts(keys: Keys, tensors: Tensors) -> None:
    for layer in range(keys["block_count"]):
        gate, up = (tensors.pop(f"blk.{layer}.ffn_{part}_exps.weight") for part in ("gate", "up"))
        width, rows, experts = gate.dimensions
        pairs = [np.frombuffer(part.data, np.uint8).reshape(experts, -1) for part in (gate, up)]
        both = np.concatenate(pairs, axis=1)
        tensors[f"blk.{layer}.ffn_gate_up_exps.weight"] = Info((width, 2 * rows, experts), gate.kind, both.tobytes())


def predict_one_more(keys: Keys, tensors: Tensors) -> None:
    """A last block that no step runs: the first one's tensors once more, and one of its own."""
    count = keys["block_count"]
    keys["block_count"], keys["nextn_predict_layers"] = count + 1, 1
    if "attention.recurrent_layers" in keys:
        keys["attention.recurrent_layers"] = [*keys["attention.recurrent_layers"], True]
    for name in [name for name in tensors if name.startswith("blk.0.")]:
        tensors[f"blk.{count}.{name.removeprefix('blk.0.')}"] = tensors[name]
    tensors[f"blk.{count}.nextn.enorm.weight"] = tensors["output_norm.weight"]


def list_what_the_interval_says(keys: Keys, tensors: Tensors) -> None:
    """Which layers recur as a list, beside an interval that says otherwise."""
    interval = keys["full_attention_interval"]
    keys["attention.recurrent_layers"] = [(layer + 1) % interval != 0 for layer in range(keys["block_count"])]
    keys["full_attention_interval"] = interval + 1


def heads_layer_by_layer(keys: Keys, tensors: Tensors) -> None:
    keys["attention.head_count_kv"] = [keys["attention.head_count_kv"]] * keys["block_count"]


def head_on_its_own(keys: Keys, tensors: Tensors) -> None:
    """A tied head stored a second time, under its own name."""
    tensors["output.weight"] = tensors["token_embd.weight"]


CASES: list[tuple[str, Callable[[Keys, Tensors], None]]] = [
    ("qwen3-tiny", fuse_attention),
    ("qwen3-tiny", heads_layer_by_layer),
    ("qwen3-tiny", predict_one_more),
    ("llama-tiny-untied", fuse_attention),
    ("qwen3moe-tiny", fuse_attention),
    ("qwen3moe-tiny", fuse_experts),
    ("qwen35-tiny", predict_one_more),
    ("qwen35-tiny", list_what_the_interval_says),
    ("qwen35-tiny", head_on_its_own),
    ("qwen35moe-tiny", fuse_experts),
    ("qwen35moe-tiny", predict_one_more),
]


@pytest.mark.parametrize(("case", "change"), CASES, ids=[f"{case} {change.__name__}" for case, change in CASES])
def test_the_logits_stay_the_same(
    case: str, change: Callable[[Keys, Tensors], None], oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path
) -> None:
    original = oracles / case / f"{case}-q8_0.gguf"
    metadata, tensors = contents(open_checkpoint(MANAGER, original))
    prefix = f"{metadata['general.architecture']}."
    keys = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    before = keys | tensors
    change(keys, tensors)
    assert keys | tensors != before
    written = tmp_path / "made.gguf"
    head = {"general.architecture": metadata["general.architecture"]}
    written.write_bytes(gguf(head | {prefix + key: value for key, value in keys.items()}, tensors))
    tokens = oracle_cases[case]["tokens"][:6]
    np.testing.assert_array_equal(logits(written, tokens), logits(original, tokens))
