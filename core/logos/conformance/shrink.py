"""The smallest failing programs: what fails, in lower sizes and fewer parts, as long as it still fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from logos.conformance.cases import Case, variants
from logos.conformance.prepare import STEADY, prepare
from logos.conformance.sizes import meets
from logos.conformance.trials import Outcome, Trials
from logos.op import Op
from logos.shapes import rules_for

_ROUNDS = 16
_FIRST = 1_000_000
"""Numbers of names that no drawn case has."""


def smallest_failures(trials: Trials, failing: Mapping[Op, Outcome]) -> dict[Op, Outcome]:
    """For each op the smallest failing outcome found from the one given. A round runs what all ops' programs may
    shrink to side by side, so that it costs what one run does."""
    found, numbers = dict(failing), count(_FIRST)
    shrinking = list(found)
    for _ in range(_ROUNDS):
        candidates = [case for op in shrinking for case in smaller(found[op].case)]
        prepared = [prepare(case, trials.manager.grammar, numbers) for case in candidates]
        # An unsteady one may lie beyond its bound on a target that is right.
        steady = [made for made in prepared if made.unsteadiness <= STEADY]
        outcomes = trials.run(steady) if steady else []
        shrinking = []
        for outcome in sorted(outcomes, key=lambda one: one.case.size, reverse=True):
            op = outcome.case.op
            if not outcome.holds and outcome.case.size < found[op].case.size:
                found[op] = outcome
                shrinking.append(op)
        shrinking = list(dict.fromkeys(shrinking))
        if not shrinking:
            break
    return found


def smaller(case: Case) -> Iterator[Case]:
    """What a case may shrink to in one step: each size 1, halved, an eighth or one less; all sizes 1, or halved; no
    optional part; inputs for weights."""
    yield from _resized(case, dict.fromkeys(case.sizes, 1))
    yield from _resized(case, {symbol: max(1, size // 2) for symbol, size in case.sizes.items()})
    for symbol, size in case.sizes.items():
        for lower in dict.fromkeys((1, size // 2, size * 7 // 8, size - 1)):
            if 0 < lower < size:
                yield from _resized(case, {**case.sizes, symbol: lower})
    for present in dict.fromkeys(present for present, _ in variants(case.op)):
        if present < case.form.present and case.form.rule in rules_for(case.op, present):
            yield replace(case, form=replace(case.form, present=present))
    if case.form.stored:
        yield replace(case, form=replace(case.form, stored=False))


def _resized(case: Case, sizes: Mapping[str, int]) -> Iterator[Case]:
    if sizes != case.sizes and meets(case.form.rule, sizes):
        rows = {hole: min(row, sizes[case.op.indexes[hole]] - 1) for hole, row in case.rows.items()}
        yield replace(case, sizes=sizes, rows=rows)
