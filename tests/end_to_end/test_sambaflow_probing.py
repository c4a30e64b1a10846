"""From `logos probe` over the vendor's double to a build that honours what was found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Source, read_toml
from logos_sambaflow.probing import probe_artifacts

DOUBLE = Path(__file__).parents[1] / "sambaflow_double"
EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """\
Let x be a 2 by 8 tensor of Real.
Let s be softmax of x.
Let y be silu of s.
Let m be argmax of y.
"""


@cache
def texts() -> dict[str, str]:
    return {artifact.path: artifact.text for artifact in probe_artifacts()}


def kit(folder: Path) -> Path:
    """The probes, as `logos probe` writes them."""
    for path, text in texts().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def probe(folder: Path, names: str, *arguments: str, **modes: object) -> dict[str, Any]:
    """What run_probes.py finds of some probes where the double works in these modes."""
    only = [word for name in names.split() for word in ("--only", name)]
    environment = {
        **os.environ, "PYTHONPATH": str(DOUBLE), "SAMBAFLOW_DOUBLE": json.dumps(modes), "OMP_NUM_THREADS": "1"
    }  # fmt: skip
    command = [sys.executable, str(folder / "run_probes.py"), *only, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder.parent)
    assert (ran.returncode, ran.stderr) == (0, "")
    return read_toml(Source("support.toml", (folder / "support.toml").read_text("utf-8"))).values


def logos(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logos", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


GIVEN = ("--target", "rdu-sambaflow", "-D", "support=probes/support.toml", "-q")
SOFTMAX = "[Warning][SAMBA] operator aten.softmax.int has no RDU implementation, falling back to CPU"


def spellings(folder: Path) -> list[str]:
    return [op["torch"] for op in json.loads((folder / "manifest.json").read_text("utf-8"))["ops"]]


@pytest.mark.slow
def test_a_build_honours_what_falls_back_is_wrong_and_fails(tmp_path: Path) -> None:
    folder = kit(tmp_path / "probes")
    names = "operators/softmax-float32 operators/silu-float32 spellings/argmax-float32"
    wrong = {"aten.silu.default": 0.01}
    found = probe(folder, names, fallback=["aten.softmax.int"], wrong=wrong, fail=["aten.argmax.default"])
    softmax, silu = (found["operator"][name]["float32"] for name in ("softmax", "silu"))
    argmax = found["spelling"]["argmax"]["float32"]
    assert (softmax["finding"], softmax["compiled"], softmax["fell_back"]) == ("falls back", True, True)
    assert (softmax["log"], softmax["difference"] < 1e-6) == (SOFTMAX, True)
    assert (silu["finding"], silu["difference"]) == ("wrong", pytest.approx(0.01, rel=1e-3))
    assert (argmax["finding"], argmax["compiled"]) == ("failed", False)
    said = "compile: RuntimeError: compilation failed: operator aten.argmax.default is not supported"
    assert argmax["message"] == said
    assert found["machine"]["python"] == sys.version.split()[0]

    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")
    ran = logos(tmp_path, "build", "p.lg", *GIVEN, "--out", "out")
    assert ran.returncode == 1
    assert [line for line in ran.stderr.splitlines() if line.startswith("p.lg:")] == [
        "p.lg:2:1: rdu-sambaflow has no spelling of softmax that the probes leave: softmax uses softmax, which falls "
        f'back ("{SOFTMAX}") in float32; softmax_by_exp uses exp, which was not verified in float32; softmax_by_silu '
        "uses silu, which is wrong by 0.01 (bound 0.0001) in float32 [unsupported-op]",
        "p.lg:3:1: rdu-sambaflow has no spelling of silu that the probes leave: silu uses silu, which is wrong by 0.01 "
        f'(bound 0.0001) in float32; silu_by_softmax uses softmax, which falls back ("{SOFTMAX}") in float32; '
        "silu_by_sigmoid uses sigmoid, which was not verified in float32 [unsupported-op]",
    ]
    assert not (tmp_path / "out/model.py").exists()

    (tmp_path / "q.lg").write_text("Let x be a 1 by 8 tensor of Real.\nLet m be argmax of x.\n", encoding="utf-8")
    assert logos(tmp_path, "build", "q.lg", *GIVEN, "--out", "out").returncode == 0
    assert spellings(tmp_path / "out") == ["argmax_by_max(X)"]


@pytest.mark.slow
def test_arithmetic_in_bfloat16_is_found_in_float32(tmp_path: Path) -> None:
    folder = kit(tmp_path / "probes")
    found = probe(folder, "operators/mul-float32", bfloat16=True)["operator"]["mul"]["float32"]
    assert (found["finding"], 1e-3 < found["difference"] < 1e-2) == ("wrong", True)
    (tmp_path / "p.lg").write_text("Let x be a 1 by 2 tensor of Real.\nLet y be x hadamard x.\n", encoding="utf-8")
    ran = logos(tmp_path, "build", "p.lg", *GIVEN, "--out", "out")
    assert (ran.returncode, "hadamard uses mul, which is wrong by 0.00" in ran.stderr) == (1, True)
    assert logos(tmp_path, "build", "p.lg", *GIVEN, "--out", "out", "-D", "dtype=bfloat16").returncode == 0


@pytest.mark.slow
def test_what_the_arguments_and_another_sambaflow_change_is_found(tmp_path: Path) -> None:
    folder = kit(tmp_path / "probes")
    found = probe(folder, "mul-float32 mul-bfloat16", bfloat16=True)["operator"]["mul"]
    assert (found["float32"]["finding"], found["bfloat16"]["finding"]) == ("wrong", "verified")
    found = probe(folder, "mul-float32", "--fresh", "--", "--graphamp-preset", "mp0", bfloat16=True)
    assert found["operator"]["mul"]["float32"]["finding"] == "verified"
    assert found["arguments"] == ["--graphamp-preset", "mp0"]

    # Operators that the vendor's pages do not know, and that are there all the same, take the place of what is not.
    names = "softmax-float32 silu-float32 operators/argmax-float32 operators/exp-float32 operators/sigmoid-float32"
    broken = ["aten.softmax.int", "aten.silu.default", "aten.argmax.default"]
    probe(folder, names, "--fresh", fail=broken, known=["aten.sigmoid.default", "aten.exp.default"])
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")
    assert logos(tmp_path, "build", "p.lg", *GIVEN, "--out", "out").returncode == 0
    assert spellings(tmp_path / "out") == ["softmax_by_exp(X)", "X * torch.sigmoid(X)", "argmax_by_max(X)"]
    ops = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))["ops"]
    (sigmoid,) = [one for one in ops[1]["operators"] if one["name"] == "sigmoid"]
    assert (sigmoid["support"], sigmoid["bound"]) == ("verified", 1e-4)
    assert logos(tmp_path, "verify", "p.lg", *GIVEN).returncode == 0


@pytest.mark.slow
def test_a_whole_model_holds_its_bounds_in_alternative_spellings(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "hybrid/hybrid.lg", tmp_path)
    lines = ['schema = "logos.sambaflow.support"', "version = 1"]
    banned = "silu rsqrt softplus linear argmax embedding"
    lines += [f'operator.{name}.float32 = {{ finding = "failed" }}' for name in banned.split()]
    lines += ['operator.neg.int32 = { finding = "failed" }']
    (tmp_path / "support.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ("hybrid.lg", "--target", "rdu-sambaflow", "-D", "support=support.toml", "-q")
    assert logos(tmp_path, "build", *given, "--out", "out").returncode == 0
    record = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))
    used = {operator["name"] for op in record["ops"] for operator in op["operators"]}
    assert not used & set(banned.split())
    assert {operator["support"] for op in record["ops"] for operator in op["operators"]} == {
        "documented",
        "vendor-used",
    }
    ran = logos(tmp_path, "verify", *given, "--dtype", "float32", "--tokens", "3,1,4,1,5")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1].endswith("comparisons hold")
