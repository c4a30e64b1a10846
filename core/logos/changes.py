"""What git knows to be as it was at a revision; whatever it does not know counts as changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from logos.refusal import Refused, refuse
from logos.source import Spot, printable

_FLAG = "--since"
_TRACKED = b"H "
"""How `git ls-files -v` marks a file that git compares: not one whose changes it was told to overlook."""


class Changes:
    """The files of the git repository that holds a folder, compared with a revision.

    A file is unchanged where git tracks it and finds in it, committed or not, the bytes of the revision. One that git
    does not track, ignores or overlooks, that lies outside the repository or behind a link counts as changed.
    Refused: no git (`no-git`), a folder in no repository (`not-a-repository`), no such commit (`unknown-revision`).
    """

    def __init__(self, revision: str, here: Path) -> None:
        self.here, self.revision = here, revision
        try:
            self.top = os.path.realpath(os.fsdecode(self._git("rev-parse", "--show-toplevel")).rstrip("\n"))
        except subprocess.CalledProcessError as error:
            what = f"git finds no repository here: {_said(error)}"
            next_ = f"run in a folder of a git repository, or build without {_FLAG}"
            raise refuse("not-a-repository", what, Spot(os.fspath(here)), next_) from None
        try:
            named = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            self.commit = os.fsdecode(self._git(*named)).strip()
        except (subprocess.CalledProcessError, ValueError):
            raise self._unknown() from None

    def _unknown(self) -> Refused:
        what = f"git knows no commit {printable(self.revision)!r}"
        next_ = "give a commit, branch or tag of this repository; a shallow clone fetches it first: git fetch"
        return refuse("unknown-revision", what, Spot(_FLAG), next_)

    def _git(self, *arguments: str) -> bytes:
        """What git prints. It writes nothing, not even its index: the tree may be read-only."""
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            ran = subprocess.run(
                ["git", *arguments], cwd=self.here, env=environment, stdin=subprocess.DEVNULL, capture_output=True
            )
        except FileNotFoundError:
            what = f"{_FLAG} asks git, which is not installed"
            raise refuse("no-git", what, Spot(_FLAG), f"install git, or build without {_FLAG}") from None
        ran.check_returncode()
        return ran.stdout

    @cached_property
    def differing(self) -> frozenset[str]:
        """The paths, relative to the repository, of tracked files that are not as at the revision, or are gone."""
        options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=none")
        return frozenset(_paths(self._git("-C", self.top, "diff", *options, self.commit, "--")))

    @cached_property
    def tracked(self) -> frozenset[str]:
        """The paths, relative to the repository, of the files that git tracks and compares."""
        lines = self._git("-C", self.top, "ls-files", "-v", "-z").split(b"\0")
        return frozenset(os.fsdecode(line[2:]) for line in lines if line.startswith(_TRACKED))

    def tracks(self, path: Path) -> bool:
        """Whether git tracks and compares a file."""
        return self._inside(path) in self.tracked

    def changed(self, path: Path) -> bool:
        """Whether a file, there or not, may be another than at the revision."""
        name = self._inside(path)
        if name is None or not os.path.lexists(path):
            return name is None or name in self.differing
        return name not in self.tracked or name in self.differing

    def changed_below(self, folder: Path) -> bool:
        """Whether a folder may hold, at any depth, a file that has changed, has come or has gone."""
        name = self._inside(folder)
        if name is None or any(path.startswith(f"{name}/") for path in self.differing):
            return True
        return any(self.changed(Path(parent, file)) for parent, _, files in os.walk(folder) for file in files)

    def _inside(self, path: Path) -> str | None:
        """The path relative to the repository; None for one that lies elsewhere, or that a link below the repository's
        folder leads to: the link may have led elsewhere."""
        whole = os.path.abspath(path)
        real = os.path.realpath(whole)
        if not real.startswith(os.path.join(self.top, "")):
            return None
        name = os.path.relpath(real, self.top)
        plain = whole.endswith(os.sep + name) and os.path.realpath(whole[: -len(name)]) == self.top
        return name if plain else None


def _paths(output: bytes) -> Sequence[str]:
    return [os.fsdecode(path) for path in output.split(b"\0") if path]


def _said(error: subprocess.CalledProcessError) -> str:
    lines = os.fsdecode(error.stderr).splitlines()
    return printable(lines[0].removeprefix("fatal: ")) if lines else f"exit code {error.returncode}"
