"""The real files below `emitted/`, read as text and by `ast`: what the emitter copies into an artifact."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

VENDOR_PYTHON = (3, 7)
"""The oldest Python of the vendor's: emitted files parse under its grammar."""


@dataclass(frozen=True, slots=True)
class Part:
    """A top-level function or class of an emitted file: its source, its parameters, and the parts that it uses."""

    name: str
    source: str
    parameters: tuple[str, ...]
    optional: frozenset[str]
    result: str | None
    uses: frozenset[str]


@cache
def text(name: str) -> str:
    """The whole text of `emitted/NAME`."""
    return (Path(__file__).parent / "emitted" / name).read_text(encoding="utf-8")


@cache
def parts(name: str) -> Mapping[str, Part]:
    """The top-level definitions of `emitted/NAME` in the file's order."""
    source = text(name)
    lines = source.split("\n")
    found = {}
    for node in ast.parse(source, feature_version=VENDOR_PYTHON).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            segment = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            found[node.name] = _part(node, segment)
    return MappingProxyType(found)


def body(name: str) -> str:
    """The text of `emitted/NAME` below its docstring and imports: definitions and constants."""
    lines = text(name).split("\n")
    last = max(number for number, line in enumerate(lines) if line.startswith(("import ", "from ")))
    if lines[last].endswith("("):
        last = lines.index(")", last)
    return "\n".join(lines[last + 1 :]).strip("\n") + "\n"


@cache
def helpers(operators: str) -> Mapping[str, Part]:
    """The torch helpers of `listed`, alternatives included, or `plain`, which takes from the first spellings what it
    does not spell anew."""
    first = parts("torch_helpers.py")
    return {**first, **parts("alternative_helpers.py" if operators == "listed" else "plain_helpers.py")}


@cache
def step_helpers(operators: str) -> Mapping[str, Part]:
    """The helpers, and besides those of many steps at once."""
    return {**helpers(operators), **parts("rows_helpers.py")}


def closure(wanted: Iterable[str], pool: Mapping[str, Part]) -> tuple[Part, ...]:
    """The wanted parts and all that they use, in the pool's order."""
    needed: set[str] = set()
    queue = list(wanted)
    while queue:
        name = queue.pop()
        if name in pool and name not in needed:
            needed.add(name)
            queue.extend(pool[name].uses)
    return tuple(part for name, part in pool.items() if name in needed)


@cache
def digest(helper: str) -> str:
    """16 hex digits of the text that a listed spelling comes with: a finding is one about this text."""
    whole = "\n".join(part.source for part in closure([helper], helpers("listed")))
    return hashlib.sha256(whole.encode("utf-8")).hexdigest()[:16]


def _part(node: ast.FunctionDef | ast.ClassDef, segment: str) -> Part:
    uses = frozenset(item.id for item in ast.walk(node) if isinstance(item, ast.Name)) - {node.name}
    if isinstance(node, ast.ClassDef):
        return Part(node.name, segment, (), frozenset(), None, uses)
    parameters = tuple(argument.arg for argument in node.args.args)
    optional = frozenset(parameters[len(parameters) - len(node.args.defaults) :])
    last = node.body[-1]
    alone = len(node.body) == 1 and isinstance(last, ast.Return) and last.value is not None
    result = ast.unparse(last.value) if alone and isinstance(last, ast.Return) and last.value is not None else None
    return Part(node.name, segment, parameters, optional, result, uses)
