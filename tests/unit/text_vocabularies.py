"""Small vocabularies that show how text was split and merged, and GGUF files that hold them and no tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from gguf_writer import Raw, gguf
from logos_gguf.text.bytelevel import CHARACTERS

SIGNS = " \n\r\tabsStTlLrev019.,!$'(é日\u0301\u00a0"
"""Every two bytes of these signs merge, so that ids tell where words begin and end."""

CONTROL = ("<|im_start|>", "<|im_end|>", "<|end|>")
USER_DEFINED = ("<think>", "\t\t\t")
PIECES = (
    "▁a",
    "▁b",
    "▁s",
    "▁▁",
    "▁▁▁▁",
    "ab",
    "ba",
    "aa",
    "aaa",
    "aaaa",
    "aba",
    "st",
    "▁st",
    "es",
    "est",
    "▁test",
    "te",
)


def byte_level(pre: str, **keys: Any) -> dict[str, Any]:
    """Metadata of a byte-level vocabulary: the bytes (5 missing), the pairs, then special tokens."""
    stems = [CHARACTERS[byte] for byte in sorted(set(SIGNS.encode()))]
    pairs = list(product(stems, repeat=2))
    normal = [*CHARACTERS[:5], *CHARACTERS[6:], *map("".join, pairs)]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [*normal, *CONTROL, *USER_DEFINED],
        "tokenizer.ggml.token_type": types([1] * len(normal) + [3] * len(CONTROL) + [4] * len(USER_DEFINED)),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs],
        "tokenizer.ggml.bos_token_id": len(normal),
        "tokenizer.ggml.eos_token_id": len(normal) + 1,
        **{f"tokenizer.{key}": value for key, value in keys.items()},
    }


def by_score(scores: Mapping[str, float] | None = None, **keys: Any) -> dict[str, Any]:
    """Metadata of a vocabulary merged by score: unknown, BOS, EOS, 256 bytes, single signs, then PIECES."""
    signs = ["▁", *"abest"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *signs, *PIECES]
    ranks = {piece: -float(number) for number, piece in enumerate(PIECES)} | dict(scores or {})
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [ranks.get(token, -1000.0) for token in tokens],
        "tokenizer.ggml.token_type": types([2, 3, 3] + [6] * 256 + [1] * (len(signs) + len(PIECES))),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **{f"tokenizer.{key}": value for key, value in keys.items()},
    }


def types(numbers: list[int]) -> Any:
    """An array of int32, which is what llama.cpp takes for token types."""
    return Raw(9, struct.pack(f"<IQ{len(numbers)}i", 5, len(numbers), *numbers))


def write(path: Path, metadata: Mapping[str, Any]) -> Path:
    path.write_bytes(gguf(metadata))
    return path


VOCABULARIES = {
    **{pre: byte_level(pre) for pre in ("default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "smollm")},
    "llama": by_score(),
    "llama, equal scores": by_score(dict.fromkeys(PIECES, -1.0)),
    "llama, no space prefix": by_score(**{"ggml.add_space_prefix": False, "ggml.add_bos_token": False}),
}
"""The vocabularies that tests/oracles/splits.json has ids for."""
