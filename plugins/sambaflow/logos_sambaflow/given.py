"""What the commands of an artifact's page give the program's inputs, so that each can be run as it stands there."""

from __future__ import annotations

from logos import Leaf, Role
from logos_sambaflow.layout import Layout

_STEPS = 3


def given_inputs(layout: Layout, tokens: str = "") -> str:
    """The arguments that give every input a value, a blank ahead of each. Row numbers lie in their tables; `tokens`
    are those of `--tokens`, by default a few that every table has rows for."""
    inputs, rows = layout.leaves(Role.INPUT), _rows(layout)
    fed = [leaf.name for leaf in inputs if _is_fed(leaf)]
    if "tok" not in fed:
        fed = []
    arguments = [f"--tokens {tokens or _ids(rows)}"] if fed else []
    for leaf in inputs:
        if leaf.name not in fed:
            arguments.append(f"--set {leaf.name}={min(1, rows.get(leaf.name, 2) - 1)}")
    return "".join(f" {argument}" for argument in arguments)


def _rows(layout: Layout) -> dict[str, int]:
    """For each leaf that is a row number, the rows of the smallest of its tables."""
    found: dict[str, int] = {}
    for name, _, rows in layout.checks:
        found[name] = min(rows, found.get(name, rows))
    return found


def _is_fed(leaf: Leaf) -> bool:
    return leaf.name in ("tok", "pos") and leaf.value.shape == (1, 1) and not leaf.value.real


def _ids(rows: dict[str, int]) -> str:
    steps, last = min(_STEPS, rows.get("pos", _STEPS)), rows.get("tok", _STEPS + 1) - 1
    return ",".join(str(min(number, last)) for number in range(1, steps + 1))
