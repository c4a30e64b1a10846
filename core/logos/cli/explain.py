"""`logos explain`: what a program becomes, or an op's page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, hold_option, size
from logos.cli.common import json_option, open_manager, program_options, target_options, verbose_option
from logos.cli.op_page import show_op, unknown_op
from logos.source import printable

if TYPE_CHECKING:
    from logos.device_plan import DevicePlan
    from logos.graph import Graph
    from logos.hookspecs import Artifact, Job, Target
    from logos.manager import Manager
    from logos.passes.fusion import Group
    from logos.weights.binding import Binding


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="PROGRAM or OP")
@click.option("--target", metavar="NAME", help="Show what this target makes of the program.")
@program_options
@target_options
@hold_option
@click.option("--desugar", "as_loops", is_flag=True, help="Print the program of loops that PROGRAM stands for.")
@click.option("--compiled", is_flag=True, help="Show what the target's compiler makes of each kernel.")
@json_option
@verbose_option
def command(
    words: tuple[str, ...],
    target: str | None,
    checkpoint: Path | None,
    weights: Path | None,
    family: str | None,
    options: dict[str, str],
    hold: tuple[str, ...],
    as_loops: bool,
    compiled: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Show what PROGRAM becomes: its leaves, what each sentence became and with which others it acts as one, bytes,
    memory at the context, the stages of a build; or the page of an OP.

    With --target, where the target plans its device: launches, bytes and operations of each stage and a token, and the
    time that a token takes at least on some cards. --json prints that plan as one object, --compiled the kernels'
    machine code: registers, spills, occupancy, widths of loads, integer products."""
    from logos.job import Request, bind_request, load_graph, make_job

    manager = open_manager(verbose)
    name = " ".join(words)
    if not Path(name).exists() and name in [op.name for op in manager.ops]:
        show_op(manager, name)
        return
    if len(words) > 1 or not (Path(name).exists() or Path(name).suffix):
        raise unknown_op(name, [op.name for op in manager.ops])
    if as_loops:
        _desugar(manager, words[0], target)
        return
    request = Request(Path(words[0]), checkpoint, weights, family, options=options, hold=hold)
    if target is None:
        if compiled or as_json:
            raise click.UsageError("--compiled and --json say what a target makes of a program: give --target NAME")
        graph = load_graph(manager, request)
        _explain(bind_request(manager, graph, request), (), (), {})
        return
    from logos.artifacts import emit_artifacts
    from logos.cli.explain_compiled import show_compiled
    from logos.cli.explain_device import show_plan, show_record, stage_lines
    from logos.explanation import stages
    from logos.hookspecs import PlanningTarget
    from logos.plan import check_hold

    check_hold(manager.target(target), hold)
    made, job = make_job(manager, request, target)
    if compiled:
        show_compiled(made, job, as_json)
        return
    if as_json:
        show_record(made, job)
        return
    artifacts = emit_artifacts(made, job)
    plan = made.device_plan(job) if isinstance(made, PlanningTarget) else None
    groups = _groups(made, job) if plan is None else _stage_groups(job.graph, plan)
    _explain(job.binding, artifacts, groups, {} if plan is None else stage_lines(plan))
    if groups:
        _fusion(made, job, groups)
    if plan is not None:
        show_plan(job.graph, plan)
    click.echo(f"\nstages of a build for {target}")
    for stage in stages(made, job, artifacts):
        click.echo(f"  {stage.title}")
        for path, count in stage.makes:
            click.echo(f"    → {path}{'' if count is None else f': {size(count)}{stage.unit}'}")


def _desugar(manager: Manager, program: str, target: str | None) -> None:
    from logos.desugar import desugar
    from logos.job import Request, load_graph

    if target is not None:
        raise click.UsageError("--desugar prints the program for every target: leave --target out")
    click.echo(desugar(load_graph(manager, Request(Path(program)))), nl=False)


def _groups(target: Target, job: Job) -> tuple[Group, ...]:
    """Which sentences act as one, where the target takes steps of the core's table."""
    from logos.passes.fusion import FUSION_STEPS, job_groups

    known = {step.name for step in FUSION_STEPS}
    return job_groups(target, job) if known.intersection(target.fuses) else ()


def _stage_groups(graph: Graph, plan: DevicePlan) -> tuple[Group, ...]:
    """The stages of a device as groups of sentences."""
    from logos.passes.fusion import Group

    return tuple(
        Group(tuple(graph.nodes[index] for index in stage.nodes), stage.steps, stage.inner)
        for stage in plan.stages
    )


def _roles(groups: tuple[Group, ...]) -> dict[int, str]:
    """For each node, by index: its group, the steps that made it, the sentences that it acts with."""
    found = {}
    for number, group in enumerate(groups, 1):
        for node in group.nodes:
            others = [str(other.line) for other in group.nodes if other is not node]
            words = f"group {number} of {len(groups)}{', '.join(['', *group.steps])}"
            words += f", with line{'s' if len(others) > 1 else ''} {', '.join(others)}" if others else ""
            if node.out is not None and node.out in group.inner:
                words += f"; {node.out.name} is not stored"
            found[node.index] = words
    return found


def _fusion(target: Target, job: Job, groups: tuple[Group, ...]) -> None:
    from logos.passes.fusion import FUSION_STEPS

    click.echo(f"\nfusion: {amount(len(job.graph.nodes), 'operation')} in {amount(len(groups), 'group')}")
    for step in FUSION_STEPS:
        if step.name in target.fuses:
            count = sum(step.name in group.steps for group in groups)
            often = "held" if step.name in job.hold else f"{count:,} {'time' if count == 1 else 'times'}"
            click.echo(f"  {step.name}, {often}: {step.becomes}")


def _explain(
    binding: Binding, artifacts: tuple[Artifact, ...], groups: tuple[Group, ...], more: Mapping[int, list[str]]
) -> None:
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
    lines, roles = became(graph, artifacts), _roles(groups)
    for node in graph.nodes:
        words, what = said(node)
        click.echo(f"  {node.line}: {words}\n      {what}")
        if node.index in roles:
            click.echo(f"      {roles[node.index]}")
        for line in more.get(node.index, ()):
            click.echo(f"      {line}")
        for line in shortened(lines.get(node.line, [])):
            click.echo(f"      {printable(line)}")
    context = positions(graph)
    at = "" if context is None else f" at a context of {amount(context, 'position')}"
    click.echo(f"\nmemory{at}")
    for what, count in memory(binding):
        click.echo(f"  {what}: {size(count)}")
