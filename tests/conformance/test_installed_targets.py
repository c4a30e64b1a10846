"""`logos conformance` whole is green, with counts, on every installed target, the sample's among them;
test_cuda_conformance.py has cuda, which takes minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKS = ["fusion", "names", "determinism", "refusals"]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "rdu-sambaflow"])
def test_every_installed_target_conforms(target: str, tmp_path: Path) -> None:
    pip = ROOT / "tests/plugins/stand_in_pip.py"
    subprocess.run([sys.executable, pip, "install", ROOT / "tests/sample_plugin", tmp_path], check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "logos", "conformance", target, "--json"],
        env={**os.environ, "PYTHONPATH": os.fspath(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = [json.loads(line) for line in ran.stdout.splitlines()]
    ops = [one for one in records if "op" in one]
    assert all(one["shapes"] >= 20 <= one["comparisons"] + sum(why["shapes"] for why in one["refused"]) for one in ops)
    assert [one["check"] for one in records if "check" in one] == CHECKS
    assert records[-1]["holds"]
    assert len(ops) == records[-1]["ops"] >= 10
