"""Checkpoints to modules that stand alone: emitted, extracted, run by a Python that knows no LOGOS, held to oracles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import AuthorOptions, Job, Request, Source, make_job, make_manager
from logos.job import family_of, open_checkpoint
from logos.weights.extract import write_weight_file

MANAGER = make_manager()
CASES = {
    "llama-tiny-untied": ("f32", "logits_f64.npy", 1e-9),
    "llama-tiny-rope3": ("q8_0", "logits_q8_weights_f64.npy", 1e-5),
    "qwen3-tiny": ("q8_0", "logits_q8_weights_f64.npy", 1e-9),
    "qwen35-tiny": ("q8_0", "logits_q8_weights_f64.npy", 2e-5),
}


def build(checkpoint: Path, folder: Path, **options: object) -> Job:
    """The artifact of a checkpoint's own program, weights included."""
    opened = open_checkpoint(MANAGER, checkpoint)
    family = MANAGER.family(family_of(MANAGER, opened) or "")
    source = Source("model.lg", family.author(opened, AuthorOptions(context=32)))
    request = Request(Path("model.lg"), checkpoint, options=options, source=source)
    target, job = make_job(MANAGER, request, "rdu-sambaflow")
    folder.mkdir()
    for artifact in target.emit(job):
        (folder / artifact.path).write_text(artifact.text, encoding="utf-8")
    for weight_file in target.steps(job).extractions:
        write_weight_file(job.binding, weight_file, folder)
    return job


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """What model.py prints, run by an isolated Python from elsewhere."""
    command = [sys.executable, "-I", str(folder / "model.py"), "--weights", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=[pytest.mark.slow] if case != "qwen35-tiny" else []) for case in CASES
])  # fmt: skip
def test_module_gives_the_oracles_logits(
    case: str, oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path
) -> None:
    storage, file, bound = CASES[case]
    build(oracles / case / f"{case}-{storage}.gguf", tmp_path / "out")
    tokens = ",".join(map(str, oracle_cases[case]["tokens"]))
    want = np.load(oracles / case / file)
    for dtype, limit in (("float64", bound), ("float32", 1e-4 * np.abs(want).max())):
        run(tmp_path / "out", "--dtype", dtype, "--tokens", tokens, "--get", "logits", "--npy", str(tmp_path / dtype))
        found = np.load(tmp_path / dtype / "logits.npy")
        assert found.dtype == np.dtype(dtype)
        assert found.shape == want.shape
        assert np.abs(found - want).max() <= limit


def test_tied_head_is_a_copy_that_the_manifest_explains(oracles: Path, tmp_path: Path) -> None:
    job = build(oracles / "llama-tiny-rope3" / "llama-tiny-rope3-q8_0.gguf", tmp_path / "out")
    manifest = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))
    tensors = {tensor["var"]: tensor for tensor in manifest["tensors"]}
    head, emb = tensors["Wout"], tensors["emb"]
    assert (head["gguf"], head["view"]) == ("token_embd.weight", "all rows, transposed")
    assert (head["copy_of"], head["transposed"]) == ("emb", True)
    assert "on purpose" in head["note"]
    assert (emb["gguf"], emb["view"], emb["transposed"]) == ("token_embd.weight", "all rows, as stored", False)
    assert "copy_of" not in emb
    assert tensors["RopeCos"]["view"] == "computed from metadata"
    assert job.binding["RopeCos"].role.value == tensors["RopeCos"]["role"] == "table"
    assert {tensor["file"] for tensor in tensors.values() if tensor["role"] in ("weight", "table")} == {
        "weights.safetensors"
    }


def test_tables_stay_float64_in_a_bfloat16_build(oracles: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    build(oracles / "llama-tiny-rope3" / "llama-tiny-rope3-f32.gguf", tmp_path / "out", dtype="bfloat16")
    with safe_open(tmp_path / "out/weights.safetensors", "pt") as file:
        dtypes = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert (dtypes["RopeCos"], dtypes["RopeSin"]) == ("F64", "F64")
    assert {dtype for name, dtype in dtypes.items() if not name.startswith("Rope")} == {"BF16"}
    (printed,) = run(tmp_path / "out", "--tokens", "317,72", "--get", "logits")
    assert printed["output"] == "logits"


@pytest.mark.slow
def test_smollm2_gives_its_next_token_without_logos(smollm2: Path, tmp_path: Path) -> None:
    build(smollm2, tmp_path / "out")
    (printed,) = run(tmp_path / "out", "--tokens", "504,3575,282,4649,314", "--get", "next", "--dtype", "float32")
    assert printed == {"output": "next", "shape": [1, 1], "first": 7042, "last": 7042}
