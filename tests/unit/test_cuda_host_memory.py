"""Memory that kernels misuse on the host: found by the sanitizers, or shown by poison."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from cuda_host import build, run

SANITIZED = {
    "global_read": ("heap-buffer-overflow", "READ of size 4", "in global_read"),
    "global_write": ("heap-buffer-overflow", "WRITE of size 4", "in global_write"),
    "before": ("heap-buffer-overflow", "WRITE of size 4", "in global_write"),
    "shared_read": ("memory.cu:18", "index 37 out of bounds for type"),
    "shared_pointer": ("use-after-poison", "READ of size 4", "in shared_pointer"),
    "dynamic_write": ("use-after-poison", "WRITE of size 4", "in dynamic_write"),
    "misaligned": ("misaligned address", "float4', which requires 16 byte alignment"),
}
"""What the sanitizers say of each case."""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("memory", tmp_path_factory.mktemp("cuda"), sanitize=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("memory", tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("case", SANITIZED)
def test_the_sanitizers_name_the_kernel_that_goes_astray(sanitized: Path, case: str) -> None:
    ran = run(sanitized, case)
    said = ran.stderr.decode()
    assert ran.returncode == 86
    assert ran.stdout == b""
    for words in SANITIZED[case]:
        assert words in said


def test_accesses_that_are_inside_are_fine(sanitized: Path) -> None:
    ran = run(sanitized, "inside")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"the end\n", b"")


@pytest.mark.parametrize("case", ["freed", "freed_within"])
def test_a_launch_over_freed_memory_is_found(sanitized: Path, case: str) -> None:
    ran = run(sanitized, case)
    said = {
        "freed": "kernel global_write: its argument 1 points to no memory of the device\n",
        "freed_within": "heap-use-after-free",
    }
    assert ran.returncode == 86
    assert said[case] in ran.stderr.decode()


def test_poison_shows_what_nothing_wrote(plain: Path) -> None:
    ran = run(plain, "unwritten", poison=True)
    words = ran.stdout.decode().splitlines()[0].split()
    values = [float(word) for word in words[:130]]
    assert values[:64:2] == [1.0] * 32
    assert values[65:128:2] == [2.0] * 32
    assert all(math.isnan(value) for value in values[1:64:2] + values[64:128:2])
    assert values[128] == 1.0
    assert math.isnan(values[129])
    assert words[130:] == ["1", "7ffb", str(0x7FFB7FFB7FFB7FFB)]

