"""From what was asked for (a program, a checkpoint, options) to a job that a target can take, or every refusal."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logos.check import read_program
from logos.graph import Graph, Node
from logos.hookspecs import Job, Target
from logos.loops.check import Tensor
from logos.loops.recognize import nearest_op
from logos.manager import Manager
from logos.near import suggestion
from logos.refusal import Refusal, Refused, refuse
from logos.source import Place, Source, Spot, read_source, source_from_bytes
from logos.weights.binding import Binding, bind
from logos.weights.checkpoint import Checkpoint

DEFAULT_FAMILY = "qwen35"
"""Its naming is the widest, so it decides roles where nothing else names a family."""


def _option_place(key: str) -> Place:
    return Spot(f"-D {key}")


def _option_folder(key: str) -> Path:
    return Path()


def _override_place(name: str) -> Place:
    return Spot(f"weights.{name}")


@dataclass(frozen=True)
class Request:
    """What was asked for. Paths are as given; `options` are from logos.toml or, as text, from `-D`; the places say
    where an option and a `[weights]` key were written, `option_folder` what a file that an option names is relative to;
    `hold` is the fusion steps that are not to act. `name` is what messages and artifacts call the program."""

    program: Path
    checkpoint: Path | None = None
    weights: Path | None = None
    family: str | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    option_place: Callable[[str], Place] = _option_place
    option_folder: Callable[[str], Path] = _option_folder
    override_place: Callable[[str], Place] = _override_place
    name: str | None = None
    source: Source | None = None
    hold: tuple[str, ...] = ()


def load_graph(manager: Manager, request: Request) -> Graph:
    """The checked graph of the request's program."""
    source = request.source or read_source(request.program, request.name)
    return read_program(source, manager.grammar)


def open_checkpoint(manager: Manager, path: Path) -> Checkpoint:
    """The checkpoint in a file or folder, by whichever installed format reads it. Refused: one that is not there
    (`unreadable-file`), one that no format reads (`unknown-checkpoint-format`), a broken one."""
    if not path.is_file() and not path.is_dir():
        what = "there is no such checkpoint file"
        raise refuse("unreadable-file", what, Spot(str(path)), "give the path of a checkpoint, such as a .gguf file")
    format_ = manager.format_of(path)
    if format_ is not None:
        return format_.open(path)
    listed = ", ".join(sorted(manager.formats)) or "none"
    what = f"no installed checkpoint format reads this {'folder' if path.is_dir() else 'file'}"
    raise refuse("unknown-checkpoint-format", what, Spot(str(path)), f"installed formats: {listed}")


def bind_request(manager: Manager, graph: Graph, request: Request) -> Binding:
    """The binding of a graph to the request's checkpoint, weight folder and `[weights]`."""
    if request.weights is not None and not request.weights.is_dir():
        what = "there is no such weight folder"
        raise refuse("unreadable-folder", what, Spot(str(request.weights)), "give a folder of weight files")
    checkpoint = open_checkpoint(manager, request.checkpoint) if request.checkpoint is not None else None
    name = request.family or (family_of(manager, checkpoint) if checkpoint else None) or DEFAULT_FAMILY
    family = manager.family(name)
    return bind(graph, family, checkpoint, request.weights, request.overrides, request.override_place)


def family_of(manager: Manager, checkpoint: Checkpoint) -> str | None:
    """The family that a checkpoint names, None where it names none that is installed."""
    named = checkpoint.metadata.get("general.architecture")
    return named if isinstance(named, str) and named in manager.families else None


def make_job(
    manager: Manager, request: Request, target_name: str, binding: Binding | None = None
) -> tuple[Target, Job]:
    """The target and its job; `binding` is the request's where it was made already. Raises `Refused` with everything
    that the program, the weights, the options and the target refuse, before anything is written.
    """
    target = manager.target(target_name)
    graph = binding.graph if binding else load_graph(manager, request)
    refusals: list[Refusal] = list(unspelled(manager, graph, target))
    options: Any = None
    try:
        options = target_options(target, with_files(target, request).options, request.option_place)
    except Refused as refused:
        refusals += refused.refusals
    try:
        binding = binding or bind_request(manager, graph, request)
    except Refused as refused:
        refusals += refused.refusals
    if binding is None or options is None:
        raise Refused(refusals)
    job = Job(graph, binding, options, request.hold)
    refusals += target.refusals(job)
    if refusals:
        raise Refused(refusals)
    return target, job


