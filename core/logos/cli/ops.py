"""`logos ops`: the ops there are, which targets spell them, and an op's page."""

from __future__ import annotations

import inspect
import json

import click

from logos.cli.common import json_option, open_manager, verbose_option


@click.command()
@click.argument("name", nargs=-1)
@json_option
@verbose_option
def command(name: tuple[str, ...], as_json: bool, verbose: bool) -> None:
    """List the ops and which targets spell them, or show the page of the op NAME."""
    from logos.near import suggestion
    from logos.refusal import refuse
    from logos.source import Spot

    manager = open_manager(verbose)
    ops = {op.name: op for op in manager.ops}
    targets = list(manager.targets.values())
    wanted = " ".join(name)
    if wanted and wanted not in ops:
        what = f"there is no op {wanted}{suggestion(wanted, ops)}"
        raise refuse("unknown-op", what, Spot(f"op {wanted}"), "`logos ops` lists them")
    chosen = [ops[wanted]] if wanted else list(ops.values())
    if as_json:
        for op in chosen:
            spelled = [target.name for target in targets if op.name in target.spells]
            shapes = [rule.text for rule in op.shapes]
            record = {"op": op.name, "sentence": f"{op.pattern.text}.", "shapes": shapes, "writes": list(op.writes)}
            click.echo(json.dumps({**record, "targets": spelled, "doc": inspect.cleandoc(op.doc)}, ensure_ascii=False))
    elif wanted:
        op = chosen[0]
        click.echo(f"{op.name}\n\n  {op.pattern.text}.\n")
        for rule in op.shapes:
            click.echo(f"  shapes: {rule.text}")
        for state in op.writes:
            click.echo(f"  writes: {state}")
        spellers = ["reference", *(target.name for target in targets if op.name in target.spells)]
        click.echo(f"  spelled by: {', '.join(spellers)}\n")
        click.echo(inspect.cleandoc(op.doc))
    else:
        wide = max(map(len, ops))
        columns = ["reference", *(target.name for target in targets)]
        click.echo(f"{'op':<{wide}}  {'  '.join(columns)}  sentence")
        for op in chosen:
            marks = ["yes"] + ["yes" if op.name in target.spells else "no" for target in targets]
            cells = "  ".join(f"{mark:<{len(column)}}" for mark, column in zip(marks, columns, strict=True))
            click.echo(f"{op.name:<{wide}}  {cells}  {op.pattern.text}.")
