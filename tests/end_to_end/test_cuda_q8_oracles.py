"""The oracles' Q8_0 files by the cuda target: exact, the logits of their weights; by dp4a, as near as llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos.cli.main import cli

CASES = ("llama-tiny-untied", "llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")
EXACT = 1e-4
"""Of the largest logit."""

AS_LLAMA_CPP = 1.5
"""Of llama.cpp's own distance."""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE", str(tmp_path_factory.getbasetemp() / "cuda-cache"))


def logos(*arguments: object) -> int:
    return int(cli.main([str(one) for one in arguments], prog_name="logos", standalone_mode=False) or 0)


def program(oracles: Path, case: str, folder: Path) -> tuple[Path, Path]:
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    logos("author", checkpoint, "-o", folder / "m.lg", "--context", 32, "-q")
    return folder / "m.lg", checkpoint


def logits(
    oracles: Path, case: str, tokens: list[int], folder: Path, multiply: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The logits of every position, and what is due."""
    path, checkpoint = program(oracles, case, folder)
    given = ("--checkpoint", checkpoint, "--tokens", ",".join(map(str, tokens)), "-D", "device=host", "-q")
    logos("run", path, "--engine", "cuda", *given, "-D", f"multiply={multiply}", "--get", "logits", "--npy", folder)
    due = np.load(oracles / case / "logits_q8_weights_f64.npy")
    return np.load(folder / "logits.npy").reshape(due.shape), due


@pytest.mark.parametrize("case", CASES)
def test_exact_gives_the_logits_of_the_weights(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    found, due = logits(oracles, case, oracle_cases[case]["tokens"], tmp_path, "exact")
    assert np.abs(found - due).max() <= EXACT * np.abs(due).max()
    assert np.array_equal(found.argmax(axis=1), due.argmax(axis=1))


@pytest.mark.parametrize("case", CASES)
def test_exact_generates_the_greedy_ids(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    path, checkpoint = program(oracles, case, tmp_path)
    prompt = ",".join(map(str, oracle_cases[case]["tokens"][:12]))
    given = ("--checkpoint", checkpoint, "--tokens", prompt, "-D", "device=host", "-D", "multiply=exact", "-q")
    logos("run", path, "--engine", "cuda", *given, "--generate", 12, "--json")
    assert json.loads(capsys.readouterr().out)["generated"] == oracle_cases[case]["greedy_q8_weights"]


@pytest.mark.parametrize("case", CASES)
def test_dp4a_lies_as_near_as_llama_cpp(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    found, due = logits(oracles, case, oracle_cases[case]["tokens"], tmp_path, "dp4a")
    theirs = oracle_cases[case]["llamacpp"]
    assert np.abs(found - due).max() <= AS_LLAMA_CPP * theirs["q8_0_file_vs_q8_weights_max_abs"]
    assert np.sqrt(np.mean((found - due) ** 2)) <= AS_LLAMA_CPP * theirs["q8_0_file_vs_q8_weights_rms"]


@pytest.mark.parametrize(("multiply", "dtype", "bound"), [("exact", "float32", "0.0001"), ("dp4a", "int8", "0.2")])
def test_verify_says_the_bound_that_a_build_is_held_to(
    oracles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], multiply: str, dtype: str, bound: str
) -> None:
    path, checkpoint = program(oracles, "qwen3moe-tiny", tmp_path)
    given = ("--checkpoint", checkpoint, "--tokens", "9,8,7", "-D", "device=host", "-D", f"multiply={multiply}", "-q")
    assert logos("verify", path, "--target", "cuda", *given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[:-1]} == {dtype}
    assert next(line for line in lines if line.split()[1] == "logits").endswith(f"bound {bound}  ok")
    assert lines[-1].startswith("all ")


def test_smollm2_rounded_to_q8_0_is_exact(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the reference machine on the weights as they are kept."""
    logos("author", smollm2, "-o", tmp_path / "m.lg", "--context", 64, "-q")
    given = ("--checkpoint", smollm2, "--tokens", "504,3575,282", "-D", "device=host", "-D", "q8=*")
    assert logos("verify", tmp_path / "m.lg", "--target", "cuda", *given, "-D", "multiply=exact") == 0
    out, err = capsys.readouterr()
    assert "rounded to Q8_0, for the reference machine as for the artifact: Wq0, Wk0, Wv0, " in err
    assert "all 62 comparisons hold" in out