def unspelled(manager: Manager, graph: Graph, target: Target) -> Iterable[Refusal]:
    """One refusal for each op of the program that the target does not spell, with every place that uses it, and one
    for each loop that no op computes."""
    places: dict[str, list[Place]] = {}
    for node in graph.nodes:
        if node.op.block is not None:
            yield _novel_loop(manager, node, target)
        elif node.op.name not in target.spells:
            places.setdefault(node.op.name, []).append(node.span)
    for name, found in places.items():
        others = [other.name for other in manager.targets.values() if name in other.spells]
        who = f"spelled by the installed target {', '.join(others)}" if others else "no installed target spells it"
        what = f"target {target.name} does not spell the op {name} ({who})"
        next_ = f"use what {target.name} spells: {', '.join(sorted(target.spells))}"
        if others:
            next_ = f"build for {' or '.join(others)}, or {next_}"
        yield Refusal("op-not-spelled", what, found[0], next_, tuple(found[1:]))


def _novel_loop(manager: Manager, node: Node, target: Target) -> Refusal:
    assert node.op.block is not None
    values = (*node.inputs, *node.results)
    tensors = {value.name: Tensor(value.rows, value.columns, value.real) for value in values}
    near = nearest_op(node.op.block, tensors, manager.ops)
    what = f"target {target.name} does not take a loop that no op computes"
    next_ = "write what the loop computes as sentences; the reference machine runs it as it is"
    if near is not None:
        differs = f"line {near.line} is the first that differs"
        if near.line is None:
            differs = "its lines agree, but not the shapes or types, or it reads or sets in part what the op makes"
        what += f": the nearest op is {near.op}, and {differs}"
        next_ = f"`logos explain {near.op}` shows the loops of {near.op}; or {next_}"
    return Refusal("novel-loop", what, node.span, next_)


def with_files(target: Target, request: Request) -> Request:
    """The request with the files that its options name as paths from here."""
    kinds = typing.get_type_hints(target.options)
    options = {
        key: request.option_folder(key) / value
        if isinstance(value, str) and value != "none" and _names_file(kinds.get(key))
        else value
        for key, value in request.options.items()
    }
    return replace(request, options=options)


def _names_file(kind: Any) -> bool:
    return Source in (kind, *typing.get_args(kind))


def target_options(target: Target, given: Mapping[str, object], place: Callable[[str], Place]) -> Any:
    """An instance of the target's options. Text (from `-D`) is read as the field's type: bool, int, float, str, one of
    a Literal, or a tuple of those (comma-separated). A file (`Source`) is read. Refused: an unknown key
    (`unknown-option`, with the nearest), a value of another type (`option-type`), a file that cannot be read
    (`unreadable-file`, `not-utf-8`)."""
    kinds = typing.get_type_hints(target.options)
    names = [one.name for one in dataclasses.fields(target.options)]
    refusals, values = [], {}
    for key, value in given.items():
        if key not in names:
            what = f"target {target.name} has no option {key}{suggestion(key, names)}"
            refusals.append(Refusal("unknown-option", what, place(key), f"its options: {', '.join(names) or 'none'}"))
            continue
        try:
            values[key] = _convert(value, kinds[key])
        except OSError as error:
            what = f"cannot read {value}, which option {key} of target {target.name} names: {error.strerror or error}"
            refusals.append(Refusal("unreadable-file", what, place(key), "name a file that exists and may be read"))
        except Refused as refused:
            refusals += [replace(one, next="save the file as UTF-8") for one in refused.refusals]
        except ValueError as error:
            what = f"option {key} of target {target.name} is {value!r}; {error}"
            refusals.append(Refusal("option-type", what, place(key), "write a value of that kind"))
    if refusals:
        raise Refused(refusals)
    return target.options(**values)


_WORDS = {"true": True, "false": False}


def _convert(value: object, kind: Any) -> object:
    """A value as a field's type; ValueError says what is due."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        if value not in arguments:
            raise ValueError(f"one of {', '.join(map(str, arguments))} is due")
        return value
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        return None if value is None or value == "none" else _convert(value, inner[0])
    if kind is Source and isinstance(value, (str, Path)):
        return source_from_bytes(str(value), Path(value).read_bytes())
    if origin is tuple:
        return _convert_tuple(value, arguments[0])
    if kind is bool and isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if kind in (int, float) and isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            pass
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is kind:
        return value
    raise ValueError(f"{_KINDS.get(kind, kind)} is due")


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Source: "the path of a file"}


def _convert_tuple(value: object, kind: Any) -> tuple[object, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError("a list is due")
    return tuple(_convert(one, kind) for one in value)
