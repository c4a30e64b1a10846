"""A project in any folder, of any name: begun, built, changed, built again, verified."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="verify runs the artifact with torch")

NAMES = ["two  blanks, dollar $x $$", 'colon: it\'s "quoted" größe 模型 |;&', "n" * 200]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_project_of_any_path_builds_rebuilds_and_verifies(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name

    def logos(*arguments: str, here: Path = folder) -> str:
        command = [sys.executable, "-m", "logos", *arguments]
        ran = subprocess.run(command, cwd=here, capture_output=True, text=True, encoding="utf-8")
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        return ran.stdout

    logos("new", name, "--target", "rdu-sambaflow", here=tmp_path)
    os.rename(folder / "program.lg", folder / f"{name[:100]}.lg")
    text = (folder / "logos.toml").read_text("utf-8").replace("program.lg", name[:100].replace('"', '\\"') + ".lg")
    (folder / "logos.toml").write_text(text, "utf-8")
    assert "built 1 artifact in 2 steps" in logos("build")
    program = folder / f"{name[:100]}.lg"
    program.write_text(program.read_text("utf-8").replace("to 0.5.", "to 0.75."), "utf-8")
    assert "built 1 artifact in 2 steps" in logos("build")
    assert "nothing to do: 1 artifact up to date" in logos("build")
    assert "comparisons hold" in logos("verify", program.name, "--target", "rdu-sambaflow")
