"""The hook of pre-commit: the real pre-commit, in a small repository."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from foreign import LOGOS, ROOT, replace, run

HOOKS = ROOT / ".pre-commit-hooks.yaml"
PROGRAM = ROOT / "integrations/cmake/example/first.lg"

needs_pre_commit = pytest.mark.skipif(
    importlib.util.find_spec("pre_commit") is None or shutil.which("git") is None,
    reason="needs git and pre-commit: pip install pre-commit",
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two programs, and the hook as it is shipped, but for what it runs: what is installed here."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("first.lg", "with blanks.lg"):
        shutil.copy(PROGRAM, folder / name)
    (folder / "note.txt").write_text("no program\n")
    shipped = HOOKS.read_text("utf-8").replace("language: python", "language: system")
    hook = "".join(f"      {line}\n" for line in shipped.splitlines())
    (folder / ".pre-commit-config.yaml").write_text(f"repos:\n  - repo: local\n    hooks:\n{hook}")
    run(folder, "git", "init", "-q")
    run(folder, "git", "add", "-A")
    return folder


def pre_commit(folder: Path, *arguments: str, code: int = 0) -> str:
    path = os.pathsep.join([os.fspath(LOGOS.parent), os.environ["PATH"]])
    changes = {"PATH": path, "PRE_COMMIT_HOME": os.fspath(folder.parent / "pre-commit"), "PRE_COMMIT_COLOR": "never"}
    return run(folder, sys.executable, "-m", "pre_commit", *arguments, changes=changes, code=code)


@needs_pre_commit
@pytest.mark.slow
def test_the_hook_checks_the_programs_of_a_commit(repository: Path) -> None:
    assert re.fullmatch(r"logos check\.+Passed\n", pre_commit(repository, "run", "--all-files"))
    replace(repository / "first.lg", "x matmul W", "x matmul V")
    replace(repository / "with blanks.lg", "Show y.", "Show z.")
    run(repository, "git", "add", "-A")
    said = pre_commit(repository, "run", code=1)
    assert re.match(r"logos check\.+Failed\n", said)
    assert "first.lg:5:19: V is not declared [undeclared-name]" in said
    assert "with blanks.lg:6:" in said
    assert "note.txt" not in said


@needs_pre_commit
@pytest.mark.slow
def test_pre_commit_takes_the_file_of_hooks() -> None:
    pre_commit(ROOT, "validate-manifest", os.fspath(HOOKS))
