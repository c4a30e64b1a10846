"""What a check of a target's contract found, beside its ops' numbers."""

from __future__ import annotations

from dataclasses import dataclass

from logos.job import Request, make_job
from logos.manager import Manager
from logos.refusal import Refused


@dataclass(frozen=True)
class Check:
    """One rule of the contract: what was tried, in words with their counts, and a line for everything that breaks it.
    `notes` say what could not be tried, and why."""

    name: str
    tried: str
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.faults


def takes(manager: Manager, target: str, request: Request) -> Refused | None:
    """What the target refuses of a request; None where it takes it."""
    try:
        make_job(manager, request, target)
    except Refused as refused:
        return refused
    return None


def counted(number: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
