"""Having a program written: the decode step of a checkpoint or of a published model, by its family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logos.near import suggestion
from logos.refusal import refuse
from logos.source import Spot

if TYPE_CHECKING:
    from logos.manager import Manager


@dataclass(frozen=True, slots=True)
class Author:
    """A program to write from a checkpoint; `context` and `layers` None are the family's defaults."""

    checkpoint: Path
    context: int | None = None
    layers: int | None = None


def author_program(manager: Manager, author: Author, family: str | None) -> str:
    """The program that a family (by default the checkpoint's) writes. Refused: a checkpoint that cannot be read, an
    unknown family, and what the family cannot honour."""
    from logos.hookspecs import AuthorOptions
    from logos.job import family_of, open_checkpoint

    checkpoint = open_checkpoint(manager, author.checkpoint)
    try:
        name = family or family_of(manager, checkpoint) or str(checkpoint.metadata.get("general.architecture"))
        return manager.family(name).author(checkpoint, AuthorOptions(author.context, author.layers))
    finally:
        checkpoint.close()


def author_inputs(manager: Manager, author: Author) -> tuple[Path, ...]:
    """The files that a program is written from: the checkpoint's own where it is a folder."""
    from logos.job import open_checkpoint

    if not author.checkpoint.is_dir():
        return (author.checkpoint,)
    checkpoint = open_checkpoint(manager, author.checkpoint)
    try:
        return tuple(checkpoint.files)
    finally:
        checkpoint.close()


def preset_program(manager: Manager, name: str, context: int | None = None, layers: int | None = None) -> str:
    """The program of a published model, by the name of its preset, in lower case or not. Refused: a name that no
    installed family knows (`unknown-preset`), more layers than there are."""
    from logos.hookspecs import AuthorOptions, PresetFamily

    known: list[str] = []
    for family in manager.families.values():
        if isinstance(family, PresetFamily):
            if header := family.presets.get(name.lower()):
                return family.author(header, AuthorOptions(context, layers))
            known += family.presets
    what = f"no installed family has a preset {name}{suggestion(name.lower(), known)}"
    raise refuse("unknown-preset", what, Spot("--preset"), f"presets: {', '.join(known) or 'none'}")
