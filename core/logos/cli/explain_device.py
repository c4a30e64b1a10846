"""What `logos explain` says of a target that plans its device: stages, launches and bytes, by layer and in all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, size
from logos.source import printable

if TYPE_CHECKING:
    from logos.device_plan import DevicePlan, DeviceStage, Sum
    from logos.graph import Graph

_LAYERS = 8
"""Layers that are listed one by one; of more, those in a row that come to the same stand together."""


def stage_lines(plan: DevicePlan) -> dict[int, list[str]]:
    """For each node, by index, what its stage is; at the last node of a stage."""
    return {stage.nodes[-1]: list(_lines(stage)) for stage in plan.stages}


def _lines(stage: DeviceStage) -> Iterator[str]:
    kernels = ", ".join(map(printable, stage.launches)) or "nothing"
    yield f"launches {kernels}; reads {size(stage.reads)}, writes {size(stage.writes)}"
    yield from map(printable, stage.notes)


def show_plan(graph: Graph, plan: DevicePlan) -> None:
    """The sums, and the memory by class."""
    from logos.device_plan import by_layer, sum_of

    layers = by_layer(graph, plan)
    click.echo("\non the device, a step")
    for first, last in _alike(layers):
        click.echo(f"  {_title(first.layer, last.layer)}: {_said(first)}")
    click.echo(f"  in all: {_said(sum_of(plan.stages))}")
    click.echo("\nmemory on the device")
    for what, count in plan.memory:
        click.echo(f"  {what}: {size(count)}")
    if plan.notes:
        click.echo("\nchoices")
    for note in plan.notes:
        click.echo(f"  {printable(note)}")


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
    launches = f"{sum_.launches:,} launch{'' if sum_.launches == 1 else 'es'}"
    return f"{amount(sum_.stages, 'stage')}, {launches}, {size(sum_.reads)} read, {size(sum_.writes)} written"
