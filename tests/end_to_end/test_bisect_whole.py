"""`logos verify --bisect` of a whole hybrid model, in processes of its own: within a minute, and bounded in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOKENS = "3,1,4,1,5,9,2,6,5,3,5,8"
MEASURED = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "logos", *sys.argv[1:]], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""Runs `logos` and prints, at the end, the processor's seconds and the largest process in kilobytes."""


def logos(*arguments: object) -> list[str]:
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.slow
def test_a_hybrid_over_twelve_steps_takes_less_than_a_minute(oracles: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    checkpoint, program = oracles / "qwen35-tiny/qwen35-tiny-q8_0.gguf", tmp_path / "m.lg"
    logos("author", checkpoint, "-o", program, "-q")
    weights = ("--checkpoint", checkpoint, "--tokens", TOKENS)
    *lines, used = logos("verify", program, "--target", "rdu-sambaflow", *weights, "--bisect", "--json")
    found = [json.loads(line) for line in lines]
    assert [(one["dtype"], one["holds"], one["cause"], one["unread"]) for one in found] == [
        ("float64", True, None, []), ("float32", True, None, [])
    ]  # fmt: skip
    assert {(one["steps"], one["compared"]) for one in found} == {(12, 118)}
    seconds, kilobytes = map(float, used.split())
    assert seconds < 60
    assert kilobytes < 2**20
