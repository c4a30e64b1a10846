"""The nearest known word, soon found among however many there are."""

from __future__ import annotations

import time

import pytest

from logos.near import nearest, suggestion

TENSORS = [f"blk.{layer}.{part}.weight" for layer in range(13_000) for part in ["attn_q", "attn_k", "attn_v", "ffn_up"]]


@pytest.mark.parametrize(("word", "known", "near"), [
    ("plsu", ["matmul", "plus"], "plus"),
    ("MatMul", ["matmul", "plus"], "matmul"),
    ("zebra", ["matmul", "plus"], None),
    ("x", [], None),
    ("blk.7.attn_qq.weight", TENSORS, "blk.7.attn_q.weight"),
    ("blk.7.attm_k.weight", TENSORS[:300], "blk.7.attn_k.weight"),
])
def test_the_nearest_word_is_found(word: str, known: list[str], near: str | None) -> None:
    assert nearest(word, known) == near
    assert suggestion(word, known) == (f"; did you mean {near}?" if near else "")


@pytest.mark.parametrize("known", [TENSORS, ["a" * 256] * 131_072, ["blk.7.attn_q.weight" * 8] * 131_072])
@pytest.mark.parametrize("word", ["blk.7.attn_x.weight", "blk.7.attn_x.weight" * 13])
def test_a_hint_among_all_the_tensors_of_a_crafted_file_costs_little(word: str, known: list[str]) -> None:
    started = time.process_time()
    for _ in range(5):
        nearest(word, known)
    assert time.process_time() - started < 1
