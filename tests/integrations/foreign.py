"""Other people's build tools in the tests: their commands, the folders they work in, and what `logos build` makes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOGOS = Path(sys.executable).with_name("logos")


def run(
    folder: Path, *command: str | os.PathLike[str], changes: Mapping[str, str | None] | None = None, code: int = 0
) -> str:
    """What a command prints; it ends as expected."""
    whole = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(changes or {})}
    environment = {name: value for name, value in whole.items() if value is not None}
    ran = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    assert ran.returncode == code, ran.stdout
    return ran.stdout


def built(folder: Path, *arguments: str) -> dict[str, bytes]:
    """What `logos build` makes in a folder of its own of what lies in `folder`."""
    out = folder.parent / f"by logos {len(list(folder.parent.iterdir()))}"
    run(folder, sys.executable, "-m", "logos", "build", *arguments, "--out", out)
    return files(out)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path, without the builds' own."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".logos" not in path.relative_to(folder).parts
    }


def stamps(folder: Path) -> dict[str, int]:
    """When each file below a folder was written."""
    return {os.fspath(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def replace(file: Path, old: str, new: str) -> None:
    """Changes a text, which must hold what is to be changed."""
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")
