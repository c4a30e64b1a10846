"""`logos explain`: what a program becomes, or an op's page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, size
from logos.cli.common import open_manager, program_options, target_options, verbose_option
from logos.cli.op_page import show_op, unknown_op
from logos.source import printable

if TYPE_CHECKING:
    from logos.hookspecs import Artifact
    from logos.weights.binding import Binding


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="PROGRAM or OP")
@click.option("--target", metavar="NAME", help="Show what this target makes of the program.")
@program_options
@target_options
@verbose_option
def command(
    words: tuple[str, ...],
    target: str | None,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    options: dict[str, str],
    verbose: bool,
) -> None:
    """Show what PROGRAM becomes: its leaves, what each sentence became, bytes, memory at the context, the stages of a
    build; or the page of an OP."""
    from logos.job import Request, bind_request, load_graph, make_job

    manager = open_manager(verbose)
    name = " ".join(words)
    if not Path(name).exists() and name in [op.name for op in manager.ops]:
        show_op(manager, name)
        return
    if len(words) > 1 or not (Path(name).exists() or Path(name).suffix):
        raise unknown_op(name, [op.name for op in manager.ops])
    request = Request(Path(words[0]), checkpoint, weights, family, options=options)
    if target is None:
        graph = load_graph(manager, request)
        _explain(bind_request(manager, graph, request), ())
        return
    from logos.artifacts import emit_artifacts
    from logos.explanation import stages

    made, job = make_job(manager, request, target)
    artifacts = emit_artifacts(made, job)
    _explain(job.binding, artifacts)
    click.echo(f"\nstages of a build for {target}")
    for stage in stages(made, job, artifacts):
        click.echo(f"  {stage.title}")
        for path, count in stage.makes:
            click.echo(f"    → {path}{'' if count is None else f': {size(count)}{stage.unit}'}")


def _explain(binding: Binding, artifacts: tuple[Artifact, ...]) -> None:
    from logos.explanation import became, memory, positions, said, shortened, source_of

    graph = binding.graph
    output = graph.output
    click.echo(f"{printable(graph.source.name)}: {amount(len(graph.nodes), 'operation')}, output {output.name}")
    click.echo("\nleaves")
    rows = [
        (bound.name, f"{bound.leaf.value.rows} by {bound.leaf.value.columns}", bound.role.value, source_of(bound))
        for bound in binding.leaves
    ]
    wide = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=False))
        click.echo(f"  {cells}  {printable(row[3])}".rstrip())
    click.echo("\nsentences")
    lines = became(graph, artifacts)
    for node in graph.nodes:
        words, what = said(node)
        click.echo(f"  {node.line}: {words}\n      {what}")
        for line in shortened(lines.get(node.line, [])):
            click.echo(f"      {printable(line)}")
    context = positions(graph)
    at = "" if context is None else f" at a context of {amount(context, 'position')}"
    click.echo(f"\nmemory{at}")
    for what, count in memory(binding):
        click.echo(f"  {what}: {size(count)}")
