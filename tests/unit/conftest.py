"""Fixtures of the unit tests."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from command_line import PROGRAM as SHOWN
from command_line import Logos
from process import RIGHTS
from toy_build import PROGRAM, Ran, Toy

from logos.cli.main import main

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


@pytest.fixture(params=range(3))
def random(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


@pytest.fixture
def logos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Logos:
    """The command, run in a folder that holds p.lg."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(SHOWN, encoding="utf-8")

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([*arguments])
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return Ran(exit.value.code, captured.out, captured.err)

    return run


WITHOUT_RIGHTS = pytest.StashKey[list[str]]()
"""The tests that ran builds without root's rights, though they run as root."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[WITHOUT_RIGHTS] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := len(config.stash[WITHOUT_RIGHTS]):
        terminalreporter.write_line(f"{count} tests of permissions ran their builds as {RIGHTS}")
