"""Working folders from which `logos` sees plugins as if they were installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "sample_plugin"


@dataclass(frozen=True)
class Place:
    """A working folder from which `logos` sees plugins that lie on a path."""

    folder: Path
    path: tuple[Path, ...]

    def logos(
        self, *arguments: str | Path, code: int = 0, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs `logos`; the exit code has to be this one."""
        ran = self.python("-m", "logos", *arguments, environment=environment)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran

    def python(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(os.fspath, self.path))
        return subprocess.run(
            [sys.executable, *map(os.fspath, arguments)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error", **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )


def install(name: str, version: str, points: str, folder: Path) -> Path:
    """What an installer writes of a distribution with these entry points of the group `logos`; the folder."""
    written = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    written.mkdir(parents=True)
    (written / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    (written / "entry_points.txt").write_text(f"[logos]\n{points}\n", "utf-8")
    return folder


def sample_points() -> str:
    """The sample's entry points, as its pyproject.toml has them."""
    text = (SAMPLE / "pyproject.toml").read_text("utf-8")
    (points,) = re.findall(r'\[project\.entry-points\.logos\]\n(.*?)\n\n', text, flags=re.DOTALL)
    return points.replace('"', "")
