"""The sample plugin as if it were installed: its package on the path, beside what an installer would have written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import SAMPLE, Place, install, sample_points


@pytest.fixture(scope="session")
def sample_path(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return install("logos-sample", "1.0", sample_points(), tmp_path_factory.mktemp("sample")), SAMPLE


@pytest.fixture
def place(tmp_path: Path, sample_path: tuple[Path, ...]) -> Place:
    """A working folder where the sample is installed."""
    folder = tmp_path / "a place"
    folder.mkdir()
    return Place(folder, sample_path)


@pytest.fixture
def bare(tmp_path: Path) -> Place:
    """A working folder where nothing is installed but LOGOS's own plugins."""
    folder = tmp_path / "bare"
    folder.mkdir()
    return Place(folder, ())


@pytest.fixture
def in_process(sample_path: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sample is installed for this process; what was loaded of it is forgotten afterwards."""
    for folder in sample_path:
        monkeypatch.syspath_prepend(os.fspath(folder))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "logos_sample"]:
        del sys.modules[name]
