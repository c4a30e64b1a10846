"""`logos clean`: what builds made is removed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from logos.cli.build_options import amount, quiet_option, waiting_for


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The builds' out folder [that of logos.toml, or build].",
)
@quiet_option
def command(out: Path | None, quiet: bool) -> None:
    """Remove what builds with this out folder made: artifacts, ninja's files, folders that are then empty.

    A file that no build made, or that was changed since, stays.
    """
    from logos.clean import check_build, clean
    from logos.lock import locked
    from logos.plan import PRIVATE
    from logos.selection import default_out
    from logos.source import printable

    folder = out if out is not None else default_out()
    check_build(folder)
    with locked(folder / PRIVATE, lambda: click.echo(waiting_for(folder), err=True)):
        cleaned = clean(folder)
    if not quiet:
        for path in cleaned.kept:
            click.echo(f"kept {printable(os.path.relpath(path))}: changed since it was built")
        click.echo(f"removed {amount(len(cleaned.removed), 'file')}")
