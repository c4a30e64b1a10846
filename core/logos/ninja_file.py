"""build.ninja: a plan's steps as ninja's text. What reaches ninja or a shell is escaped here and nowhere else."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from ninja.ninja_syntax import Writer

from logos.plan import Plan
from logos.steps import Step

NINJA_VERSION = "1.13"
"""The first ninja that says a failed command's exit code."""

_PLAIN_PATH = re.compile(r"[^$ :|\n\0]+\Z")


def ninja_text(plan: Plan) -> str:
    """The whole build.ninja of a plan; ninja runs it in the folder that holds it."""
    buffer = io.StringIO()
    # A line that the writer breaks at a blank loses blanks that belong to a name, so it may break none.
    writer = Writer(cast(Any, buffer), width=sys.maxsize)
    writer.variable("ninja_required_version", NINJA_VERSION)
    writer.variable("builddir", ".")
    python = value(shell_words([sys.executable, "-m", "logos"]))
    for command in ("author", "emit"):
        writer.rule(command, f"{python} {command} $arguments", "$title", restat=True)
    # One extraction at a time: the disk is what they wait for, and each shows its progress on the one terminal.
    writer.pool("weights", 1)
    writer.rule("extract", f"{python} extract $arguments", "$title", pool="weights", restat=True)
    for rule in plan.rules:
        writer.rule(rule.name, rule.command, "$title", pool=rule.pool, restat=True)
    names = _Paths(writer)
    tools = {target: f"tools{number}" for number, target in enumerate(plan.tools)}
    for target, name in tools.items():
        writer.build([name], "phony", names.all(plan.tools[target]))
    for step in plan.steps:
        implicit = [*names.all(step.implicit), *([tools[step.tools]] if step.tools else [])]
        outputs, inputs, after = (names.all(paths) for paths in (step.outputs, step.inputs, step.after))
        writer.build(outputs, step.rule, inputs, implicit, after, _variables(step))
    return buffer.getvalue()


def _variables(step: Step) -> dict[str, str]:
    variables = {"title": value(step.title), **{key: value(text) for key, text in step.variables.items()}}
    return {**variables, "arguments": value(shell_words(step.arguments))} if step.arguments else variables


class _Paths:
    """Paths as `build` lines take them.

    A path with characters that end a path in ninja's grammar goes through a variable: the writer's own escaping of
    paths leaves a lone `$` and cannot say `|`.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.known: dict[str, str] = {}

    def all(self, paths: Iterable[Path]) -> list[str]:
        return [self.one(os.fspath(path)) for path in paths]

    def one(self, path: str) -> str:
        if _PLAIN_PATH.match(path):
            return path
        if path not in self.known:
            self.known[path] = f"path{len(self.known) + 1}"
            self.writer.variable(self.known[path], value(path))
        return f"${self.known[path]}"


def value(text: str) -> str:
    """Text as the value of a ninja variable. It holds no line break: what has one is refused before."""
    return text.replace("$", "$$")


def shell_words(words: Sequence[str]) -> str:
    """Words as one line for the shell that ninja starts."""
    return " ".join(shlex.quote(word) for word in words)
