"""The checks of a target's contract, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from logos.conformance.checks import Check
from logos.conformance.fusing import check_fusion
from logos.conformance.names import check_names
from logos.conformance.refusing import check_refusals
from logos.conformance.repeating import check_determinism
from logos.conformance.report import OpReport
from logos.manager import Manager

CHECKS = ("fusion", "names", "determinism", "refusals")
"""What is checked beside the ops' numbers."""


def check_contract(
    manager: Manager,
    target_name: str,
    options: Mapping[str, object] | None = None,
    checks: Iterable[str] = CHECKS,
    ops: Sequence[OpReport] = (),
    seed: int = 0,
) -> Iterator[Check]:
    """Each check as it is done. `ops` are the reports of the ops, which the check of refusals looks through for what is
    accepted and not spelled. Refused: a host that the target cannot run on. Raises KeyError for an unknown check."""
    given = dict(options or {})
    made: dict[str, Callable[[], Check]] = {
        "fusion": lambda: check_fusion(manager, target_name, given),
        "names": lambda: check_names(manager, target_name, given, seed),
        "determinism": lambda: check_determinism(manager, target_name, given, seed),
        "refusals": lambda: check_refusals(manager, target_name, given, ops, seed),
    }
    for name in checks:
        yield made[name]()
