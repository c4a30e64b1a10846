"""Whole models by the cuda target, on the host and, where a test is marked so, on this machine's GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos_cuda.gpu import find_gpu

ROOT = Path(__file__).parents[2]
CASE = "llama-tiny-untied"


def logos(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The device that a program is to run on."""
    if request.param == "gpu":
        assert find_gpu() is not None, "this machine has no GPU; leave -m gpu out"
    return f"device={request.param}"


@pytest.mark.slow
def test_24_steps_of_a_tiny_llama_lie_within_the_bound_and_choose_the_same(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, device: str
) -> None:
    checkpoint = oracles / CASE / f"{CASE}-f32.gguf"
    tokens = ",".join(map(str, oracle_cases[CASE]["tokens"]))
    logos("author", checkpoint, "-o", "m.lg", cwd=tmp_path)
    given = ("--checkpoint", checkpoint, "--tokens", tokens, "-D", device)
    ran = logos("verify", "m.lg", "--target", "cuda", *given, cwd=tmp_path)
    assert len(tokens.split(",")) == 24
    assert "all 8 comparisons hold" in ran.stdout
    logos("run", "m.lg", "--engine", "cuda", *given, "--get", "logits,next", "--npy", "out", cwd=tmp_path)
    logits, due = np.load(tmp_path / "out/logits.npy"), np.load(oracles / CASE / "logits_f64.npy")
    assert np.max(np.abs(logits - due)) <= 1e-4 * np.max(np.abs(due))
    assert np.load(tmp_path / "out/next.npy")[:, 0].tolist() == np.argmax(due, axis=1).tolist()
    prompt = ",".join(tokens.split(",")[:12])
    generate = ("--tokens", prompt, "--generate", 12, "--checkpoint", checkpoint, "-D", device)
    ids = logos("run", "m.lg", "--engine", "cuda", *generate, cwd=tmp_path).stdout.split()
    assert list(map(int, ids)) == oracle_cases[CASE]["greedy"]


@pytest.mark.slow
def test_3_steps_of_smollm2_by_float_weights_lie_within_the_bound(smollm2: Path, tmp_path: Path, device: str) -> None:
    logos("author", smollm2, "-o", "m.lg", "--context", "64", cwd=tmp_path)
    given = ("--checkpoint", smollm2, "--tokens", "504,3575,282", "-D", device, "-D", "q8=none")
    ran = logos("verify", "m.lg", "--target", "cuda", *given, cwd=tmp_path)
    assert "all 62 comparisons hold" in ran.stdout
    assert "bound 0.0001 " in ran.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("example", ["counter", "first", "llama"])
def test_a_built_program_prints_on_the_gpu_what_it_prints_on_the_host(example: str, tmp_path: Path) -> None:
    source = ROOT / f"examples/{example}/{example}.lg"
    logos("build", source, "--target", "cuda", "--out", "made", "-D", "arch=native", cwd=tmp_path)
    ran = subprocess.run([tmp_path / "made/forward"], capture_output=True, text=True, check=True)
    get = ("--get", "both") if example == "counter" else ()
    reference = logos("run", source, "--fill", "ramp", *get, cwd=tmp_path)
    due = np.array(eval(reference.stdout.splitlines()[-1].partition(" = ")[2])).reshape(-1)
    assert np.allclose(np.array(ran.stdout.split(), float), due, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 64])
def test_the_gpu_and_the_host_generate_the_same_ids(
    oracles: Path, tmp_path: Path, count: int
) -> None:
    checkpoint = oracles / CASE / f"{CASE}-f32.gguf"
    logos("author", checkpoint, "-o", "m.lg", cwd=tmp_path)
    given = ("run", "m.lg", "--engine", "cuda", "--checkpoint", checkpoint, "--tokens", "1,5", "--generate", count)
    said = {device: logos(*given, "-D", f"device={device}", cwd=tmp_path).stdout for device in ("gpu", "host")}
    assert said["gpu"] == said["host"]
    assert os.linesep in said["host"]
