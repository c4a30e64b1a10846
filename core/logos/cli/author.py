"""`logos author`: write a checkpoint's decode step as a program."""

from __future__ import annotations

from pathlib import Path

import click

from logos.cli.common import open_manager, verbose_option


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The program to write.")
@click.option(
    "--context",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Positions to leave room for [the smaller of the model's and 2048].",
)
@click.option("--layers", type=click.IntRange(min=1), metavar="N", help="Only the first N layers [all].")
@click.option("--family", help="Whose rules to write by [the checkpoint's].")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what was written.")
@verbose_option
def command(
    checkpoint: Path,
    output: Path,
    context: int | None,
    layers: int | None,
    family: str | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write the decode step of CHECKPOINT as a program: one step, token in, next token out."""
    from logos.atomic import write_if_changed
    from logos.author import Author, author_program

    text = author_program(open_manager(verbose), Author(checkpoint, context, layers), family)
    write_if_changed(output, text)
    if not quiet:
        lines = text.count("\n")
        click.echo(f"wrote {output}, {lines} lines; next: logos run {output} --checkpoint {checkpoint} --tokens 1")
