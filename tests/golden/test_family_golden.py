"""A program of two layers for each family, as it is authored: golden files that are reviewed as prose.

With LOGOS_REFRESH_GOLDEN=1 the files are written anew.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from logos import AuthorOptions, Header, Source, make_manager, print_program, read_program
from logos.job import open_checkpoint
from logos_gguf import gen_qwen30b
from logos_gguf.presets import PRESETS

HERE = Path(__file__).parent / "families"
MANAGER = make_manager()
PRESET = {"qwen3": "qwen3-0.6b", "qwen35": "qwen3.5-27b", "qwen35moe": "qwen3.5-35b-a3b"}
FAMILIES = ["llama", "qwen3", "qwen3moe", "qwen35", "qwen35moe"]
LAYERS, CONTEXT = 2, 1024


def program(family: str, oracles: Path) -> str:
    """The family's own text; of qwen3moe, whose one example is the 30B, as `gen_qwen30b` makes it."""
    if family == "qwen3moe":
        return gen_qwen30b(LAYERS, context=CONTEXT).program.source.text
    return MANAGER.family(family).author(header(family, oracles), AuthorOptions(CONTEXT, LAYERS))


def header(family: str, oracles: Path) -> Header:
    """A published model's; of a hybrid with an attention layer at every second place, so that two layers show both
    kinds; of llama, which has no presets, the oracle's with a tied head."""
    if family == "llama":
        return open_checkpoint(MANAGER, oracles / "llama-tiny-rope3/llama-tiny-rope3-f32.gguf")
    preset = PRESETS[PRESET[family]]
    interval: dict[str, object] = {"full_attention_interval": 2} if family.startswith("qwen35") else {}
    return replace(preset, keys={**preset.keys, **interval})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_program_is_the_golden_one(family: str, oracles: Path) -> None:
    text = program(family, oracles)
    golden = HERE / f"{family}.lg"
    if os.environ.get("LOGOS_REFRESH_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_golden_program_checks_and_prints_to_the_same_graph(family: str) -> None:
    graph = read_program(Source("m.lg", (HERE / f"{family}.lg").read_text("utf-8")), MANAGER.grammar)
    assert read_program(Source("m.lg", print_program(graph)), MANAGER.grammar) == graph
