"""Every leaf's value for a run: from its source, from `--set`, or filled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from logos.memory import room_for
from logos.refusal import Refusal, Refused
from logos.weights.binding import Binding, Bound, Role
from logos.weights.fill import FillKind, fill
from logos.weights.values import leaf_array, leaf_values

_NAMED = 3
"""Leaves that a message names and shows; of more it says how many."""

_NEXT = {
    Role.INPUT: "give it with --set {name}=VALUE, or fill everything without a value with --fill noise",
    Role.WEIGHT: "give --checkpoint FILE or --weights DIR, or fill everything without a value with --fill noise",
    Role.TABLE: "give --checkpoint FILE or --weights DIR, or fill everything without a value with --fill noise",
}


def run_values(
    binding: Binding, given: Mapping[str, NDArray[Any]], kind: FillKind | None, fed: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """The value of every leaf, in the program's shape (float64 or int64); of the states, those given alone.

    `given` stands before every other source; `kind` fills what has no value; names of `fed` come with each step and
    are left out. Refused: leaves without a value, all in one report (`no-value-given`), one that memory does not take
    (`too-large-for-memory`).
    """
    values: dict[str, NDArray[Any]] = {}
    lost: list[Bound] = []
    for bound in binding.leaves:
        if bound.name not in given and (bound.role is Role.STATE or bound.name in fed):
            continue
        with room_for(bound.leaf.value, bound.leaf.span):
            array = leaf_array(binding, bound, given)
            if array is None and kind is not None:
                array = fill(binding.graph, bound.leaf, kind)
        if array is None:
            lost.append(bound)
        else:
            values[bound.name] = array
    if lost:
        raise Refused(_without_value(lost))
    return values


def check_values(binding: Binding, fed: Collection[str]) -> None:
    """Refuses as `run_values` does what has no value, and reads none."""
    stored = (bound for bound in binding.leaves if bound.role is not Role.STATE and bound.name not in fed)
    if lost := [bound for bound in stored if leaf_values(binding, bound) is None]:
        raise Refused(_without_value(lost))


def _without_value(lost: Sequence[Bound]) -> list[Refusal]:
    """One refusal for all leaves that the same advice gives their values."""
    groups: dict[str, list[Bound]] = {}
    for bound in lost:
        groups.setdefault(_NEXT[bound.role].format(name=bound.name), []).append(bound)
    return [_no_value(group, next_) for next_, group in groups.items()]


def _no_value(group: Sequence[Bound], next_: str) -> Refusal:
    roles: dict[str, list[str]] = {}
    for bound in group:
        roles.setdefault(bound.role.value, []).append(bound.name)
    what = f"{' and '.join(map(_named, roles, roles.values()))} {'has' if len(group) == 1 else 'have'} no value"
    first, *rest = (bound.leaf.span for bound in group)
    return Refusal("no-value-given", what, first, next_, tuple(rest), _NAMED - 1)


def _named(role: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the {role} {names[0]}"
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"the {role}s {', '.join(names[:_NAMED])}{more}"
