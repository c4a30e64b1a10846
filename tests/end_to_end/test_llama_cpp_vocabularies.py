"""Whole vocabularies of published models, with the ids that llama.cpp's own tests expect."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from logos_gguf.checkpoint import GGUFCheckpoint

NAMES = ("gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "qwen35")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_that_llama_cpp_expects(name: str, llama_cpp_vocabularies: Path) -> None:
    path = llama_cpp_vocabularies / f"ggml-vocab-{name}.gguf"
    texts = Path(f"{path}.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    expected = [list(map(int, line.split())) for line in Path(f"{path}.out").read_text("utf-8").split("\n")]
    assert len(texts) > 40
    checkpoint = GGUFCheckpoint(path)
    text = checkpoint.text()
    begins = checkpoint.metadata.get("tokenizer.ggml.add_bos_token", name == "llama-bpe")
    for sample, ids in zip(texts, expected, strict=False):
        got = list(text.encode(sample))
        assert got[1 if begins else 0 :] == ids, ascii(sample)
        assert text.decode(got) == sample


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_vocabulary_is_ready_within_two_seconds(name: str, llama_cpp_vocabularies: Path) -> None:
    started = time.process_time()
    GGUFCheckpoint(llama_cpp_vocabularies / f"ggml-vocab-{name}.gguf").text().encode("a")
    assert time.process_time() - started < 2
