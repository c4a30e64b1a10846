"""The public names with what a plugin can rely on: members, fields, arguments. `python tests/public_names.py --write`
pins them in public_names.txt."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import logos
from logos.hookspecs import Specs

PINNED = Path(__file__).with_name("public_names.txt")


def described() -> str:
    """A line for each hook and each public name, and one for each member of a class."""
    hooks = [f"hook {name}({arguments(getattr(Specs, name))})" for name in dir(Specs) if name.startswith("logos_")]
    lines = [line for name in logos.__all__ for line in lines_of(name, getattr(logos, name))]
    return "\n".join([f"API {logos.API}", *hooks, *lines, ""])


def lines_of(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        called = callable(value) and hasattr(value, "__code__")
        yield f"{name}({arguments(value)})" if called else f"{name}: {kind_of(value)}"
        return
    if issubclass(value, enum.Enum):
        yield f"class {name}: {', '.join(value.__members__)}"
        return
    yield f"class {name}({arguments(value.__init__)})" if dataclasses.is_dataclass(value) else f"class {name}"
    for member in members(value):
        found = inspect.getattr_static(value, member, None)
        plain = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
        is_method = inspect.isfunction(plain)
        yield f"  {member}({arguments(plain)})" if is_method else f"  {member}"


def members(value: type) -> list[str]:
    """The fields and methods that a class and its bases declare."""
    found: dict[str, None] = {}
    for base in reversed(value.__mro__):
        if base.__module__.partition(".")[0] == "logos":
            found |= dict.fromkeys([*inspect.get_annotations(base), *base.__dict__])
    return [name for name in found if not name.startswith("_")]


def arguments(function: Any) -> str:
    """The arguments, with their defaults, without their types: those are prose to a plugin, and differ by Python."""
    parts = []
    for one in inspect.signature(function).parameters.values():
        if one.name == "self":
            continue
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f"={short(one.default)}"
        parts.append(f"{star}{one.name}{default}")
    return ", ".join(parts)


def short(value: Any) -> str:
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "…"
    return text


def kind_of(value: Any) -> str:
    return type(value).__name__ if type(value).__module__ in ("builtins", "types") else "object"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PINNED.write_text(described(), "utf-8")
    else:
        print(described(), end="")
