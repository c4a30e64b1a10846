"""`logos new`: a starting project."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from logos.cli.build_options import quiet_option
from logos.cli.common import open_manager, verbose_option


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--target", metavar="NAME", help="Build for this target [the first that needs no further tools].")
@quiet_option
@verbose_option
def command(folder: Path, target: str | None, quiet: bool, verbose: bool) -> None:
    """Write a starting project into DIR: a program, its logos.toml, and a page that says what to do.

    DIR is made; it may be there if it is empty.
    """
    from logos.source import printable
    from logos.starting import start_project

    written = start_project(open_manager(verbose), folder, target)
    if not quiet:
        for path in written:
            click.echo(printable(os.fspath(path)))
        click.echo(f"next: cd {printable(shlex.quote(os.fspath(folder)))} && logos build")
