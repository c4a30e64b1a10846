"""The digests by which a plan knows what weights are read from and the code that reads them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logos.inputs import Inputs, code_digest, package_files


@contextmanager
def unwatched(name: str) -> Iterator[object]:
    yield lambda done, total: None


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of two modules."""
    folder = tmp_path / "digested_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("one = 1\n")
    (folder / "two.py").write_text("two = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "digested_package", raising=False)
    importlib.import_module("digested_package")
    return folder


def made_of(folder: Path) -> Inputs:
    return Inputs(folder, unwatched)  # type: ignore[arg-type]


def test_code_is_digested_once_a_plan_and_anew_by_the_next(package: Path, tmp_path: Path) -> None:
    inputs = made_of(tmp_path)
    before = inputs.code(["digested_package.two"])
    assert before == inputs.code(["digested_package"]) == code_digest(package_files(["digested_package"]))
    (package / "two.py").write_text("two = 3\n")
    assert inputs.code(["digested_package.two"]) == before
    assert made_of(tmp_path).code(["digested_package"]) == code_digest(package_files(["digested_package"])) != before


def test_of_a_package_s_code_a_part_has_a_digest_of_its_own(package: Path, tmp_path: Path) -> None:
    def second(file: Path) -> bool:
        return file.name == "two.py"

    inputs = made_of(tmp_path)
    whole, part = inputs.code(["digested_package"]), inputs.code(["digested_package"], second)
    assert part == code_digest([package / "two.py"]) != whole
    assert inputs.code(["digested_package", "logos"], second) == part
    assert inputs.code(["digested_package", "logos"]) not in (whole, part)
