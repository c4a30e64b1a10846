"""`--prefill`: how many of a prompt's tokens the reference machine takes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from logos.source import printable

if TYPE_CHECKING:
    from logos.graph import Graph
    from logos.prefill import Prefill
    from logos.refusal import Refusal

STEPS = 128
"""At once unless asked otherwise: for a model of 135 million weights, half as many are a seventh slower and twice as
many no faster."""

_MOST = 2**16
_NAMED = 3
"""Reasons that the line about single steps gives; of more it says how many."""


def _steps(value: str | None) -> int | None:
    if value is None:
        return None
    if value == "off":
        return 1
    if not (value.isascii() and value.isdigit() and len(value) < 9 and 1 <= int(value) <= _MOST):
        raise click.BadParameter(f"{value!r} is neither off nor a count from 1 to {_MOST}", param_hint="--prefill")
    return int(value)


prefill_option = click.option(
    "--prefill", metavar="T|off", callback=lambda c, p, value: _steps(value),
    help=f"Take T tokens of the prompt at once on the reference machine, or one [{STEPS}].",
)  # fmt: skip


def prefill_of(
    graph: Graph, tokens: Sequence[int], steps: int | None, rows: Sequence[str], last: Sequence[str], quiet: bool
) -> Prefill | None:
    """What takes the prompt's tokens many at once; None where they go one by one, with a line to standard error where
    the program is why. `rows` are the taps wanted at every step, `last` at the last."""
    from logos.prefill import Prefill
    from logos.refusal import Refused

    count = min(STEPS if steps is None else steps, len(tokens))
    if count < 2:
        return None
    try:
        return Prefill(graph, count, rows, last)
    except Refused as refused:
        if not quiet:
            reasons = [_reason(refusal) for refusal in refused.refusals]
            more = f"; and {len(reasons) - _NAMED} more reasons" if len(reasons) > _NAMED else ""
            click.echo(f"the prompt goes token by token: {'; '.join(reasons[:_NAMED])}{more}", err=True)
        return None


def _reason(refusal: Refusal) -> str:
    """What, with every place, on one line."""
    places = [place.label() for place in (refusal.where, *refusal.also) if place is not None]
    return printable(f"{refusal.what} ({', '.join(places)})")
