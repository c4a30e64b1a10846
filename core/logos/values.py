"""Every leaf's value for a run: from its source, from `--set`, or filled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from logos.refusal import Refusal, Refused
from logos.weights.binding import Binding, Bound, Role
from logos.weights.fill import FillKind, fill
from logos.weights.values import leaf_array

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
    are left out. Refused, all in one report: leaves without a value (`no-value-given`).
    """
    values: dict[str, NDArray[Any]] = {}
    lost: list[Bound] = []
    for bound in binding.leaves:
        if bound.name not in given and (bound.role is Role.STATE or bound.name in fed):
            continue
        array = leaf_array(binding, bound, given)
        if array is None and kind is not None:
            array = fill(binding.graph, bound.leaf, kind)
        if array is None:
            lost.append(bound)
        else:
            values[bound.name] = array
    if lost:
        raise Refused([_no_value(bound) for bound in lost])
    return values


def _no_value(bound: Bound) -> Refusal:
    what = f"the {bound.role.value} {bound.name} has no value"
    return Refusal("no-value-given", what, bound.leaf.span, _NEXT[bound.role].format(name=bound.name))
