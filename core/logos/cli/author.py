"""`logos author`: write the decode step of a checkpoint, or of a published model, as a program."""

from __future__ import annotations

from pathlib import Path

import click

from logos.cli.common import open_manager, verbose_option


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path), required=False)
@click.option("--preset", metavar="NAME", help="A published model by name, such as qwen3-8b; needs no checkpoint.")
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
    checkpoint: Path | None,
    preset: str | None,
    output: Path,
    context: int | None,
    layers: int | None,
    family: str | None,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write the decode step of CHECKPOINT, or of a preset, as a program: one step, token in, next token out."""
    from logos.atomic import write_if_changed
    from logos.author import Author, author_program, preset_program

    manager = open_manager(verbose)
    if preset is not None:
        if checkpoint is not None or family is not None:
            raise click.UsageError("--preset takes neither CHECKPOINT nor --family beside it")
        text = preset_program(manager, preset, context, layers)
        following = f"logos check {output}"
    elif checkpoint is None:
        raise click.UsageError("give CHECKPOINT, or --preset NAME")
    else:
        text = author_program(manager, Author(checkpoint, context, layers), family)
        following = f"logos run {output} --checkpoint {checkpoint} --tokens 1"
    write_if_changed(output, text)
    if not quiet:
        lines = text.count("\n")
        click.echo(f"wrote {output}, {lines} lines; next: {following}")
