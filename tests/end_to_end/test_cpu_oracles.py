"""The oracles by the cpu target: exact, the logits of the file's weights; by 8 bits, as near as llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos.cli.main import cli

CASES = ("llama-tiny-untied", "llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")
FLOAT_FILES = ("llama-tiny-untied", "llama-tiny-rope3")
"""Of the others there is no room for them here."""

EXACT = 1e-4
"""Of the largest logit."""

AS_LLAMA_CPP = 1.5
"""Of llama.cpp's own distance."""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE", str(tmp_path_factory.getbasetemp() / "cpu-cache"))


def logos(*arguments: object) -> int:
    return int(cli.main([str(one) for one in arguments], prog_name="logos", standalone_mode=False) or 0)


def logits(checkpoint: Path, tokens: list[int], folder: Path, *more: object) -> NDArray[Any]:
    """The logits of every position."""
    logos("author", checkpoint, "-o", folder / "m.lg", "--context", 32, "-q")
    given = ("--checkpoint", checkpoint, "--tokens", ",".join(map(str, tokens)), "-q", *more)
    logos("run", folder / "m.lg", "--engine", "cpu", *given, "--get", "logits", "--npy", folder)
    found = np.load(folder / "logits.npy")
    return found.reshape(len(tokens), -1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_exact_gives_the_logits_of_the_weights(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str, threads: int
) -> None:
    """Kept in Q8_0, and as float32."""
    for q8 in ("auto", "none"):
        more = ("-D", "multiply=exact", "-D", f"threads={threads}", "-D", f"q8={q8}")
        found = logits(oracles / case / f"{case}-q8_0.gguf", oracle_cases[case]["tokens"], tmp_path, *more)
        due = np.load(oracles / case / "logits_q8_weights_f64.npy")
        assert np.abs(found - due).max() <= EXACT * np.abs(due).max()
        assert np.array_equal(found.argmax(axis=1), due.argmax(axis=1))


@pytest.mark.parametrize("case", FLOAT_FILES)
def test_exact_gives_the_logits_of_a_float32_file(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    checkpoint, tokens = oracles / case / f"{case}-f32.gguf", oracle_cases[case]["tokens"]
    due = np.load(oracles / case / "logits_f64.npy")
    for threads in (1, 2):
        found = logits(checkpoint, tokens, tmp_path, "-D", "multiply=exact", "-D", f"threads={threads}")
        assert np.abs(found - due).max() <= EXACT * np.abs(due).max()
        assert np.array_equal(found.argmax(axis=1), due.argmax(axis=1))


@pytest.mark.parametrize("case", CASES)
def test_int8_lies_as_near_as_llama_cpp(oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str) -> None:
    tokens, checkpoint = oracle_cases[case]["tokens"], oracles / case / f"{case}-q8_0.gguf"
    found = logits(checkpoint, tokens, tmp_path, "-D", "threads=2")
    due = np.load(oracles / case / "logits_q8_weights_f64.npy")
    theirs = oracle_cases[case]["llamacpp"]
    assert np.abs(found - due).max() <= AS_LLAMA_CPP * theirs["q8_0_file_vs_q8_weights_max_abs"]
    assert np.sqrt(np.mean((found - due) ** 2)) <= AS_LLAMA_CPP * theirs["q8_0_file_vs_q8_weights_rms"]
    for level, threads in (("plain", 1), ("auto", 1)):
        again = logits(checkpoint, tokens, tmp_path, "-D", f"threads={threads}", "-D", f"level={level}")
        assert np.array_equal(again, found)


@pytest.mark.parametrize("case", CASES)
def test_a_program_that_generates_says_the_greedy_ids(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """Whatever goes at once."""
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    logos("author", checkpoint, "-o", tmp_path / "m.lg", "--context", 96, "-q")
    prompt = ",".join(map(str, oracle_cases[case]["tokens"][:12]))
    given = ("--checkpoint", checkpoint, "--tokens", prompt, "-D", "multiply=exact", "-q", "--generate", 12, "--json")
    logos("run", tmp_path / "m.lg", "--engine", "cpu", *given)
    assert json.loads(capsys.readouterr().out)["generated"] == oracle_cases[case]["greedy_q8_weights"]
