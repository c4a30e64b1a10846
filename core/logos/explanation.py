"""What a program becomes, in words and bytes: each sentence, its memory; for a target, the stages and the lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from logos.graph import Graph, Node, Value
from logos.hookspecs import Artifact, Job, Target, WeightEntry
from logos.printer import sentence
from logos.weights.binding import Binding, Bound, Role

_WIDTHS = {"F64": 8, "F32": 4, "BF16": 2, "I64": 8}
_SHOWN = 8
_HELD = (Role.WEIGHT, Role.TABLE, Role.CONSTANT)


@dataclass(frozen=True)
class Stage:
    """One stage of a build for a target: a title, and what it makes, with bytes where they are known beforehand;
    `unit` says of what these are, where it is not the whole file."""

    title: str
    makes: tuple[tuple[str, int | None], ...]
    unit: str = ""


def stages(target: Target, job: Job, artifacts: Sequence[Artifact]) -> tuple[Stage, ...]:
    """The stages of a build: emission, extraction, the target's own tools."""
    following = target.steps(job)
    texts = tuple((artifact.path, len(artifact.text.encode())) for artifact in artifacts)
    found = [Stage("emit", texts)]
    for file in following.extractions:
        count = sum(entry_bytes(job.binding, entry) for entry in file.entries)
        values = "1 value" if len(file.entries) == 1 else f"{len(file.entries)} values"
        found.append(Stage(f"extract {values} as {_dtypes(file.entries)}", ((file.path, count),), " of values"))
    for recording in following.recordings:
        title = f"record {recording.steps} steps of the reference machine" if recording.steps > 1 else "record a step"
        found.append(Stage(title, ((recording.path, None),)))
    found += [Stage(edge.rule, tuple((path, None) for path in edge.outputs)) for edge in following.edges]
    return tuple(found)


def _dtypes(entries: Sequence[WeightEntry]) -> str:
    return ", ".join(sorted({entry.dtype for entry in entries}))


def entry_bytes(binding: Binding, entry: WeightEntry) -> int:
    """The bytes of a value in a weight file: Q8_0 has a byte a value and four for each 32."""
    count = binding[entry.variable].leaf.value.size
    return count + 4 * (count // 32) if entry.dtype == "Q8_0" else count * _WIDTHS[entry.dtype]


def value_bytes(value: Value) -> int:
    """A value in memory: Real as float32, Int as 64-bit integers."""
    return value.size * (4 if value.real else 8)


def positions(graph: Graph) -> int | None:
    """The context: the rows of the smallest table that a sentence sets a row of; None where no sentence does."""
    rows = [value.rows for node in graph.nodes if node.op.name == "set row" for value in node.writes.values()]
    return min(rows, default=None)


def most_at_once(graph: Graph) -> int:
    """The most bytes that computed values take at once, each from its sentence to its last reader."""
    last: dict[Value, int] = {graph.output: len(graph.nodes)}
    for node in graph.nodes:
        last.update({value: max(last.get(value, 0), node.index) for value in node.inputs})
    most, alive = 0, dict[Value, int]()
    for node in graph.nodes:
        if node.out is not None:
            alive[node.out] = value_bytes(node.out)
        most = max(most, sum(alive.values()))
        alive = {value: count for value, count in alive.items() if last.get(value, 0) > node.index}
    return most


def memory(binding: Binding) -> Iterator[tuple[str, int]]:
    """What a step holds: leaves by role, as they are in memory, and the most that computed values take at once."""
    for role in Role:
        held = [bound.leaf.value for bound in binding.leaves if bound.role is role]
        if held:
            yield role.value, sum(map(value_bytes, held))
    yield "computed at once", most_at_once(binding.graph)


def source_of(bound: Bound) -> str:
    """Where a leaf's value comes from, in words."""
    if bound.tensor is not None:
        return f"{bound.tensor.name} ({bound.tensor.storage})"
    if bound.file is not None:
        return bound.file.name
    if bound.leaf.fills:
        return f"{len(bound.leaf.fills)} filled"
    if bound.role in _HELD:
        return "no value yet" if bound.role is not Role.TABLE else "computed"
    return ""


def became(graph: Graph, artifacts: Iterable[Artifact]) -> dict[int, list[str]]:
    """For each line of the program, the lines of the artifacts that say it is their origin (`model.lg:12`), and those
    that follow each of them up to the next origin or a blank line."""
    mark = re.compile(rf"{re.escape(PurePath(graph.source.name).name)}:(\d+)(?!\d)")
    found: dict[int, list[str]] = {}
    for artifact in artifacts:
        open_ = 0
        for number, line in enumerate(artifact.text.splitlines(), 1):
            origin = mark.search(line)
            if origin is not None:
                open_ = int(origin[1])
            elif not line.strip():
                open_ = 0
            if open_:
                found.setdefault(open_, []).append(f"{artifact.path}:{number}: {line.strip()}")
    return found


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines of many, and how many more there are."""
    if len(lines) <= _SHOWN:
        return list(lines)
    return [*lines[: _SHOWN - 1], f"… {len(lines) - _SHOWN + 1} more lines"]


def said(node: Node) -> tuple[str, str]:
    """A node's sentence, and what it is: the op, what it makes, what it writes."""
    made = f"{node.out.name} {node.out.rows} by {node.out.columns}" if node.out is not None else ""
    written = [f"writes {value.name} {value.rows} by {value.columns}" for value in node.writes.values()]
    return sentence(node), f"{node.op.name}: {', '.join([*([made] if made else []), *written])}"
