"""Every op of the language by the cuda target, in awkward shapes, against the reference machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from logos import OPS


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is built for one order of threads serves the others."""
    return tmp_path_factory.mktemp("cache")


def conform(device: str, **environment: str) -> None:
    command = [sys.executable, "-m", "logos", "conformance", "cuda", "-D", f"device={device}", "--json"]
    ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ops = [line for line in map(json.loads, ran.stdout.splitlines()) if "op" in line]
    assert {line["op"] for line in ops} >= {op.name for op in OPS}
    assert min(line["shapes"] for line in ops) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle:7"])
def test_every_op_holds_under_sanitizers_poison_and_any_order(cache: Path, order: str) -> None:
    conform("host", LOGOS_CACHE=os.fspath(cache), LOGOS_HOST_SANITIZE="1", LOGOS_HOST_ORDER=order)


@pytest.mark.gpu
def test_every_op_holds_on_a_gpu() -> None:
    conform("gpu")
