"""The steps of an artifact: which command makes which files from which."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logos.extraction import weight_file as all_weights
from logos.hookspecs import Artifact, Job, Recording, Rule, Steps, WeightFile
from logos.inputs import Inputs
from logos.job import Request
from logos.recording import recorded_recipe
from logos.selection import Order
from logos.weights.recipe import recipe_record


@dataclass(frozen=True)
class Step:
    """One edge of the build: paths are absolute.

    `inputs` are the files that it is made from. A step of LOGOS itself is due when its `record` changes, a file that
    planning writes: it says all that decides the outputs, so a file touched or changed without a change of them makes
    nothing again. `after` are files that must be there first. `digests` are the SHA-256 of outputs where planning
    knows them. `arguments` follow `logos RULE`; `title` names the step to a person. Of `long` steps one runs at a time.
    """

    rule: str
    title: str
    outputs: tuple[Path, ...]
    inputs: tuple[Path, ...] = ()
    record: Path | None = None
    after: tuple[Path, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[Path, str] = field(default_factory=dict)
    long: bool = False


_LONG = 16 << 20
"""Bytes of weights, as float32, from which on their extraction waits for the disk longer than for Python's start."""


def absolute(path: Path) -> Path:
    """A path that holds wherever a step runs; links stay as they are."""
    return Path(os.path.abspath(path))


def author_step(order: Order, text: str, files: Sequence[Path], record: Path) -> Step:
    """Writes the program, whose text this is, from its checkpoint, which is in these files."""
    author, program = order.author, absolute(order.request.program)
    assert author is not None
    checkpoint = absolute(author.checkpoint)
    arguments = [os.fspath(checkpoint), "-o", os.fspath(program), "-q"]
    for flag, count in (("--context", author.context), ("--layers", author.layers)):
        arguments += [flag, str(count)] if count is not None else []
    arguments += ["--family", order.request.family] if order.request.family else []
    return Step(
        "author",
        f"author {order.name}",
        (program,),
        inputs=tuple(map(absolute, files)),
        record=record,
        arguments=tuple(arguments),
        digests={program: text_digest(text)},
    )


def emit_step(order: Order, artifacts: Sequence[Artifact], inputs: Sequence[Path], record: Path) -> Step:
    """Writes the artifact's text files."""
    digests = {absolute(order.folder / artifact.path): text_digest(artifact.text) for artifact in artifacts}
    program = absolute(order.request.program)
    return Step(
        "emit",
        f"emit {order.title}",
        tuple(digests),
        inputs=(program, *inputs),
        record=record,
        after=_authored(order),
        arguments=(*_request_arguments(order), "-q"),
        digests=digests,
    )


def extract_step(order: Order, job: Job, weight_file: WeightFile, inputs: Sequence[Path], record: Path) -> Step:
    """Writes one weight file. Many small ones are written at once, and silently: each shows its progress on the one
    terminal."""
    long = 4 * sum(job.binding[entry.variable].leaf.value.size for entry in weight_file.entries) >= _LONG
    return Step(
        "extract",
        f"extract {weight_file.path} of {order.title}",
        tuple(absolute(order.folder / path) for path in weight_file.paths),
        inputs=(absolute(order.request.program), *inputs),
        record=record,
        after=_authored(order),
        arguments=(*_request_arguments(order), "--file", weight_file.path, *([] if long else ["-q"])),
        long=long,
    )


def recording_step(order: Order, recording: Recording, inputs: Sequence[Path], record: Path) -> Step:
    """Makes one recording."""
    return Step(
        "extract",
        f"record {recording.path} of {order.title}",
        (absolute(order.folder / recording.path),),
        inputs=(absolute(order.request.program), *inputs),
        record=record,
        after=_authored(order),
        arguments=(*_request_arguments(order), "--file", recording.path),
        long=True,
    )


def _authored(order: Order) -> tuple[Path, ...]:
    return (absolute(order.request.program),) if order.author is not None else ()


def target_steps(order: Order, following: Steps) -> list[Step]:
    """The target's own edges, their paths in the artifact's folder."""
    rules = {rule.name: rule for rule in following.rules}
    return [
        Step(
            rule_name(order.target, rules[edge.rule]),
            f"{edge.rule} {edge.outputs[0]} of {order.title}",
            tuple(absolute(order.folder / path) for path in edge.outputs),
            tuple(absolute(order.folder / path) for path in edge.inputs),
            variables=edge.variables,
        )
        for edge in following.edges
    ]


