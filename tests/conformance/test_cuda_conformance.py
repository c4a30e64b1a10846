"""Every op of the language by the cuda target, in awkward shapes, against the reference machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from logos import OPS


@pytest.mark.slow
@pytest.mark.parametrize("device", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_every_op_holds(device: str) -> None:
    words = ("conformance", "cuda", "--shapes", "10", "-D", f"device={device}", "--json")
    command = [sys.executable, "-m", "logos", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert {json.loads(line).get("op") for line in ran.stdout.splitlines()} >= {op.name for op in OPS}
