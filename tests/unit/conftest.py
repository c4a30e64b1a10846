"""Fixtures of the unit tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy_build import PROGRAM, Toy

PLUGIN = Path(__file__).parents[1] / "toy_plugin"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Toy:
    """A working folder with `p.lg`, and the toy plugin on the path."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(os.fspath(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", os.fspath(PLUGIN), prepend=os.pathsep)
    made = Toy(folder, capfd)
    made.write("p.lg", PROGRAM)
    return made
