"""An op's page."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from logos.manager import Manager
    from logos.refusal import Refused


def show_op(manager: Manager, name: str) -> None:
    """Prints an op's sentence, its shapes, what it writes, who spells it, its documentation, and its loops."""
    from logos.loops.forms import forms_of, own_loop
    from logos.loops.records import lines

    (op,) = [op for op in manager.ops if op.name == name]
    click.echo(f"{op.name}\n\n  {op.pattern.text}.\n")
    for rule in op.shapes:
        click.echo(f"  shapes: {rule.text}")
    for state in op.writes:
        click.echo(f"  writes: {state}")
    if op.rows is not None:
        click.echo(f"  many steps at once: a row a step of {', '.join(op.rows.holes)}")
    spellers = ["reference", *(target.name for target in manager.targets.values() if op.name in target.spells)]
    click.echo(f"  spelled by: {', '.join(spellers)}\n")
    click.echo(inspect.cleandoc(op.doc))
    forms = forms_of(op)
    if forms:
        click.echo("\nthe loops that it stands for" + (", every optional part said" if len(forms) > 1 else ""))
        for line in lines((own_loop(op, forms[0]),)):
            click.echo(f"  {line}")


def unknown_op(name: str, known: Iterable[str]) -> Refused:
    """The refusal of a name that is no op's."""
    from logos.near import suggestion
    from logos.refusal import refuse
    from logos.source import Spot

    what = f"there is no op {name}{suggestion(name, known)}"
    return refuse("unknown-op", what, Spot(f"op {name}"), "`logos ops` lists them")
