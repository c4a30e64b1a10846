"""`logos inspect`: what a checkpoint holds, and which program variable takes which tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logos.cli.common import json_option, open_manager, verbose_option
from logos.cli.events import json_text

if TYPE_CHECKING:
    from logos.manager import Manager
    from logos.refusal import Refusal
    from logos.weights.binding import Binding
    from logos.weights.checkpoint import Checkpoint

_LONG = 16
"""Arrays of the metadata with more items than this are counted, not shown."""

_LONG_TEXT = 100_000
"""Texts of the metadata with more characters than this are counted in JSON; a person is shown the beginning of any."""

_SHOWN = 100


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@json_option
@verbose_option
def command(checkpoint: Path, as_json: bool, verbose: bool) -> None:
    """Show the metadata and tensors of CHECKPOINT, and which program variable takes which tensor."""
    from logos.job import open_checkpoint

    manager = open_manager(verbose)
    opened = open_checkpoint(manager, checkpoint)
    takers, refusals = _takers(manager, opened)
    if as_json:
        click.echo(json_text(_record(opened, takers, refusals)))
    else:
        click.echo("\n".join(_lines(opened, takers, refusals)))  # at once: echo flushes each time
    opened.close()


Takers = dict[str, list[tuple[str, str]]]
"""By tensor, the (variable, view in words) of each variable that takes it."""


def _takers(manager: Manager, checkpoint: Checkpoint) -> tuple[Takers, tuple[Refusal, ...]]:
    """Who takes each tensor in the program that the checkpoint's family writes, and the refusals where it does not.
    A program that would leave tensors out is written here all the same, to see what the others are for."""
    from logos.check import read_program
    from logos.hookspecs import AuthorOptions
    from logos.refusal import Refused
    from logos.source import Source
    from logos.weights.binding import bind

    refusals: tuple[Refusal, ...] = ()
    for options in (AuthorOptions(), AuthorOptions(leave_out=True)):
        try:
            family = manager.family(str(checkpoint.metadata.get("general.architecture")))
            program = Source("the authored program", family.author(checkpoint, options))
            binding = bind(read_program(program, manager.grammar), family, checkpoint)
        except Refused as refused:
            refusals = refusals or refused.refusals
        else:
            return _taken(binding), refusals
    return {}, refusals


def _taken(binding: Binding) -> Takers:
    from logos.weights.views import Table, TensorView

    takers: Takers = {}
    for bound in binding.leaves:
        if isinstance(bound.view, TensorView):
            takers.setdefault(bound.view.tensor, []).append((bound.name, bound.view.text()))
        elif isinstance(bound.view, Table):
            for tensor in bound.view.tensors:
                takers.setdefault(tensor, []).append((bound.name, "table"))
    return takers


def _record(checkpoint: Checkpoint, takers: Takers, refusals: tuple[Refusal, ...]) -> dict[str, Any]:
    tensors = [
        {
            "name": tensor.name,
            "shape": list(tensor.shape),
            "storage": tensor.storage,
            "bytes": tensor.nbytes,
            "file": tensor.file.name,
            "variables": [{"variable": name, "view": view} for name, view in takers.get(tensor.name, ())],
        }
        for tensor in checkpoint.tensors.values()
    ]
    return {
        "checkpoint": str(checkpoint.path),
        "files": [path.name for path in checkpoint.files],
        "metadata": {key: _plain(value) for key, value in checkpoint.metadata.items()},
        "tensors": tensors,
        "unused": _unused(checkpoint, takers),
        "refusals": [refusal.record() for refusal in refusals],
    }


def _plain(value: object) -> Any:
    """A value of the metadata for JSON: long arrays and texts as their length."""
    if isinstance(value, str):
        return {"characters": len(value)} if len(value) > _LONG_TEXT else value
    if isinstance(value, Sequence):
        return {"items": len(value)} if len(value) > _LONG else [_plain(item) for item in value]
    return value


def _lines(checkpoint: Checkpoint, takers: Takers, refusals: tuple[Refusal, ...]) -> Iterator[str]:
    tensors = checkpoint.tensors.values()
    files, total = len(checkpoint.files), sum(tensor.nbytes for tensor in tensors)
    shards = f"{files} files" if files > 1 else "1 file"
    yield f"{checkpoint.path}: {shards}, {len(tensors)} tensors, {_size(total)}"
    yield "metadata"
    for key, value in checkpoint.metadata.items():
        yield f"  {_shown(key)} = {_value(value)}"
    yield "tensors"
    for tensor in tensors:
        taken = [f"{name} ({view})" for name, view in takers.get(tensor.name, ())]
        shape = " by ".join(map(str, tensor.shape))
        arrow = f" → {', '.join(taken)}" if taken else ""
        yield f"  {_shown(tensor.name)}: {shape} of {tensor.storage}, {_size(tensor.nbytes)}{arrow}"
    if left := _unused(checkpoint, takers):
        yield f"no variable takes {', '.join(map(_shown, left))}"
    if refusals:
        yield "no program can be written for it:"
        for refusal in refusals:
            yield "  " + refusal.text().replace("\n", "\n  ")


def _unused(checkpoint: Checkpoint, takers: Takers) -> list[str] | None:
    """The tensors that no variable takes; None where no program says what takes any."""
    return [name for name in checkpoint.tensors if name not in takers] if takers else None


def _value(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{len(value)} items" if len(value) > _LONG else f"[{', '.join(_value(item) for item in value)}]"
    return _shown(str(value))


def _shown(text: str) -> str:
    """Text of a file as one short line without control characters."""
    line = text[: _SHOWN + 1]
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    units = ("kB", "MB", "GB", "TB")
    power = min(len(units), int(math.log10(count)) // 3)
    return f"{count / 1000**power:.1f} {units[power - 1]}"
