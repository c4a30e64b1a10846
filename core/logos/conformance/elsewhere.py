"""`logos` in a process of its own: another folder, another hash seed, another time zone and locale, no home."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from logos.source import printable


@dataclass(frozen=True)
class Place:
    """A folder to run `logos` in, with a home of its own; `seed` and the rest are what must make no difference."""

    folder: Path
    seed: str
    zone: str
    locale: str

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONHASHSEED": self.seed,
            "TZ": self.zone,
            "LC_ALL": self.locale,
            "HOME": os.fspath(home),
        }
        return subprocess.run(
            [sys.executable, "-m", "logos", *arguments],
            cwd=self.work,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )

    @property
    def work(self) -> Path:
        work = self.folder / "work"
        work.mkdir(parents=True, exist_ok=True)
        return work

    def strays(self, known: set[str]) -> list[str]:
        """The files that lie where none should: in the home, and in the working folder beside those that are known."""
        home = sorted(path for path in (self.folder / "home").rglob("*") if path.is_file())
        beside = sorted(path for path in self.work.iterdir() if path.name not in known)
        return [printable(os.fspath(path.relative_to(self.folder))) for path in (*home, *beside)]


def places(folder: Path) -> tuple[Place, Place]:
    """Two that differ in all that must make no difference."""
    return (
        Place(folder / "one", "1", "UTC", "C.UTF-8"),
        Place(folder / "another, much longer", "2", "Asia/Kolkata", "C"),
    )


def is_installed(target: str, ran: subprocess.CompletedProcess[str]) -> bool:
    """Whether the other process knew the target: a manager may have been given plugins that are not installed."""
    return not (ran.returncode == 1 and f"the target {target}" in ran.stderr and "[unknown-target]" in ran.stderr)


def flags(target: str, options: dict[str, object], weights: tuple[str, ...] = ()) -> list[str]:
    """The arguments of a job with these options and weights."""
    words = ["--target", target]
    words += [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    words += [word for name in weights for word in ("--tensor", f"{name}={name}")]
    return words
