"""Depfiles: what a build was made from, as make, ninja and CMake read it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from logos.atomic import replacing
from logos.ninja_run import find_ninja
from logos.plan import Plan, Unit
from logos.steps import absolute

ENDING = ".d"


def depfile_text(made: str, read: Iterable[str]) -> str:
    """One rule, escaped as gcc's -MD escapes: `made` depends on every file of `read`. No path holds a line break."""
    return " \\\n ".join([f"{_escaped(made)}:", *map(_escaped, read)]) + "\n"


def write_depfile(path: Path, plan: Plan | None, looked_at: Iterable[Path] = ()) -> None:
    """Says in FILE.d what FILE depends on: a plan that was carried out, if one was, and what was looked at beside it.
    Refused: `unwritable-file`."""
    beside = (os.path.abspath(one) for one in looked_at if one.exists())
    read = dict.fromkeys((*(depends(plan) if plan is not None else ()), *beside))
    with replacing(path) as file:
        file.write(os.fsencode(depfile_text(os.fspath(path).removesuffix(ENDING), read)))


def depends(plan: Plan) -> tuple[str, ...]:
    """The absolute paths by which an outer build sees that a plan which was carried out is to be carried out again.

    What it was made from: project files, programs, what weights come from, the code of LOGOS and of the plugins, tools
    and what only they know they read (their own depfiles), and the folders whose names decide. And what it made: a file
    that was changed or removed since is put right by building again.
    """
    read = [os.fspath(path) for path in (*plan.read, *plan.listed) if path.exists()]
    made = [os.fspath(path) for step in plan.steps for path in step.outputs]
    found = _found_by_tools(plan) if any(rule.depfile is not None for rule in plan.rules) else ()
    return tuple(dict.fromkeys((*read, *found, *made)))


def unit_depends(plan: Plan, unit: Unit) -> tuple[list[str], list[str]]:
    """Of the plan's `depends`, what one artifact is made from: files (project files, its program, what its weights
    come from, tools) and the folders whose names decide. Code, and what only tools know that they read, are left out.
    """
    project = (*plan.selection.common, *([unit.order.file] if unit.order.file is not None else []))
    made = {path for step in unit.steps for path in step.outputs}
    read = dict.fromkeys(map(absolute, (*project, *(path for step in unit.steps for path in step.inputs))))
    weights = unit.order.request.weights
    folders = dict.fromkeys(map(absolute, (*plan.selection.listed, *([weights] if weights is not None else []))))
    files = [os.fspath(path) for path in read if path not in made and path.exists()]
    return files, [os.fspath(path) for path in folders if path.exists()]


def _found_by_tools(plan: Plan) -> Iterator[str]:
    """What ninja keeps of the tools' depfiles, a file an indented line."""
    command = [find_ninja(), "-C", os.fspath(plan.private), "-t", "deps"]
    said = subprocess.run(command, capture_output=True, encoding="utf-8", errors="surrogateescape").stdout
    for line in said.splitlines():
        if line.startswith("    "):
            yield os.path.normpath(plan.private.absolute() / line.strip())


def _escaped(path: str) -> str:
    escaped = []
    for place, character in enumerate(path):
        if character in " #":
            # Backslashes before a blank would escape one another.
            before = len(path[:place]) - len(path[:place].rstrip("\\"))
            escaped.append("\\" * before + "\\")
        escaped.append("$$" if character == "$" else character)
    return "".join(escaped)
