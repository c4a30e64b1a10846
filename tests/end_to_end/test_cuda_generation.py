"""Generation by whole models on the host: captured and plain, prompts many steps at once, text through the command."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import Request, Source, make_job, make_manager
from logos.author import Author, author_program
from logos.execution import write_artifact
from logos_cuda import emit_qwen30b_generate
from logos_cuda.host_build import compile_host

CASES = ("llama-tiny-untied", "llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")

INT8 = 2e-1
"""Of the largest logit: the bound of a model whose products quantize their activations."""


def built(checkpoint: Path, folder: Path, **options: str) -> Path:
    """A checkpoint's program of kind generate, with room for 96 positions, beside its weights."""
    manager = make_manager()
    source = Source("m.lg", author_program(manager, Author(checkpoint, 96), None))
    request = Request(checkpoint, checkpoint, source=source, options={"kind": "generate", **options})
    target, job = make_job(manager, request, "cuda")
    write_artifact(target, job, {}, folder)
    compile_host(folder / "generate.cu", folder / "generate")
    return folder / "generate"


def generated(program: Path, prompt: list[int], count: int, *more: str) -> tuple[list[int], str]:
    command = [program, "--prompt-ids", ",".join(map(str, prompt)), "-n", str(count), *more]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(map(int, ran.stdout.split())), ran.stderr


def due(checkpoint: Path, prompt: list[int], count: int, folder: Path) -> list[int]:
    """The reference machine's ids."""
    (folder / "m.lg").write_text(author_program(make_manager(), Author(checkpoint, 96), None), encoding="utf-8")
    given = ("--checkpoint", checkpoint, "--tokens", ",".join(map(str, prompt)), "--generate", count, "-q")
    return list(map(int, logos("run", folder / "m.lg", *given).stdout.split()))


@pytest.mark.slow
@pytest.mark.parametrize("q8", ["none", "auto"])
@pytest.mark.parametrize("case", CASES)
def test_captured_and_plain_say_the_same_over_64_steps_whatever_goes_at_once(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str, q8: str
) -> None:
    """Of float weights, and of weights in Q8_0 multiplied exactly."""
    prompt, checkpoint = oracle_cases[case]["tokens"][:12], oracles / case / f"{case}-q8_0.gguf"
    said = []
    for steps in (1, 2, 3, 7, 12):
        (tmp_path / str(steps)).mkdir()
        program = built(checkpoint, tmp_path / str(steps), prefill=str(steps), q8=q8, multiply="exact")
        ids, err = generated(program, prompt, 64)
        assert "token by token" not in err
        assert "no graph" not in err
        assert generated(program, prompt, 64, "--no-graph")[0] == ids
        said.append(ids)
    assert said == [due(checkpoint, prompt, 64, tmp_path)] * 5


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_by_dp4a_captured_and_plain_say_the_same_and_choose_what_is_near(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    """As far as the ids are the oracle's, whose next logits are known; an id beside them lies within int8's bound."""
    prompt, greedy = oracle_cases[case]["tokens"][:12], oracle_cases[case]["greedy_q8_weights"]
    program = built(oracles / case / f"{case}-q8_0.gguf", tmp_path)
    ids, _ = generated(program, prompt, 64)
    assert generated(program, prompt, 64, "--no-graph")[0] == ids
    logits = np.load(oracles / case / "logits_q8_weights_f64.npy")[len(prompt) - 1 :]
    same = next((place for place, (one, other) in enumerate(zip(ids, greedy, strict=False)) if one != other), 12)
    assert same >= 6
    for row, chosen in zip(logits[: same + 1], ids, strict=False):
        assert row.max() - row[chosen] <= INT8 * np.abs(row).max()


def logos(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.mark.slow
def test_a_checkpoint_s_text_is_the_reference_machine_s(smollm2: Path) -> None:
    given = ("generate", smollm2, "--prompt", "The capital of France is", "-n", 8)
    ran = logos(*given, "--engine", "cuda")
    assert ran.stdout == logos(*given, "--engine", "reference").stdout
    assert re.search(r"^prompt: 5 tokens in ", ran.stderr, re.MULTILINE)


@pytest.mark.slow
def test_the_48_layers_of_a_30b_model_are_emitted_within_half_a_second() -> None:
    took = []
    for _ in range(5):
        start = time.process_time()
        text = emit_qwen30b_generate()
        took.append(time.process_time() - start)
    assert min(took) < 0.5
    assert len(re.findall(r"^extern \"C\" __global__", text, re.MULTILINE)) < 40
