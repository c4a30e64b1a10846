"""`logos targets`: what a program can be built for."""

from __future__ import annotations

import dataclasses
import json

import click

from logos.cli.common import json_option, open_manager, verbose_option


@click.command()
@json_option
@verbose_option
def command(as_json: bool, verbose: bool) -> None:
    """List the installed targets: the ops they spell, the weight storage they take, their options."""
    manager = open_manager(verbose)
    total = len(manager.ops)
    if not manager.targets and not as_json:
        click.echo("no target is installed")
    for target in manager.targets.values():
        options = {field.name: _default(field) for field in dataclasses.fields(target.options)}
        missing = sorted(op.name for op in manager.ops if op.name not in target.spells)
        if as_json:
            record = {"target": target.name, "api": target.api, "spells": sorted(target.spells)}
            click.echo(json.dumps({**record, "stores": list(target.stores), "options": options}, default=str))
            continue
        left_out = "; not " + ", ".join(missing) if missing else ""
        click.echo(target.name)
        click.echo(f"  spells {total - len(missing)} of {total} ops{left_out}")
        click.echo(f"  stores weights as {', '.join(target.stores)}")
        click.echo(f"  options: {', '.join(f'{name} = {value}' for name, value in options.items()) or 'none'}")


def _default(field: dataclasses.Field[object]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None
