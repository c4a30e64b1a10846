"""The steps of an artifact: which command makes which files from which."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from logos.hookspecs import Artifact, Job, Rule, Steps, WeightFile
from logos.selection import Order
from logos.weights.recipe import recipe_record


@dataclass(frozen=True)
class Step:
    """One edge of the build: paths are absolute.

    `inputs` are what ninja hands the command of a target's own rule; `implicit` are further files it is made from;
    `after` are files that must be there and whose change alone makes nothing again.
    `tools` names the target whose own source files decide what is made. `arguments` follow `logos RULE`; `title` names
    the step to a person.
    """

    rule: str
    title: str
    outputs: tuple[Path, ...]
    inputs: tuple[Path, ...] = ()
    implicit: tuple[Path, ...] = ()
    after: tuple[Path, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    tools: str | None = None


def absolute(path: Path) -> Path:
    """A path that holds wherever a step runs; links stay as they are."""
    return Path(os.path.abspath(path))


def author_step(order: Order) -> Step:
    """Writes the program from its checkpoint."""
    author, program = order.author, absolute(order.request.program)
    assert author is not None
    checkpoint = absolute(author.checkpoint)
    arguments = [os.fspath(checkpoint), "-o", os.fspath(program), "-q"]
    for flag, count in (("--context", author.context), ("--layers", author.layers)):
        arguments += [flag, str(count)] if count is not None else []
    arguments += ["--family", order.request.family] if order.request.family else []
    return Step("author", f"author {order.name}", (program,), implicit=(checkpoint,), arguments=tuple(arguments))


def emit_step(order: Order, artifacts: Sequence[Artifact], inputs: Sequence[Path]) -> Step:
    """Writes the artifact's text files."""
    outputs = tuple(absolute(order.folder / artifact.path) for artifact in artifacts)
    arguments = (*_request_arguments(order), "-q")
    return Step("emit", f"emit {order.title}", outputs, implicit=tuple(inputs), arguments=arguments, tools=order.target)


def extract_step(order: Order, weight_file: WeightFile, inputs: Sequence[Path]) -> Step:
    """Writes one weight file."""
    outputs = tuple(absolute(order.folder / path) for path in weight_file.paths)
    arguments = (*_request_arguments(order), "--file", weight_file.path)
    title = f"extract {weight_file.path} of {order.title}"
    program = (absolute(order.request.program),)
    return Step("extract", title, outputs, implicit=tuple(inputs), after=program, arguments=arguments)


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
    command = hashlib.sha256(repr((rule.command, rule.pool)).encode()).hexdigest()[:8]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{target}.{rule.name}.{command}")


def emission_record(artifacts: Sequence[Artifact]) -> str:
    """What emission is to write, as text: an input of the step, so that it runs whenever that changes, for whatever
    reason (a file that appears in a weight folder with an old time, for one)."""
    digests = {artifact.path: hashlib.sha256(artifact.text.encode()).hexdigest() for artifact in artifacts}
    return json.dumps(digests, indent=1, ensure_ascii=False) + "\n"


def extraction_record(job: Job, weight_file: WeightFile) -> str:
    """What decides a weight file's bytes beside the files that it is read from, as text.

    It stands for the program among the extraction's inputs: a program changed in its operations alone extracts
    nothing again.
    """
    return json.dumps(recipe_record(job.binding, weight_file), indent=1, ensure_ascii=False) + "\n"


def _request_arguments(order: Order) -> list[str]:
    request = order.request
    arguments = [os.fspath(absolute(request.program)), "--target", order.target]
    arguments += ["--out", os.fspath(absolute(order.folder))]
    for flag, path in (("--checkpoint", request.checkpoint), ("--weights", request.weights)):
        arguments += [flag, os.fspath(absolute(path))] if path is not None else []
    arguments += ["--family", request.family] if request.family else []
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
