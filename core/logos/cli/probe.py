"""`logos probe`: small programs that find out what a target's tools do, to be run where those tools are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, one_target_option, quiet_option
from logos.cli.common import json_option, open_manager, target_options, verbose_option

if TYPE_CHECKING:
    from logos.hookspecs import ProbingTarget
    from logos.manager import Manager


@click.command()
@one_target_option
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The folder of the probes."
)
@target_options
@json_option
@quiet_option
@verbose_option
def command(target: str, out: Path, options: dict[str, str], as_json: bool, quiet: bool, verbose: bool) -> None:
    """Write a target's probes: small programs that find out, where its tools are, what these do with every spelling.

    LOGOS runs none of them. A file that would not change keeps its time.
    """
    from logos.artifacts import check_paths, write_artifacts
    from logos.job import Request, target_options, with_files

    made = probing(open_manager(verbose), target)
    request = with_files(made, Request(Path(), options=options))
    artifacts = made.probes(target_options(made, request.options, request.option_place))
    check_paths(made, [artifact.path for artifact in artifacts])
    count = changed = 0
    for path, written in write_artifacts(artifacts, out):
        count, changed = count + 1, changed + written
        if as_json:
            record = {"file": os.fspath(path), "bytes": path.stat().st_size, "changed": written}
            click.echo(json.dumps(record, ensure_ascii=False))
    if not as_json and not quiet:
        click.echo(f"{out}: {amount(count, 'file')}, {changed:,} of them changed")


def probing(manager: Manager, name: str) -> ProbingTarget:
    """The target of a name. Refused: one that has no probes (`no-probes`), with those that have."""
    from logos.hookspecs import ProbingTarget
    from logos.refusal import refuse
    from logos.source import Spot

    target = manager.target(name)
    if isinstance(target, ProbingTarget):
        return target
    others = [other.name for other in manager.targets.values() if isinstance(other, ProbingTarget)]
    what = f"the target {name} has no probes"
    next_ = f"probe a target that has: {', '.join(others)}" if others else "install a plugin whose target has some"
    raise refuse("no-probes", what, Spot(f"target {name}"), next_)
