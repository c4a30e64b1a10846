"""Fixtures of the unit tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from process import RIGHTS
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


WITHOUT_RIGHTS = pytest.StashKey[list[str]]()
"""The tests that ran builds without root's rights, though they run as root."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WITHOUT_RIGHTS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := len(config.stash[WITHOUT_RIGHTS]):
        terminalreporter.write_line(f"{count} tests of permissions ran their builds as {RIGHTS}")
