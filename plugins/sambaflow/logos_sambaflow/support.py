"""support.toml: what the probes found on a machine that has the vendor's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from logos import Place, Refused, Source, Toml, read_toml, refuse, suggestion
from logos_sambaflow.parts import digest

SCHEMA = "logos.sambaflow.support"
VERSION = 1
"""Raised when a key changes its meaning or goes."""

VERIFIED, FALLS_BACK, WRONG, FAILED = FINDINGS = ("verified", "falls back", "wrong", "failed")
DTYPES = ("float32", "bfloat16", "int32", "int64")

_TOP: Mapping[str, type | tuple[type, ...]] = {
    "schema": str, "version": int, "generator": str, "arguments": list, "machine": dict, "spelling": dict,
    "operator": dict,
}  # fmt: skip
_FINDING: Mapping[str, type | tuple[type, ...]] = {
    "op": str, "digest": str, "finding": str, "compiled": bool, "fell_back": bool, "difference": (int, float),
    "bound": (int, float), "seconds": (int, float), "log": str, "message": str,
}  # fmt: skip
_KINDS = {str: "a string", int: "an integer", list: "an array", dict: "a table", bool: "true or false"}
_LONGEST = 300
"""Characters of a log's line or a message: the runner writes no more."""
_AGAIN = "write it with run_probes.py of this LOGOS's `logos probe`"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found: one of FINDINGS; how far the values lay from what is due and how far they may, where they
    were compared; the log's line of a fallback, the message of a failure; of a spelling, the digest of its text."""

    finding: str
    difference: float | None = None
    bound: float | None = None
    log: str = ""
    message: str = ""
    digest: str = ""

    def text(self) -> str:
        """A predicate: `falls back ("…")`, `is wrong by 0.0099 (bound 0.0001)`, `failed ("…")`, `is verified`."""
        if self.finding == WRONG and self.difference is not None and self.bound is not None:
            return f"is wrong by {self.difference:.3g} (bound {self.bound:.3g})"
        said = {FALLS_BACK: self.log, FAILED: self.message}.get(self.finding)
        verb = self.finding if self.finding in (FALLS_BACK, FAILED) else f"is {self.finding}"
        return f'{verb} ("{said}")' if said else verb

    def record(self) -> dict[str, object]:
        """The finding for the manifest; JSON has no infinite number."""
        record: dict[str, object] = {"support": self.finding}
        if self.difference is not None and self.bound is not None:
            finite = self.difference < float("inf")
            record |= {"difference": self.difference if finite else "inf", "bound": self.bound}
        said = self.log or self.message
        return record | {"said": said} if said else record


@dataclass(frozen=True)
class Support:
    """The findings by (name, dtype)."""

    spellings: Mapping[tuple[str, str], Finding]
    operators: Mapping[tuple[str, str], Finding]

    def spelling(self, helper: str, dtype: str) -> Finding | None:
        """The finding of a spelling in a dtype; None where it was not probed, or when its text was another one."""
        found = self.spellings.get((helper, dtype))
        return found if found is not None and found.digest == digest(helper) else None

    def operator(self, name: str, dtypes: tuple[str, ...]) -> Finding | None:
        """The worst finding of a torch operator among those in some dtypes; None where it was probed in none."""
        found = [self.operators[name, dtype] for dtype in dtypes if (name, dtype) in self.operators]
        return max(found, key=lambda one: FINDINGS.index(one.finding), default=None)

    def verified(self, name: str, dtype: str) -> bool:
        """Whether a torch operator was found to be right in a dtype."""
        found = self.operators.get((name, dtype))
        return found is not None and found.finding == VERIFIED


NOTHING = Support({}, {})
"""Where no probe was run."""


@cache
def read_support(source: Source) -> Support:
    """The findings of a support.toml. Refused: text that is no TOML (`bad-toml`), another schema or version, or a key
    that does not hold what it should (`bad-support`), at its line."""
    toml = read_toml(source)
    if toml.values.get("schema") != SCHEMA:
        raise _bad(toml, f"it is no support.toml: its schema is not {SCHEMA!r}", ("schema",))
    if toml.values.get("version") != VERSION or toml.values["version"] is True:
        version = _line(str(toml.values.get("version", "none")))
        what = f"it is of version {version}; this LOGOS reads version {VERSION}"
        raise _bad(toml, what, ("version",))
    _check_keys(toml, toml.values, _TOP, ())
    spellings, operators = (dict(_findings(toml, kind)) for kind in ("spelling", "operator"))
    return Support(spellings, operators)


def _findings(toml: Toml, kind: str) -> Iterator[tuple[tuple[str, str], Finding]]:
    for name, dtypes in toml.values.get(kind, {}).items():
        if not isinstance(dtypes, dict):
            raise _bad(toml, "a table is due", (kind, name))
        for dtype, found in dtypes.items():
            path = (kind, name, dtype)
            if dtype not in DTYPES:
                raise _bad(toml, f"{_line(dtype)} is no dtype that is probed{suggestion(dtype, DTYPES)}", path)
            if not isinstance(found, dict):
                raise _bad(toml, "a table is due", path)
            _check_keys(toml, found, _FINDING, path)
            if found.get("finding") not in FINDINGS:
                raise _bad(toml, f"finding is one of {', '.join(FINDINGS)}", (*path, "finding"))
            difference, bound = (_number(toml, found, key, path) for key in ("difference", "bound"))
            texts = (_line(found.get(key, "")) for key in ("log", "message", "digest"))
            yield (name, dtype), Finding(found["finding"], difference, bound, *texts)


def _number(toml: Toml, found: Mapping[str, Any], key: str, path: tuple[str, ...]) -> float | None:
    """A difference or a bound, None where it is not there. Only a difference may be infinite."""
    if key not in found:
        return None
    try:
        number = float(found[key])
    except OverflowError:
        number = float("nan")
    if not (number >= 0 and (number < float("inf") or key == "difference")):
        raise _bad(toml, "a number from 0 on is due", (*path, key))
    return number


def _line(text: str) -> str:
    """One line of it: a file from elsewhere is not to write lines of its own into a refusal."""
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])


def _check_keys(
    toml: Toml, table: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]], path: tuple[str, ...]
) -> None:
    for key, value in table.items():
        if key not in known:
            raise _bad(toml, f"unknown key {_line(key)}{suggestion(key, known)}", (*path, key))
        due = known[key]
        if not isinstance(value, due) or (isinstance(value, bool) and due is not bool):
            kind = "a number" if isinstance(due, tuple) else _KINDS[due]
            raise _bad(toml, f"{kind} is due", (*path, key))


def _bad(toml: Toml, what: str, path: tuple[str, ...]) -> Refused:
    place: Place = toml.place(*path)
    return refuse("bad-support", what, place, _AGAIN)
