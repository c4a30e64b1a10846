"""Plugins as strangers install them: wheels beside LOGOS's in a fresh virtual environment, by the package index."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import SAMPLE

ROOT = Path(__file__).parents[2]
ORACLES = ROOT / "tests/oracles"
LLAMA = ORACLES / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf"
QWEN3 = ORACLES / "qwen3-tiny/qwen3-tiny-q8_0.gguf"
QWEN35 = ORACLES / "qwen35-tiny/qwen35-tiny-q8_0.gguf"

pytestmark = pytest.mark.slow


class Environment:
    """A fresh virtual environment with LOGOS's wheel; `folder` is where commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels = folder, folder / "wheels"
        self.bin = folder / "venv/bin"
        run(sys.executable, "-m", "venv", folder / "venv")
        self.pip("install", self.wheel(ROOT))

    def wheel(self, source: Path) -> Path:
        """The wheel of a distribution, built in an environment of its own."""
        before = set(self.wheels.glob("*.whl"))
        self.pip("wheel", "--no-deps", "-w", self.wheels, source)
        (made,) = set(self.wheels.glob("*.whl")) - before
        return made

    def pip(self, *arguments: str | Path) -> None:
        run(self.bin / "python", "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", *arguments)

    def logos(self, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        command = [os.fspath(self.bin / "logos"), *map(os.fspath, arguments)]
        ran = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran


def run(*command: str | Path) -> None:
    ran = subprocess.run([*map(os.fspath, command)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("fresh"))


def test_the_sample_s_wheel_beside_logos_s(environment: Environment) -> None:
    run_ = environment.logos
    bare = run_("targets").stdout
    environment.pip("install", environment.wheel(SAMPLE))
    assert re.search(r"^onnx\n  spells 10 of \d+ ops; not ", run_("targets").stdout, flags=re.MULTILINE)
    for checkpoint in (LLAMA, QWEN3):
        name = checkpoint.stem
        run_("author", checkpoint, "-o", f"{name}.lg", "--context", "24")
        given = (f"{name}.lg", "--target", "onnx", "--checkpoint", checkpoint)
        assert "model.onnx: " in run_("build", *given, "--out", name).stdout
        lines = run_("verify", *given, "--tokens", "5,4,3,2,1,5,4,3", "--json").stdout.splitlines()
        verdicts = [one for one in map(json.loads, lines) if "variable" in one]
        assert {"next", "logits"} <= {one["variable"] for one in verdicts}
        assert all(one["holds"] and one["difference"] <= 1e-4 for one in verdicts)
    run_("author", QWEN35, "-o", "hybrid.lg", "--context", "24")
    refused = run_("build", "hybrid.lg", "--target", "onnx", "--checkpoint", QWEN35, "--out", "hybrid", code=1).stderr
    assert "target onnx does not spell the op gated delta (" in refused
    assert len(re.findall(r"^(?:  also )?hybrid\.lg:\d+:1", refused, flags=re.MULTILINE)) > 30
    assert not (environment.folder / "hybrid").exists()
    summary = run_("conformance", "onnx").stdout.splitlines()[-1]
    assert re.match(r"onnx: 10 ops, \d+ shapes, \d+ comparisons, 4 checks, all hold; ", summary)
    assert '"onnx"' in run_("schema", "project", "--installed").stdout
    for name in ("project", "manifest", "events"):
        assert Path(run_("schema", name, "--path").stdout.rstrip("\n")).is_relative_to(environment.folder)
    environment.pip("uninstall", "-y", "logos-sample")
    assert run_("targets").stdout == bare
    assert "sample" not in run_("plugins").stdout
    assert "no installed plugin offers the target onnx" in run_("build", "hybrid.lg", "--target", "onnx", code=1).stderr


def test_the_page_s_target_is_written_from_the_page_alone(environment: Environment) -> None:
    page = (ROOT / "docs/plugins.md").read_text("utf-8")
    for title, text in re.findall(r'^```\w+ title="(numpy-script/.+?)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        (environment.folder / title).parent.mkdir(exist_ok=True)
        (environment.folder / title).write_text(text, "utf-8")
    environment.pip("install", environment.wheel(environment.folder / "numpy-script"))
    summary = environment.logos("conformance", "numpy-script").stdout.splitlines()[-1]
    assert summary.startswith("numpy-script: 3 ops, 60 shapes, 60 comparisons, 4 checks, all hold; ")
    (environment.folder / "p.lg").write_text("Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.\n", "utf-8")
    environment.logos("build", "p.lg", "--target", "numpy-script", "--out", "made")
    assert "all 1 comparisons hold" in environment.logos("verify", "p.lg", "--target", "numpy-script").stdout
    environment.pip("uninstall", "-y", "numpy-script")
    assert "numpy-script" not in environment.logos("targets").stdout
