"""`logos check`: parse and check programs, and say which installed targets can take each."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.common import json_option, open_manager, program_options, verbose_option

if TYPE_CHECKING:
    from logos.graph import Graph
    from logos.job import Request
    from logos.manager import Manager
    from logos.refusal import Refusal


@click.command()
@click.argument("programs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="PROGRAM...")
@program_options
@click.option("--cross", is_flag=True, help="Hold each sentence against what the loops that it stands for are read as.")
@json_option
@verbose_option
def command(
    programs: tuple[Path, ...],
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    cross: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Check each PROGRAM, and whether each installed target can take it."""
    from logos.job import Request
    from logos.refusal import Refused

    manager = open_manager(verbose)
    refusals: list[Refusal] = []
    for program in programs:
        try:
            _check(manager, Request(program, checkpoint, weights, family), cross, as_json, verbose)
        except Refused as refused:
            refusals += refused.refusals
    if refusals:
        raise Refused(refusals)


def _check(manager: Manager, request: Request, cross: bool, as_json: bool, verbose: bool) -> None:
    from logos.job import bind_request, load_graph, make_job
    from logos.refusal import Refused
    from logos.source import printable

    graph = load_graph(manager, request)
    crossed = _cross(manager, graph) if cross else None
    binding = bind_request(manager, graph, request)
    roles: dict[str, int] = {}
    for bound in binding.leaves:
        roles[bound.role.value] = roles.get(bound.role.value, 0) + 1
    verdicts: dict[str, tuple[Refusal, ...]] = {}
    for name in manager.targets:
        try:
            make_job(manager, request, name, binding)
            verdicts[name] = ()
        except Refused as refused:
            verdicts[name] = refused.refusals
        except Exception as error:  # one target's fault is no verdict on the others
            verdicts[name] = (_failed(name, error, verbose),)
    if as_json:
        targets = {name: [refusal.record() for refusal in refusals] for name, refusals in verdicts.items()}
        record = {"program": graph.source.name, "operations": len(graph.nodes), "leaves": roles}
        record |= {} if crossed is None else {"crossed": crossed[0]}
        click.echo(json.dumps({**record, "output": graph.output.name, "targets": targets}, ensure_ascii=False))
        return
    counts = ", ".join(f"{count} {_plural(role, count)}" for role, count in roles.items())
    output = graph.output
    operations = f"{len(graph.nodes)} {_plural('operation', len(graph.nodes))}"
    click.echo(f"{printable(graph.source.name)}: {operations}; {counts or 'no leaves'}")
    click.echo(f"output: {output.name}, {output.rows} by {output.columns} of {'Real' if output.real else 'Int'}")
    if crossed is not None:
        agree, stay = crossed
        kept = f"; {stay} without loops" if stay else ""
        click.echo(f"cross: both readers agree on {agree} {_plural('operation', agree)}{kept}")
    for name, refusals in verdicts.items():
        click.echo(f"target {name}: {'refuses it' if refusals else 'can take it'}")
        for refusal in refusals:
            click.echo("  " + refusal.text().replace("\n", "\n  "))


def _cross(manager: Manager, graph: Graph) -> tuple[int, int]:
    """How many operations both readers agree on, and how many stand for no loops. Raises `Refused` with every one that
    they do not agree on."""
    from logos.lift import disagreements, lift
    from logos.refusal import Refused

    lifted = lift(graph, manager.ops)
    if found := tuple(disagreements(lifted)):
        raise Refused(found)
    stay = sum(one.loops is None for one in lifted)
    return len(lifted) - stay, stay


def _failed(target: str, error: Exception, verbose: bool) -> Refusal:
    from logos.discovery import said
    from logos.refusal import Refusal
    from logos.source import Spot

    if verbose:
        click.echo(traceback.format_exc(), err=True)
    what = f"target {target} failed when it was asked: {said(error)}"
    return Refusal("broken-target", what, Spot(f"target {target}"), "tell its authors; -v shows the traceback")


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
