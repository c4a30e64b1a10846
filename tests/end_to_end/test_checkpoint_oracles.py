"""A checkpoint's authored program, run by the reference machine, gives the logits of systems that LOGOS did not write.

Every position is compared: of deliberate mistakes, some keep all greedy ids and some look right at position 0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos.cli.main import cli

CASES = [
    ("llama-tiny-untied", "f32", 1e-9),
    ("llama-tiny-untied", "q8_0", 1e-9),
    ("llama-tiny-rope3", "f32", 1e-5),
    ("llama-tiny-rope3", "q8_0", 1e-5),
    ("qwen3-tiny", "q8_0", 1e-9),
    ("qwen3moe-tiny", "q8_0", 1e-9),
    ("qwen35-tiny", "q8_0", 2e-5),
    ("qwen35moe-tiny", "q8_0", 2e-5),
]
EXPECTED = {"f32": "logits_f64.npy", "q8_0": "logits_q8_weights_f64.npy"}


def logos(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], prog_name="logos", standalone_mode=False)


@pytest.mark.parametrize(("case", "storage", "bound"), CASES)
def test_logits_agree_at_every_position(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str, storage: str, bound: float
) -> None:
    checkpoint, program = oracles / case / f"{case}-{storage}.gguf", tmp_path / "model.lg"
    tokens = oracle_cases[case]["tokens"]
    logos("author", checkpoint, "-o", program, "--context", 32, "-q")
    logos(
        "run", program, "--checkpoint", checkpoint, "--tokens", ",".join(map(str, tokens)), "--get", "logits",
        "--npy", tmp_path, "-q",
    )  # fmt: skip
    expected = np.load(oracles / case / EXPECTED[storage])
    found = np.load(tmp_path / "logits.npy")
    assert found.shape == expected.shape == (24, 320)
    assert np.abs(found - expected).max() < bound


@pytest.mark.parametrize(("case", "storage"), [(case, storage) for case, storage, _ in CASES])
def test_greedy_generation_gives_the_greedy_ids(
    oracles: Path,
    oracle_cases: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    case: str,
    storage: str,
) -> None:
    checkpoint, program = oracles / case / f"{case}-{storage}.gguf", tmp_path / "model.lg"
    prompt = ",".join(map(str, oracle_cases[case]["tokens"][:12]))
    logos("author", checkpoint, "-o", program, "--context", 32, "-q")
    logos("run", program, "--checkpoint", checkpoint, "--tokens", prompt, "--generate", 12, "--json")
    greedy = {"f32": "greedy", "q8_0": "greedy_q8_weights"}[storage]
    assert json.loads(capsys.readouterr().out)["generated"] == oracle_cases[case][greedy]


def test_fewer_layers_make_a_program_that_runs(oracles: Path, tmp_path: Path) -> None:
    case = "llama-tiny-untied"
    checkpoint, program = oracles / case / f"{case}-q8_0.gguf", tmp_path / "model.lg"
    logos("author", checkpoint, "-o", program, "--layers", 1, "--context", 4, "-q")
    logos(
        "run", program, "--checkpoint", checkpoint, "--tokens", "1,2", "--get", "x1,logits", "--npy", tmp_path, "-q"
    )
    assert np.load(tmp_path / "x1.npy").shape == (2, 128)
    assert "x2" not in program.read_text()
