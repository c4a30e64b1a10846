"""`logos ops`: the ops there are, which targets spell them, and an op's page."""

from __future__ import annotations

import inspect
import json

import click

from logos.cli.common import json_option, open_manager, verbose_option
from logos.cli.op_page import show_op, unknown_op


@click.command()
@click.argument("name", nargs=-1)
@json_option
@verbose_option
def command(name: tuple[str, ...], as_json: bool, verbose: bool) -> None:
    """List the ops and which targets spell them, or show the page of the op NAME."""
    manager = open_manager(verbose)
    ops = {op.name: op for op in manager.ops}
    targets = list(manager.targets.values())
    wanted = " ".join(name)
    if wanted and wanted not in ops:
        raise unknown_op(wanted, ops)
    chosen = [ops[wanted]] if wanted else list(ops.values())
    if as_json:
        for op in chosen:
            spelled = [target.name for target in targets if op.name in target.spells]
            shapes = [rule.text for rule in op.shapes]
            record = {"op": op.name, "sentence": f"{op.pattern.text}.", "shapes": shapes, "writes": list(op.writes)}
            click.echo(json.dumps({**record, "targets": spelled, "doc": inspect.cleandoc(op.doc)}, ensure_ascii=False))
    elif wanted:
        show_op(manager, wanted)
    else:
        wide = max(map(len, ops))
        columns = ["reference", *(target.name for target in targets)]
        click.echo(f"{'op':<{wide}}  {'  '.join(columns)}  sentence")
        for op in chosen:
            marks = ["yes"] + ["yes" if op.name in target.spells else "no" for target in targets]
            cells = "  ".join(f"{mark:<{len(column)}}" for mark, column in zip(marks, columns, strict=True))
            click.echo(f"{op.name:<{wide}}  {cells}  {op.pattern.text}.")