def rule_name(target: str, rule: Rule) -> str:
    """A target's rule as build.ninja names it: two targets may each have a rule of one name, and one target's rule may
    have another command for another program."""
    command = hashlib.sha256(repr((rule.command, rule.pool, rule.depfile)).encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{target}.{rule.name}.{command}")


def text_digest(text: str) -> str:
    """The SHA-256 of a text's bytes in a file."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def text_record(texts: Mapping[str, str]) -> str:
    """What a step is to write, by path: the digests of its texts, so that it runs whenever one of them changes, for
    whatever reason (an upgraded plugin, a file that appears in a weight folder with an old time)."""
    return _json({path: text_digest(text) for path, text in texts.items()})


def extraction_record(job: Job, weight_file: WeightFile, inputs: Inputs, readers: Iterable[str]) -> str:
    """What decides a weight file's bytes: the recipe, the contents of the files that it is read from, and the code of
    the modules that read and compute it (`readers`, beside LOGOS's own).

    A program changed in its operations alone, an option that says nothing of weights, a file that was touched extract
    nothing again.
    """
    sources = {os.path.abspath(path): inputs.digest(path) for path in extraction_sources(job, weight_file)}
    code = inputs.code(["logos", *readers], _reads_weights)
    return _json({**recipe_record(job.binding, weight_file), "sources": sources, "code": code})


def recording_record(job: Job, recording: Recording, inputs: Inputs, readers: Iterable[str]) -> str:
    """What decides a recording's bytes: the program, where its weights come from and what lies there, and the code of
    LOGOS, of the modules that read weights and of the ops."""
    sources = {os.path.abspath(path): inputs.digest(path) for path in recording_sources(job)}
    code = inputs.code(["logos", *readers, *(node.op.value.__module__ for node in job.graph.nodes)])
    return _json({**recorded_recipe(job.binding, recording), "sources": sources, "code": code})


def recording_sources(job: Job) -> tuple[Path, ...]:
    """The files that the program's weights come from."""
    return extraction_sources(job, all_weights(job.binding, "raw"))


def _reads_weights(file: Path) -> bool:
    """Of LOGOS itself, the weights' own modules; of a plugin that reads checkpoints, every one."""
    core = Path(__file__).parent
    return core not in file.parents or core / "weights" in file.parents


def extraction_sources(job: Job, weight_file: WeightFile) -> tuple[Path, ...]:
    """The checkpoint's files, where a value comes from it, and the weight folder's files that a weight file is read
    from."""
    bound = [job.binding[entry.variable] for entry in weight_file.entries]
    checkpoint = job.binding.checkpoint
    files = [one.file for one in bound if one.file is not None]
    if checkpoint is not None and any(one.view is not None and one.file is None for one in bound):
        files = [*checkpoint.files, *files]
    return tuple(dict.fromkeys(files))


def _json(record: object) -> str:
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _request_arguments(order: Order) -> list[str]:
    request = order.request
    arguments = [os.fspath(absolute(request.program)), "--target", order.target]
    arguments += ["--out", os.fspath(absolute(order.folder))]
    for flag, path in (("--checkpoint", request.checkpoint), ("--weights", request.weights)):
        arguments += [flag, os.fspath(absolute(path))] if path is not None else []
    arguments += ["--family", request.family] if request.family else []
    arguments += choices(replace(request, options=_whole(request.options)))
    for step in request.hold:
        arguments += ["--hold", step]
    return arguments


def _whole(options: Mapping[str, object]) -> dict[str, object]:
    """The options with the files that they name as paths that hold wherever a step runs."""
    return {key: absolute(value) if isinstance(value, Path) else value for key, value in options.items()}


def choices(request: Request) -> list[str]:
    """The request's `[weights]` and options as flags: `--tensor VARIABLE=TENSOR`, `-D KEY=VALUE`."""
    arguments = []
    for flag, pairs in (("--tensor", request.overrides), ("-D", _texts(request.options))):
        for key, value in pairs.items():
            arguments += [flag, f"{key}={value}"]
    return arguments


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options as `-D` takes them, in order of name, so that a reordered logos.toml is no change."""
    return {key: _text(options[key]) for key in sorted(options)}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)
