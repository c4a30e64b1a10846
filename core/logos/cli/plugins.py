"""`logos plugins`: what is installed, and from where."""

from __future__ import annotations

import json

import click

from logos.cli.common import json_option, open_manager, verbose_option


@click.command()
@json_option
@verbose_option
def command(as_json: bool, verbose: bool) -> None:
    """List the installed plugins: their distributions and what they offer; and those left out, with the cause."""
    manager = open_manager(verbose)
    offers = {
        "targets": manager.offered("logos_targets"),
        "checkpoint formats": manager.offered("logos_checkpoints"),
        "families": manager.offered("logos_families"),
        "ops": manager.offered("logos_ops"),
    }
    for installed in manager.plugins:
        here = {kind: found[installed.plugin] for kind, found in offers.items() if found.get(installed.plugin)}
        if as_json:
            record = {"plugin": installed.plugin, "distribution": installed.distribution}
            click.echo(json.dumps({**record, "version": installed.version, "offers": here}))
            continue
        click.echo(f"{installed.plugin}  ({installed.distribution} {installed.version})")
        for kind, found in here.items():
            click.echo(f"  {kind}: {', '.join(found)}")
    if as_json:
        for problem in manager.problems:
            record = {"plugin": problem.plugin, "distribution": problem.distribution}
            click.echo(json.dumps({**record, "left_out": problem.cause}))
