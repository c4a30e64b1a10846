"""Having a program written: the decode step of a checkpoint, by its family."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
