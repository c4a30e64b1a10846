"""A refusal: one thing that LOGOS will not do, said in the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from logos.source import Place, printable

_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused thing.

    `code` is stable and kebab-case; `what` says what is wrong in the program's own words; `where` is the place
    (a span of a source with its line and carets, a key of logos.toml, a tensor in a file) or None; `next` says what
    to do; `also` lists further places of the same fault, of which the text shows the first `shown` (None: all) and
    counts the rest.
    """

    code: str
    what: str
    where: Place | None
    next: str
    also: tuple[Place, ...] = ()
    shown: int | None = None

    def __post_init__(self) -> None:
        if not _CODE.match(self.code):
            raise ValueError(f"refusal code {self.code!r} is not kebab-case")

    def text(self) -> str:
        """The whole message, several lines without a trailing newline; control characters show as `?`."""
        head = f"{printable(self.where.label())}: " if self.where is not None else ""
        lines = [f"{head}{self.what} [{self.code}]"]
        if self.where is not None:
            lines += [f"    {line}" for line in self.where.excerpt()]
        for place in self.also[: self.shown]:
            lines.append(f"  also {printable(place.label())}")
            lines += [f"    {line}" for line in place.excerpt()]
        more = len(self.also) - len(self.also[: self.shown])
        if more:
            lines.append(f"  also at {more:,} more {'place' if more == 1 else 'places'}")
        lines.append(f"  next: {self.next}")
        return "\n".join(printable(line) for line in "\n".join(lines).split("\n"))

    def record(self) -> dict[str, object]:
        """The message as data, for `--json`."""
        return {
            "refusal": self.code,
            "what": self.what,
            "where": self.where.label() if self.where else None,
            "also": [place.label() for place in self.also],
            "next": self.next,
        }


class Refused(Exception):
    """Raised with every refusal found; `refusals` is never empty."""

    def __init__(self, refusals: Refusal | Iterable[Refusal]) -> None:
        found = (refusals,) if isinstance(refusals, Refusal) else tuple(refusals)
        if not found:
            raise ValueError("Refused needs at least one refusal")
        self.refusals: tuple[Refusal, ...] = found
        super().__init__("\n".join(refusal.text() for refusal in found))


def refuse(code: str, what: str, where: Place | None, next: str) -> Refused:
    """The exception for a single refusal: `raise refuse(…)`."""
    return Refused(Refusal(code, what, where, next))
