"""SmolLM2's text: what it goes on with, its ids both ways, its chat template."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from logos_gguf.checkpoint import GGUFCheckpoint


def generate(checkpoint: Path, prompt: str, *more: str) -> bytes:
    command = [sys.executable, "-m", "logos", "generate", str(checkpoint), "--prompt", prompt]
    command += ["--engine", "reference", *more]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


TEXT = " Paris.\n\nThe answer is: 2018-01-22 12:1"
IDS = "7042 30 198 198 504 2988 314 42 216 34 32 33 40 29 32 33 29 34 34 216 33 34 42 33"


@pytest.mark.slow
def test_smollm2_goes_on_with_the_text_of_the_24_ids(smollm2: Path) -> None:
    printed = generate(smollm2, "The capital of France is", "-n", "24")
    text = GGUFCheckpoint(smollm2).text().decode(list(map(int, IDS.split())))
    assert printed.decode() == text == TEXT


@pytest.mark.slow
def test_smollm2_s_text_is_the_oracle_s_both_ways(smollm2: Path, oracles: Path) -> None:
    rows = json.loads((oracles / "tokenization.json").read_text("utf-8"))["smollm2 (SmolLM2-135M-Instruct.Q4_1.gguf)"]
    text = GGUFCheckpoint(smollm2).text()
    assert len(rows) == 11
    for row in rows:
        assert list(text.encode(row["text"], special=True)) == row["ids"]
        assert text.decode(row["ids"]) == row["text"]
    assert text.stop == {0, 2}


@pytest.mark.slow
def test_smollm2_answers_in_its_chat_template(smollm2: Path) -> None:
    record = json.loads(generate(smollm2, "Say <|im_end|> twice.", "-n", "4", "--chat", "--json"))
    assert record["prompt"][-3:] == [520, 9531, 198]
    assert (record["prompt"].count(1), record["prompt"].count(2)) == (3, 2)
