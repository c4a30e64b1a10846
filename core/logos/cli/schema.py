"""`logos schema`: the JSON Schemas of what LOGOS reads and writes."""

from __future__ import annotations

import dataclasses
import json
import typing
from importlib.resources import files
from typing import Any

import click

from logos.cli.common import open_manager, verbose_option

NAMES = ("project", "manifest", "events")
"""The schemas, files of `logos/schemas`: logos.toml, an artifact's manifest.json, the lines that `--json` prints."""


@click.command()
@click.argument("name", type=click.Choice(NAMES), required=False)
@click.option("--path", "as_path", is_flag=True, help="Print where the file is, not what it says.")
@click.option("--installed", is_flag=True, help="Into `project`, the options of the targets installed here.")
@verbose_option
def command(name: str | None, as_path: bool, installed: bool, verbose: bool) -> None:
    """Print the JSON Schema of logos.toml (project), of an artifact's manifest.json (manifest) or of the lines that
    builds print with --json (events); without NAME, list them with their files."""
    folder = files("logos") / "schemas"
    if name is None:
        for each in NAMES:
            click.echo(f"{each}: {folder / f'{each}.json'}")
    elif as_path:
        click.echo(str(folder / f"{name}.json"))
    else:
        text = (folder / f"{name}.json").read_text("utf-8")
        click.echo(_with_options(text, verbose) if installed and name == "project" else text.rstrip("\n"))


def _with_options(text: str, verbose: bool) -> str:
    """The schema of logos.toml with a table for each installed target, and no other."""
    schema = json.loads(text)
    tables = {name: _table(target.options) for name, target in open_manager(verbose).targets.items()}
    schema["properties"]["target"] |= {"properties": tables, "additionalProperties": False}
    return json.dumps(schema, indent=1, ensure_ascii=False)


def _table(options: type[Any]) -> dict[str, Any]:
    kinds = typing.get_type_hints(options)
    properties = {field.name: _kind(kinds[field.name]) for field in dataclasses.fields(options)}
    return {"type": "object", "properties": properties, "additionalProperties": False}


_TEXTS: dict[type, dict[str, Any]] = {
    bool: {"enum": ["true", "false"]},
    int: {"type": "string", "pattern": "^[+-]?[0-9]+$"},
    float: {"type": "string", "pattern": "^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$"},
}
"""What LOGOS takes for a value as well: the text that `-D` would have."""


def _kind(kind: Any) -> dict[str, Any]:
    """A field's type as logos.toml gives it; a file is named by its path."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"anyOf": [{"type": "array", "items": _kind(arguments[0])}, {"type": "string"}]}
    if type(None) in arguments:
        return {"anyOf": [_kind(next(one for one in arguments if one is not type(None))), {"const": "none"}]}
    plain = {"type": {bool: "boolean", int: "integer", float: "number"}.get(kind, "string")}
    return {"anyOf": [plain, _TEXTS[kind]]} if kind in _TEXTS else plain
