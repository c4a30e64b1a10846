"""How many tools of a size run at once: by the memory that is to be had, a container's limit, and the processors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import logos.memory
from logos.memory import at_once, free_bytes


@pytest.fixture(autouse=True)
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system of 8 processors that says what a test writes."""
    monkeypatch.setattr(logos.memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(logos.memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    return tmp_path


def test_a_system_that_does_not_say_runs_one_a_processor() -> None:
    assert (free_bytes(), at_once(1 << 40)) == (None, 8)


def test_at_least_one_runs_and_at_most_one_a_processor(system: Path) -> None:
    (system / "meminfo").write_text("MemTotal:       64 kB\nMemAvailable:    5000000 kB\n")
    assert free_bytes() == 5_000_000 << 10
    assert [at_once(size) for size in (1 << 20, 1 << 30, 2 << 30, 1 << 40)] == [8, 4, 2, 1]


def test_a_container_s_limit_counts_where_it_is_narrower(system: Path) -> None:
    (system / "meminfo").write_text("MemAvailable:    5000000 kB\n")
    (system / "memory.current").write_text("1000\n")
    for limit, free in (("max", 5_000_000 << 10), ("3000", 2000), ("500", 0), (str(1 << 60), 5_000_000 << 10)):
        (system / "memory.max").write_text(f"{limit}\n")
        assert free_bytes() == free
