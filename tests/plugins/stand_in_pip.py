"""`python stand_in_pip.py install|uninstall SOURCE SITE`: what pip leaves of a small distribution of pure Python, but
not its seconds. SITE is a folder on the path."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def install(source: Path, site: Path) -> None:
    project, wheel = read(source)
    for name in wheel.get("packages", wheel.get("only-include")):
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy
        copy(source / name, site / name)
    folder = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(metadata, "utf-8")
    points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["logos"].items())
    (folder / "entry_points.txt").write_text(f"[logos]\n{points}", "utf-8")


def uninstall(source: Path, site: Path) -> None:
    project, wheel = read(source)
    for name in wheel.get("packages", wheel.get("only-include")):
        remove = shutil.rmtree if (site / name).is_dir() else Path.unlink
        remove(site / name)
    shutil.rmtree(site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info")


def read(source: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The project's table, and what its wheel holds."""
    record = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))
    return record["project"], record["tool"]["hatch"]["build"]["targets"]["wheel"]


if __name__ == "__main__":
    {"install": install, "uninstall": uninstall}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
