"""Reading logos.toml: every wrong key at once, by its dotted name and line."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from logos.author import Author
from logos.near import nearest
from logos.project import FILE_NAME, Project, Workspace, nearest_place
from logos.refusal import Refusal, Refused, refuse
from logos.source import Spot, source_from_bytes
from logos.toml_places import KeyPath, KeyPlace, Toml, read_toml

_TOP = ("workspace", "project", "weights", "target")
_WORKSPACE = ("members", "exclude", "versions")
_PROJECT = ("name", "program", "author", "checkpoint", "family", "out")
_AUTHOR = ("checkpoint", "context", "layers")


def read_workspace(file: Path) -> Workspace:
    """Reads a project file and those of its members.

    Refused, all at once: a file that cannot be read, is not TOML (`bad-toml`), or has unknown keys (`unknown-key`),
    wrong types (`wrong-type`), bad values (`bad-value`), missing keys (`missing-key`), or both of two keys that
    exclude each other (`conflicting-keys`). A wrong type in `[weights]` alone is among the workspace's `refusals`.
    """
    reader = _Reader(file)
    projects = reader.projects()
    members = [_Reader(folder / FILE_NAME, member=True) for folder in reader.members()]
    versions = reader.versions()
    for member in members:
        projects += member.projects()
    readers = (reader, *members)
    refusals = [one for read in readers for one in sorted([*read.refusals, *read.entries], key=_position)]
    if any(read.refusals for read in readers):
        raise Refused(refusals)
    files = (file, *reader.candidates)
    return Workspace(file, tuple(projects), files, tuple(reader.listed), versions, tuple(refusals))


def _read_file(file: Path) -> Toml:
    """A project file. Refused: `unreadable-file`, `not-utf-8`, `bad-toml` with its line."""
    name = os.fspath(file)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise refuse(
            "unreadable-file",
            f"cannot read the project file: {error.strerror or error}",
            Spot(name),
            f"run in a folder that holds a {FILE_NAME} that may be read",
        ) from None
    try:
        source = source_from_bytes(name, data)
    except Refused as refused:
        raise Refused(replace(one, next="save the file as UTF-8") for one in refused.refusals) from None
    return read_toml(source)


def _position(refusal: Refusal) -> tuple[int, int]:
    place = refusal.where
    return (place.span.line, place.span.column) if isinstance(place, KeyPlace) else (0, 0)


_TYPES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array", dict: "a table"}


class _Reader:
    """Reads one project file, keeping every refusal; `entries` are those of single entries of `[weights]`."""

    def __init__(self, file: Path, member: bool = False) -> None:
        self.file = file
        self.member = member
        self.refusals: list[Refusal] = []
        self.entries: list[Refusal] = []
        self.values: dict[str, Any] = {}
        self.places: Mapping[KeyPath, KeyPlace] = {}
        self.candidates: dict[Path, None] = {}
        self.listed: dict[Path, None] = {}
        try:
            read = _read_file(file)
        except Refused as refused:
            self.refusals += refused.refusals
            return
        self.values, self.places = read.values, read.places
        self._known(self.values, _TOP, ())

    def projects(self) -> list[Project]:
        """The file's own project, if it has one and is sound."""
        if self.refusals and not self.values:
            return []
        if self.member and "workspace" in self.values:
            what = "a member of a workspace has members of its own"
            self._refuse("bad-value", what, ("workspace",), f"name them in the {FILE_NAME} of the root")
        if "project" not in self.values:
            if "workspace" not in self.values or self.member:
                self._refuse(
                    "missing-key", f"{FILE_NAME} has no [project]", (), "add [project] with a name and a program"
                )
            return []
        table = self._table(("project",), self.values)
        self._known(table, _PROJECT, ("project",))
        name = self._string(("project", "name"), table)
        program, author = self._path(("project", "program"), table), self._author(table)
        if "name" not in table:
            self._refuse("missing-key", "[project] has no name", ("project",), 'add name = "…", the artifact\'s folder')
        elif name is not None and not fits_a_folder(name):
            self._refuse(
                "bad-value",
                f"{name!r} cannot name a folder",
                ("project", "name"),
                "give a name of printable characters without / or \\ that is not . or .. and does not begin with -",
            )
        self._one_source(table)
        return [
            Project(
                file=self.file,
                name=name or "",
                program=program,
                author=author,
                checkpoint=self._path(("project", "checkpoint"), table),
                family=self._string(("project", "family"), table),
                out=self._path(("project", "out"), table),
                weights=self._weights(),
                targets=self._targets(),
                places=self.places,
            )
        ]

    def members(self) -> list[Path]:
        """The folders of the workspace's members, each once, a pattern's in order of name, without the excluded."""
        self._known(self._table(("workspace",), self.values), _WORKSPACE, ("workspace",))
        patterns, excluded = self._strings("members"), self._strings("exclude")
        folders: dict[Path, None] = {}
        for pattern in patterns:
            folders |= dict.fromkeys(self._matches(pattern))
        left_out = [os.path.normpath(self.file.parent / pattern) for pattern in excluded]
        return [
            folder
            for folder in folders
            if not any(fnmatchcase(os.path.normpath(folder), pattern) for pattern in left_out)
        ]

    def versions(self) -> tuple[Path, ...]:
        """The files that say which versions of LOGOS and of plugins are installed."""
        found = []
        for name in self._strings("versions"):
            found.append(self.file.parent / name)
            if not found[-1].is_file():
                next_ = "name a file such as a lock file or constraints.txt, relative to this file"
                self._refuse("missing-file", f"{name!r} is not there", ("workspace", "versions"), next_)
        return tuple(found)

    def _strings(self, key: str) -> list[str]:
        """An array of strings of the workspace's; patterns say each depth."""
        path = ("workspace", key)
        given = self._table(("workspace",), self.values).get(key, [])
        if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
            self._wrong(path, given, "an array of strings that are not empty")
            return []
        if any("**" in PurePath(one).parts for one in given):
            self._refuse("bad-value", "** is no pattern here", path, "write a pattern for each depth: libs/*, libs/*/*")
            return []
        return given

    def _matches(self, pattern: str) -> list[Path]:
        folder = self.file.parent
        names = sorted(glob.glob(pattern, root_dir=folder)) if glob.has_magic(pattern) else [pattern]
        self.candidates |= dict.fromkeys(folder / name / FILE_NAME for name in names)
        if glob.has_magic(pattern):
            self.listed |= dict.fromkeys(folder / name for name in _searched(pattern, folder))
        found = [folder / name for name in names if (folder / name / FILE_NAME).is_file()]
        if not found:
            self._refuse(
                "missing-file",
                f"{pattern!r} matches no folder that holds a {FILE_NAME}",
                ("workspace", "members"),
                "name a member's folder, relative to this file, or a pattern such as examples/*",
            )
        return found

    def _author(self, table: Mapping[str, Any]) -> Author | None:
        path = ("project", "author")
        if "author" not in table:
            return None
        author = self._table(path, table)
        self._known(author, _AUTHOR, path)
        checkpoint = self._path((*path, "checkpoint"), author)
        if "checkpoint" not in author and isinstance(table["author"], dict):
            self._refuse("missing-key", "the author has no checkpoint", path, 'add checkpoint = "FILE"')
        context, layers = self._count((*path, "context"), author), self._count((*path, "layers"), author)
        return Author(checkpoint, context, layers) if checkpoint is not None else None

    def _one_source(self, table: Mapping[str, Any]) -> None:
        given = [key for key in ("program", "author") if key in table]
        if not given:
            self._refuse(
                "missing-key",
                "[project] names no program",
                ("project",),
                'add program = "FILE.lg", or author = { checkpoint = "FILE" } to have one written',
            )
        elif len(given) == 2:
            self._refuse(
                "conflicting-keys",
                "program and author exclude each other: a project has one program",
                ("project", "author"),
                "keep one of the two",
            )

    def _weights(self) -> dict[str, str]:
        table = self._table(("weights",), self.values)
        before = len(self.refusals)
        found = {name: self._string(("weights", name), table) for name in table}
        self.entries += self.refusals[before:]
        del self.refusals[before:]
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def _targets(self) -> dict[str, dict[str, object]]:
        table = self._table(("target",), self.values)
        return {name: self._table(("target", name), table) for name in table}

    def _known(self, table: Mapping[str, Any], known: tuple[str, ...], path: KeyPath) -> None:
        for key in table:
            if key not in known:
                near = nearest(key, known)
                hint = f"did you mean {near}? " if near else ""
                self._refuse("unknown-key", "unknown key", (*path, key), f"{hint}known here: {', '.join(known)}")

    def _table(self, path: KeyPath, table: Mapping[str, Any]) -> dict[str, Any]:
        value = table.get(path[-1], {})
        if isinstance(value, dict):
            return value
        self._wrong(path, value, "a table")
        return {}

    def _string(self, path: KeyPath, table: Mapping[str, Any]) -> str | None:
        value = table.get(path[-1])
        if value is None or (isinstance(value, str) and value):
            return value
        self._wrong(path, value, "a string that is not empty")
        return None

    def _path(self, path: KeyPath, table: Mapping[str, Any]) -> Path | None:
        value = self._string(path, table)
        if value is None:
            return None
        if not value.isprintable():
            self._refuse("bad-value", "the path holds a control character", path, "rename the file or folder")
            return None
        return self.file.parent / value

    def _count(self, path: KeyPath, table: Mapping[str, Any]) -> int | None:
        value = table.get(path[-1])
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(path, value, "an integer")
            return None
        if value < 1:
            self._refuse("bad-value", f"{value} is no count", path, "give an integer from 1")
            return None
        return value

    def _wrong(self, path: KeyPath, value: object, wanted: str) -> None:
        found = "an empty string" if value == "" else _TYPES.get(type(value), "a date or time")
        self._refuse("wrong-type", f"{found} is the wrong type", path, f"give {wanted}")

    def _refuse(self, code: str, what: str, path: KeyPath, next: str) -> None:
        refusal = Refusal(code, what, nearest_place(self.file, self.places, path), next)
        self.refusals.append(refusal)


def _searched(pattern: str, folder: Path) -> Iterator[str]:
    """The folders whose names a pattern is compared with."""
    whole = PurePath(pattern)
    for part, above in zip((whole, *whole.parents), whole.parents, strict=False):
        if glob.has_magic(part.name):
            yield from glob.glob(os.fspath(above), root_dir=folder)


def fits_a_folder(name: str) -> bool:
    """Whether a project's name can be the name of its artifact's folder."""
    plain = name.isprintable() and not re.search(r"[/\\]", name) and len(os.fsencode(name)) <= 200
    return plain and name not in (".", "..") and not name.startswith(("-", ".logos"))
