"""Prompts in chunks through LogosPrefill, on the oracles' models: held to the oracles, exported, audited, verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

import torch

from logos import AuthorOptions, Request, Source, make_job, make_manager, write_weight_file
from logos.cli.main import cli
from logos.job import family_of, open_checkpoint
from logos_sambaflow.spelling import support
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import Emitted, exported_operators, load

MANAGER = make_manager()
CASES = {"qwen3-tiny": (1e-9, set[str]()), "qwen35-tiny": (2e-5, {"exp", "softplus"})}
"""How near the oracle float64 comes, and the operators that nobody speaks of."""


def text_of(checkpoint: Path) -> str:
    opened = open_checkpoint(MANAGER, checkpoint)
    return MANAGER.family(family_of(MANAGER, opened) or "").author(opened, AuthorOptions(context=32))


def built(checkpoint: Path, folder: Path, steps: int) -> Emitted:
    """The artifact of a checkpoint's own program, weights included."""
    source = Source("model.lg", text_of(checkpoint))
    request = Request(Path("model.lg"), checkpoint, options={"prefill": steps}, source=source)
    _, job = make_job(MANAGER, request, "rdu-sambaflow")
    folder.mkdir()
    for artifact in SambaflowTarget().emit(job):
        (folder / artifact.path).write_text(artifact.text, encoding="utf-8")
    for weight_file in SambaflowTarget().steps(job).extractions:
        write_weight_file(job.binding, weight_file, folder)
    return Emitted(folder, job, load(folder / "model.py"))


@pytest.mark.parametrize("case", CASES)
def test_chunks_and_the_rest_give_the_oracles_logits(
    case: str, oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path
) -> None:
    made = built(oracles / case / f"{case}-q8_0.gguf", tmp_path / "out", 7)
    tokens = ",".join(map(str, oracle_cases[case]["tokens"]))
    want = np.load(oracles / case / "logits_q8_weights_f64.npy")
    for dtype, bound in (("float64", CASES[case][0]), ("float32", 1e-4)):
        command = ["--prefill", "--dtype", dtype, "--tokens", tokens, "--get", "logits", "--npy", str(tmp_path / dtype)]
        assert made.module.main(made.module.PROGRAM, command) == 0
        found = np.load(tmp_path / dtype / "logits.npy")
        assert found.shape == want.shape
        assert np.abs(found - want).max() <= bound * np.abs(want).max()


@pytest.mark.parametrize("case", CASES)
def test_the_module_exports_to_operators_of_its_manifest(case: str, oracles: Path, tmp_path: Path) -> None:
    made = built(oracles / case / f"{case}-q8_0.gguf", tmp_path / "out", 12)
    program = made.module.PROGRAM
    module = program.prefill.module().load_weights(made.folder, torch.float32)
    rows = made.module.prefill_inputs(program, {}, list(range(12)), 0, torch.float32)
    assert [(one.dtype, one.shape) for one in rows] == [(torch.int32, (12, 1))] * 2
    arguments = (*rows, *module.initial_states(torch.float32))
    used = exported_operators(torch.export.export(module, arguments))
    ops = json.loads((made.folder / "manifest.json").read_text("utf-8"))["prefill_ops"]
    assert used <= {operator["name"] for op in ops for operator in op["operators"]}
    assert {name for name in used if support(name) == "unknown"} == CASES[case][1]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 12])
def test_verification_holds(case: str, steps: int, oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path) -> None:
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    program = tmp_path / "model.lg"
    program.write_text(text_of(checkpoint), encoding="utf-8")
    command = ["verify", str(program), "--checkpoint", str(checkpoint), "--target", "rdu-sambaflow", "--json", "-q"]
    command += ["-D", f"prefill={steps}", "--tokens", ",".join(map(str, oracle_cases[case]["tokens"]))]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert {record["dtype"] for record in records} == {"float64", "float32"}
    assert {"logits", "next"} < {record["variable"] for record in records}
