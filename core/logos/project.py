"""The project file as data: what is built, from which checkpoint, for which targets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logos.author import Author
from logos.refusal import Refusal
from logos.source import Place, Spot
from logos.toml_places import KeyPath, KeyPlace

FILE_NAME = "logos.toml"


@dataclass(frozen=True)
class Project:
    """One `[project]`: a program and what it is built with.

    Paths are joined to the folder of `file`. Exactly one of `program` and `author` is given. `weights` is variable →
    tensor; `targets` is target name → its options as TOML gave them. `places` says where each key stands.
    """

    file: Path
    name: str
    program: Path | None = None
    author: Author | None = None
    checkpoint: Path | None = None
    family: str | None = None
    out: Path | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    places: Mapping[KeyPath, KeyPlace] = field(default_factory=dict, repr=False)

    def place(self, *path: str) -> Place:
        """Where a key stands, or the nearest table above it."""
        return nearest_place(self.file, self.places, path)

    def missing_files(self) -> Iterator[Refusal]:
        """A refusal for every file that the project names and that is not there (`missing-file`)."""
        named = (
            (("project", "program"), self.program),
            (("project", "author", "checkpoint"), self.author.checkpoint if self.author else None),
            (("project", "checkpoint"), self.checkpoint),
        )
        for path, file in named:
            if file is not None and not file.is_file() and not (path[-1] == "checkpoint" and file.is_dir()):
                yield Refusal(
                    "missing-file",
                    f"{os.fspath(file)} is {'a folder' if file.is_dir() else 'not there'}",
                    self.place(*path),
                    f"put the file there or correct the path; it is relative to the folder of {FILE_NAME}",
                )


@dataclass(frozen=True)
class Workspace:
    """A project file: its own project, if any, then those of its members.

    `files` are the project files that decided this, there or not, and `listed` the folders whose names did: a pattern's
    members come and go with them. `versions` are files that say which LOGOS and plugins are installed. `refusals` are
    of single entries of `[weights]`, which are left out: all else can be looked at.
    """

    file: Path
    projects: tuple[Project, ...]
    files: tuple[Path, ...] = ()
    listed: tuple[Path, ...] = ()
    versions: tuple[Path, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def nearest_place(file: Path, places: Mapping[KeyPath, KeyPlace], path: KeyPath) -> Place:
    """The place of a key, or of the nearest table above it, or the file."""
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return Spot(os.fspath(file))
