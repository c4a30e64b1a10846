"""build.ninja: a plan's steps as ninja's text. What reaches ninja or a shell is escaped here and nowhere else."""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ninja.ninja_syntax import Writer

from logos.memory import at_once
from logos.plan import Plan
from logos.steps import Step

NINJA_VERSION = "1.13"
"""The first ninja that says a failed command's exit code."""

_PLAIN_PATH = re.compile(r"[^$ :|\n\0]+\Z")


NAME = "build.ninja"
WEIGHTS = "weights"
"""The pool of long extractions and recordings."""
COMPILERS = "compilers"
"""The pool of tools that take much memory."""
_COMPILER = 2 << 30
RECONSIDER = "reconsider"
"""The rule by which build.ninja has itself written anew."""
_LOGOS = "logos"
_ONE_THREAD = "OPENBLAS_NUM_THREADS=1"
"""For numpy in steps that multiply nothing, or little: a thread for each core is made as it is loaded, which takes
longer than all that such a step computes."""


@dataclass(frozen=True)
class Preview:
    """What a build that is not carried out would find: steps whose record or outputs are not as they should be
    (`due`, by title), and outputs that such a step would leave as they are (`kept`)."""

    due: frozenset[str]
    kept: frozenset[Path]


def ninja_text(plan: Plan, again: Sequence[str] | None, preview: Preview | None = None) -> str:
    """The whole build.ninja of a plan; ninja runs it in the folder that holds it.

    `again` are the words that follow `logos` to have it written anew when something that the plan was made from
    changes. LOGOS's own rules are `generator` rules: their records say when they are due, not their command lines.
    """
    buffer = io.StringIO()
    # A line that the writer breaks at a blank loses blanks that belong to a name, so it may break none.
    writer = Writer(cast(Any, buffer), width=sys.maxsize)
    writer.variable("ninja_required_version", NINJA_VERSION)
    writer.variable("builddir", ".")
    python = value(shell_words([sys.executable, "-m", "logos"]))
    writer.variable(_LOGOS, f"{_ONE_THREAD} {python}")
    for command in ("author", "emit", "extract"):
        writer.rule(command, f"${_LOGOS} {command} $arguments", "$title", restat=True, generator=True)
    # One long extraction at a time: the disk is what they wait for, and each shows its progress on the one terminal.
    writer.pool(WEIGHTS, 1)
    if any(rule.pool == COMPILERS for rule in plan.rules):
        writer.pool(COMPILERS, at_once(_COMPILER))
    for rule in plan.rules:
        deps = "gcc" if rule.depfile is not None else None
        writer.rule(rule.name, rule.command, "$title", rule.depfile, pool=rule.pool, restat=True, deps=deps)
    names = _Paths(writer)
    if again is not None:
        writer.rule(RECONSIDER, f"{python} {value(shell_words(again))}", "plan the build", generator=True)
        read = names.all(path for path in dict.fromkeys((*plan.read, *plan.listed)) if path.exists())
        writer.build([NAME], RECONSIDER, implicit=read)
        # A file that has gone is no error of ninja's: the plan that follows says what is missing.
        writer.build(read, "phony")
    if preview is not None:
        writer.build([_ALWAYS], "phony")
    for number, step in enumerate(plan.steps):
        outputs: Sequence[Path] = step.outputs
        implicit = names.all([step.record]) if step.record is not None else []
        if preview is not None and step.title in preview.due:
            outputs = [path for path in outputs if path not in preview.kept]
            implicit = [_ALWAYS]
        writer.build(
            names.all(outputs) or [f"kept{number}"],
            step.rule,
            names.all(step.inputs) if step.record is None else None,
            implicit,
            names.all(step.after),
            {**_variables(step), **({_LOGOS: python} if step.long else {})},
            pool=WEIGHTS if step.long else None,
        )
    return buffer.getvalue()


_ALWAYS = "always"


def _variables(step: Step) -> dict[str, str]:
    variables = {"title": value(step.title), **{key: value(text) for key, text in step.variables.items()}}
    return {**variables, "arguments": value(shell_words(step.arguments))} if step.record is not None else variables


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
