"""A starting project: a program that builds at once, its logos.toml and a page that says what to do."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from string import Template

from logos.atomic import unwritable, write_if_changed
from logos.job import Request, make_job
from logos.manager import Manager
from logos.project import FILE_NAME
from logos.project_file import fits_a_folder
from logos.refusal import Refused, refuse
from logos.source import Source, Spot, printable
from logos.toml_places import dotted, quoted

PROGRAM = "program.lg"


def start_project(manager: Manager, folder: Path, target: str | None) -> tuple[Path, ...]:
    """Writes a starting project into a folder, which is made, and returns its files.

    Without a target, the first is taken that can build the program without further tools, else the first that can.
    Refused: a folder that holds something (`folder-not-empty`), no target that can take the program (`no-target`), and
    what the target that was asked for refuses.
    """
    _check_empty(folder)
    program = _text(PROGRAM)
    chosen = target if target is not None else _target(manager, program)
    make_job(manager, _request(program), chosen)
    name = _name(folder)
    texts = {
        PROGRAM: program,
        FILE_NAME: Template(_text("logos.toml.in")).substitute(name=quoted(name), target=dotted(("target", chosen))),
        "README.md": Template(_text("README.md.in")).substitute(title=name, target=chosen),
    }
    for file, text in texts.items():
        write_if_changed(folder / file, text)
    return tuple(folder / file for file in texts)


def _check_empty(folder: Path) -> None:
    try:
        holds = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise unwritable(folder, error) from error
    if holds:
        what = "there is something in this place"
        raise refuse("folder-not-empty", what, Spot(os.fspath(folder)), "name a new or an empty folder")


def _text(file: str) -> str:
    return (files("logos") / "new_project" / file).read_text("utf-8")


def _request(program: str) -> Request:
    return Request(Path(PROGRAM), source=Source(PROGRAM, program))


def _target(manager: Manager, program: str) -> str:
    able = []
    for name in manager.targets:
        try:
            target, job = make_job(manager, _request(program), name)
            following = target.steps(job)
        except Refused:
            continue
        if not following.refusals:
            able.append((len(following.edges), name))
    if not able:
        what = "no installed target can take the starting program"
        next_ = "install a plugin that brings one; `logos targets` lists those installed"
        raise refuse("no-target", what, Spot("logos new"), next_)
    return min(able)[1]


def _name(folder: Path) -> str:
    """The folder's name, where it can name an artifact's folder too."""
    name = printable(folder.resolve().name)
    return name if fits_a_folder(name) else "project"
