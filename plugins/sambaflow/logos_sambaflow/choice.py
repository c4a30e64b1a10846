"""Which of an op's spellings is emitted: the first one, unless a probe found against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logos_sambaflow.alternatives import ALTERNATIVES, in_dtypes
from logos_sambaflow.spelling import operators_of, support
from logos_sambaflow.support import VERIFIED, Support


@dataclass(frozen=True, slots=True)
class Choice:
    """The helper that spells an operation (None: none is left), and what was found against those before it."""

    helper: str | None
    objections: tuple[str, ...] = ()


def choose(first: str, dtype: str, found: Support) -> Choice:
    """The first of a helper and its alternatives that nothing speaks against in a dtype."""
    objections: list[str] = []
    for helper in (first, *ALTERNATIVES.get(first, ())):
        objection = next(_objections(helper, helper == first, dtype, found), None)
        if objection is None:
            return Choice(helper, tuple(objections))
        objections.append(objection)
    return Choice(None, tuple(objections))


def _objections(helper: str, first: bool, dtype: str, found: Support) -> Iterator[str]:
    """What speaks against a helper: what the probes found of it, of an operator, and that an operator of an alternative
    is neither listed nor verified."""
    own = found.spelling(helper, dtype)
    if own is not None and own.finding != VERIFIED:
        yield f"{helper} {own.text()} in {dtype}"
    for operator, kind in in_dtypes(helper, operators_of(helper, "listed"), dtype):
        finding = found.operators.get((operator, kind))
        if finding is not None and finding.finding != VERIFIED:
            yield f"{helper} uses {operator}, which {finding.text()} in {kind}"
        elif finding is None and own is None and not first and support(operator) == "unknown":
            yield f"{helper} uses {operator}, which was not verified in {kind}"
