"""The oracles' Q8_0 files by the tensor cores' products on the host: prompts at once, in chunks and one by one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_cuda_prefill_oracles import CASES, MANAGER, request_of
from test_cuda_q8_oracles import AS_LLAMA_CPP

from logos import make_job
from logos.execution import write_artifact
from logos_cuda.host_build import compile_host

QUICK = "llama-tiny-untied"


def logits(checkpoint: Path, tokens: list[int], folder: Path, **options: str) -> NDArray[Any]:
    """The logits of every position."""
    target, job = make_job(MANAGER, request_of(checkpoint, **options), "cuda")
    write_artifact(target, job, {}, folder)
    text = (folder / "forward.cu").read_text("utf-8")
    assert ("gemm_q8<" in text) == (options["multiply"] == "mma")
    compile_host(folder / "forward.cu", folder / "forward", flags=["-O0"])
    given = ("--tokens", ",".join(map(str, tokens)), "--get", "logits", "--dump", folder / "out")
    subprocess.run([folder / "forward", *given], check=True)
    found: NDArray[Any] = np.load(folder / "out" / "logits.npy")[:, 0]
    return found


def far(found: NDArray[Any], oracles: Path, case: str, oracle_cases: dict[str, Any]) -> list[float]:
    """The largest and the mean distance from what the weights give, of those of llama.cpp."""
    off = found - np.load(oracles / case / "logits_q8_weights_f64.npy")
    theirs = oracle_cases[case]["llamacpp"]
    largest, mean = float(np.abs(off).max()), float(np.sqrt(np.mean(off**2)))
    return [largest / theirs["q8_0_file_vs_q8_weights_max_abs"], mean / theirs["q8_0_file_vs_q8_weights_rms"]]


def test_prompts_by_mma_lie_as_near_as_llama_cpp(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = oracles / QUICK / f"{QUICK}-q8_0.gguf"
    found = logits(checkpoint, oracle_cases[QUICK]["tokens"], tmp_path / "out", prefill="12", multiply="mma")
    assert max(far(found, oracles, QUICK, oracle_cases)) <= AS_LLAMA_CPP


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_chunks_by_mma_are_as_a_whole(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str
) -> None:
    """To the bit: how many rows a product has changes none of them. And one by one, which is by dp4a, they are as
    near."""
    checkpoint, tokens = oracles / case / f"{case}-q8_0.gguf", oracle_cases[case]["tokens"]
    whole = logits(checkpoint, tokens, tmp_path / "whole", prefill=str(len(tokens)), multiply="mma")
    chunks = logits(checkpoint, tokens, tmp_path / "chunks", prefill="12", multiply="mma")
    single = logits(checkpoint, tokens, tmp_path / "single", prefill="1", multiply="dp4a")
    assert np.array_equal(whole, chunks)
    distances = [far(found, oracles, case, oracle_cases) for found in (whole, single)]
    assert max(map(max, distances)) <= AS_LLAMA_CPP, distances
