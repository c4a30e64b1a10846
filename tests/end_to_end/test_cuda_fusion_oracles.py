"""The six oracles' programs by the cuda target on the host: with every step of fusion, and with every step held."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos_cuda.fusing import FUSES
from logos_cuda.host_build import compile_host

CASES = ("llama-tiny-rope3", "llama-tiny-untied", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")


def logos(*arguments: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def stepped(
    checkpoint: Path, folder: Path, tokens: str, held: tuple[str, ...], options: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Everything that the program computes, over all steps."""
    hold = [word for step in held for word in ("--hold", step)]
    given = ("--checkpoint", checkpoint, "-D", "compile=off", *options, "--out", "made", *hold)
    logos("build", "m.lg", "--target", "cuda", *given, cwd=folder)
    compile_host(folder / "made/forward.cu", folder / "made/forward", flags=["-O1"])
    subprocess.run([folder / "made/forward", "--tokens", tokens, "--dump", folder / "out"], check=True)
    return {path.stem: np.load(path) for path in (folder / "out").iterdir()}


def fused_and_held(checkpoint: Path, folder: Path, tokens: str, *options: str) -> dict[str, NDArray[Any]]:
    """What the program computes, the same with every step of fusion and with none."""
    found = []
    for name, held in (("fused", ()), ("held", FUSES)):
        (folder / name).mkdir()
        logos("author", checkpoint, "-o", "m.lg", cwd=folder / name)
        found.append(stepped(checkpoint, folder / name, tokens, held, options))
    fused, plain = found
    assert fused.keys() == plain.keys()
    assert [name for name in fused if fused[name].tobytes() != plain[name].tobytes()] == []
    return fused


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_24_steps_agree_to_the_bit_and_with_the_oracle(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    tokens = ",".join(map(str, oracle_cases[case]["tokens"]))
    fused = fused_and_held(checkpoint, tmp_path, tokens, "-D", "q8=none", "-D", "kv=f32")
    due = np.load(oracles / case / "logits_q8_weights_f64.npy")
    assert len(due) == 24
    assert np.max(np.abs(fused["logits"][:, 0] - due)) <= 1e-4 * np.max(np.abs(due))
    assert fused["next"][:, 0, 0].tolist() == np.argmax(due, axis=1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[-1:])
def test_24_steps_in_q8_0_agree_to_the_bit(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    tokens = ",".join(map(str, oracle_cases[case]["tokens"]))
    fused_and_held(oracles / case / f"{case}-q8_0.gguf", tmp_path, tokens)
