"""What `logos explain` says of a target that plans its device: stages, launches and bytes, by layer and in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, size
from logos.cli.events import json_text
from logos.source import printable

if TYPE_CHECKING:
    from logos.device_plan import DevicePlan, DeviceStage, Sum
    from logos.graph import Graph
    from logos.hookspecs import Job, Target

_LAYERS = 8
"""Layers that are listed one by one; of more, those in a row that come to the same stand together."""


def stage_lines(plan: DevicePlan) -> dict[int, list[str]]:
    """For each node, by index, what its stage is; at the last node of a stage."""
    return {stage.nodes[-1]: list(_lines(stage)) for stage in plan.stages}


def _lines(stage: DeviceStage) -> Iterator[str]:
    kernels = ", ".join(map(printable, stage.launches)) or "nothing"
    flops = _flops(stage.work.flops) if not stage.work.cached_flops else f"{_flops(stage.work.cached_flops)} a position"
    yield f"launches {kernels}; reads {size(stage.reads)}, writes {size(stage.writes)}; {flops}"
    yield from map(printable, stage.notes)


def show_plan(graph: Graph, plan: DevicePlan) -> None:
    """The sums, and the memory by class."""
    from logos.device_plan import by_layer, sum_of

    layers = by_layer(graph, plan)
    click.echo("\non the device, a step")
    for first, last in _alike(layers):
        click.echo(f"  {_title(first.layer, last.layer)}: {_said(first)}")
    click.echo(f"  in all: {_said(sum_of(plan.stages))}")
    _show_token(graph, plan)
    click.echo("\nmemory on the device")
    for what, count in plan.memory:
        click.echo(f"  {what}: {size(count)}")
    click.echo(f"  in all: {size(sum(count for _, count in plan.memory))}")
    if plan.notes:
        click.echo("\nchoices")
    for note in plan.notes:
        click.echo(f"  {printable(note)}")


def show_record(target: Target, job: Job) -> None:
    """The plan as one object of JSON. Refused: a target that plans no device (`no-device-plan`)."""
    from logos.hookspecs import PlanningTarget
    from logos.refusal import refuse
    from logos.source import Spot

    if not isinstance(target, PlanningTarget):
        what = f"target {target.name} plans no device"
        raise refuse("no-device-plan", what, Spot("--json"), "leave the option out, or name a target that does")
    click.echo(json_text(plan_record(job.graph, target.device_plan(job))))


def _show_token(graph: Graph, plan: DevicePlan) -> None:
    """What a step takes at least: at its start, and at the whole context."""
    work, counts = plan.work, positions_of(graph)
    click.echo("\na token at least")
    for count in counts:
        click.echo(
            f"  at {amount(count, 'position')}: {size(work.bytes_at(count))} ({size(work.weights)} of weights, "
            f"{size(work.states)} of states, {size(work.cached * count)} of cached rows), "
            f"{_flops(work.flops_at(count))}, {_launches(sum_launches(plan))}"
        )
    last = counts[-1]
    for fit in plan.fits(last):
        need, card = sum(count for _, count in plan.memory), fit.card
        room = "fits" if fit.fits else "does not fit"
        click.echo(
            f"  {card.name}, {size(card.memory)}, {card.bandwidth / 1e9:,.0f} GB/s: {room} ({size(need)}); "
            f"at {amount(last, 'position')} {1e3 * fit.reading:.3f} ms of memory and {1e3 * fit.gaps:.3f} ms between "
            f"launches, up to {fit.rate:,.0f} tok/s"
        )


def positions_of(graph: Graph) -> tuple[int, ...]:
    """The positions that are said: the first, and those of the whole context."""
    from logos.explanation import positions

    context = positions(graph)
    return (1,) if context in (None, 1) else (1, context or 1)


def sum_launches(plan: DevicePlan) -> int:
    """The launches of a step."""
    return sum(len(stage.launches) for stage in plan.stages)


def plan_record(graph: Graph, plan: DevicePlan) -> dict[str, object]:
    """The plan for `--json`: bytes, seconds, floating-point operations."""
    work = plan.work
    stages = [
        {
            "lines": [graph.nodes[index].line for index in stage.nodes], "steps": list(stage.steps),
            "launches": list(stage.launches), "reads": stage.reads, "writes": stage.writes,
            "flops": stage.work.flops, "flops_a_position": stage.work.cached_flops, "notes": list(stage.notes),
        }
        for stage in plan.stages
    ]  # fmt: skip
    tokens = [
        {
            "positions": count, "bytes": work.bytes_at(count), "weights": work.weights, "states": work.states,
            "cached": work.cached * count, "flops": work.flops_at(count), "launches": sum_launches(plan),
        }
        for count in positions_of(graph)
    ]  # fmt: skip
    cards = [
        {
            "card": fit.card.name, "memory": fit.card.memory, "bandwidth": fit.card.bandwidth, "fits": fit.fits,
            "positions": positions_of(graph)[-1], "reading_seconds": fit.reading, "gap_seconds": fit.gaps,
            "tokens_per_second": fit.rate,
        }
        for fit in plan.fits(positions_of(graph)[-1])
    ]  # fmt: skip
    memory = dict(plan.memory)
    return {"stages": stages, "token": tokens, "memory": memory, "cards": cards, "choices": list(plan.notes)}


def _flops(count: float) -> str:
    units = ("flops", "kflops", "Mflops", "Gflops", "Tflops")
    place = 0
    while count >= 1000 and place < len(units) - 1:
        count, place = count / 1000, place + 1
    return f"{count:.3g} {units[place]}"


def _launches(count: int) -> str:
    return f"{count:,} launch{'' if count == 1 else 'es'}"


def _alike(layers: tuple[Sum, ...]) -> Iterator[tuple[Sum, Sum]]:
    """The first and the last of layers in a row that come to the same, where there are many."""
    first = 0
    for place in range(1, len(layers) + 1):
        joined = place < len(layers) and len(layers) > _LAYERS and _is_next(layers[place - 1], layers[place])
        if not joined:
            yield layers[first], layers[place - 1]
            first = place


def _is_next(one: Sum, other: Sum) -> bool:
    same = (one.stages, one.launches, one.reads, one.writes) == (
        other.stages, other.launches, other.reads, other.writes
    )  # fmt: skip
    return same and one.layer is not None and other.layer == one.layer + 1


def _title(first: int | None, last: int | None) -> str:
    if first is None:
        return "outside the layers"
    return f"layer {first}" if first == last else f"layers {first} to {last}, each"


def _said(sum_: Sum) -> str:
    touched = f"{size(sum_.reads)} read, {size(sum_.writes)} written"
    return f"{amount(sum_.stages, 'stage')}, {_launches(sum_.launches)}, {touched}"
