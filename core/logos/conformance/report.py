"""A whole conformance run of a target, and what it found of each op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logos.conformance.prepare import cases
from logos.conformance.shrink import smallest_failures
from logos.conformance.trials import Outcome, Progress, Trials
from logos.job import target_options
from logos.manager import Manager
from logos.near import suggestion
from logos.op import Op
from logos.refusal import Refused, refuse
from logos.source import Spot
from logos.verification import Verdict

SHAPES = 20
"""How many shapes of an op are tried, unless more are asked for."""


@dataclass(frozen=True)
class OpReport:
    """What was found of an op: an outcome for each shape, and the smallest failing one, where one failed."""

    op: Op
    outcomes: Sequence[Outcome]
    smallest: Outcome | None = None

    @property
    def holds(self) -> bool:
        return self.smallest is None

    @property
    def failed(self) -> int:
        """Shapes with a comparison beyond its bound, or that the target broke on."""
        return sum(not outcome.holds for outcome in self.outcomes)

    @property
    def comparisons(self) -> int:
        return sum(len(verdicts) for outcome in self.outcomes for verdicts in outcome.verdicts.values())

    @property
    def refused(self) -> Mapping[str, int]:
        """How many shapes the target refuses, by the reason it gives, without the words of one program."""
        reasons = (outcome.refusal for outcome in self.outcomes if outcome.refusal is not None)
        return Counter(refusal.code for refusal in reasons)

    @property
    def reasons(self) -> Mapping[str, str]:
        """For each code of `refused`, the first refusal's words."""
        found: dict[str, str] = {}
        for outcome in self.outcomes:
            if outcome.refusal is not None:
                found.setdefault(outcome.refusal.code, outcome.refusal.what)
        return found

    @property
    def worst(self) -> Mapping[str, Verdict]:
        """For each dtype, the verdict that lies nearest to its bound, or furthest beyond it."""
        found: dict[str, Verdict] = {}
        for outcome in self.outcomes:
            for dtype, verdicts in outcome.verdicts.items():
                for one in verdicts:
                    if dtype not in found or _nearness(one) > _nearness(found[dtype]):
                        found[dtype] = one
        return found


def _nearness(verdict: Verdict) -> tuple[bool, float, float]:
    return not verdict.holds, verdict.difference, verdict.bound


@dataclass(frozen=True)
class Report:
    """What was found of a target; `unspelled` are the ops that it does not spell."""

    target: str
    ops: tuple[OpReport, ...]
    unspelled: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.ops)


def conform(
    manager: Manager,
    target_name: str,
    names: Iterable[str] = (),
    shapes: int = SHAPES,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    progress: Progress = lambda done, total: None,
) -> Report:
    """Tries the ops of these names (all that the target spells, where none is named) in at least `shapes` shapes each,
    filled with noise, in every dtype that the target runs in, each held to the bound of one op.

    `progress` hears of (cases done, cases in all). Refused: an unknown op (`unknown-op`), one that the target does not
    spell (`op-not-spelled`), a wrong option, a host that the target cannot run on, and, with the target's own refusal,
    a run in which nothing could be compared.
    """
    target = manager.target(target_name)
    given = dict(options or {})
    target_options(target, given, lambda key: Spot(f"-D {key}"))
    chosen = chosen_ops(manager, target_name, names)
    trials = Trials(manager, target_name, given, progress)
    drawn = {op: list(cases(op, target.spells, shapes, seed, manager.grammar)) for op in chosen}
    outcomes = trials.run([one for found in drawn.values() for one in found])
    _check_compared(outcomes)
    by_op: dict[Op, list[Outcome]] = {op: [] for op in chosen}
    for outcome in outcomes:
        by_op[outcome.case.op].append(outcome)
    trials.progress = lambda done, total: None
    failing = {op: _least(found) for op, found in by_op.items() if not all(one.holds for one in found)}
    smallest = smallest_failures(trials, failing)
    reports = tuple(OpReport(op, found, smallest.get(op)) for op, found in by_op.items())
    unspelled = tuple(op.name for op in manager.ops if op.name not in target.spells)
    return Report(target_name, reports, unspelled)


def chosen_ops(manager: Manager, target_name: str, names: Iterable[str]) -> tuple[Op, ...]:
    """The ops of these names, or all that a target spells, in the language's order."""
    target, wanted = manager.target(target_name), tuple(names)
    known = {op.name: op for op in manager.ops}
    for name in wanted:
        if name not in known:
            what = f"there is no op {name}{suggestion(name, known)}"
            raise refuse("unknown-op", what, Spot(f"--op {name}"), "`logos ops` lists them")
        if name not in target.spells:
            what = f"target {target_name} does not spell the op {name}"
            spelled = ", ".join(sorted(target.spells))
            raise refuse("op-not-spelled", what, Spot(f"--op {name}"), f"name an op that it spells: {spelled}")
    if not wanted and target.spells.isdisjoint(known):
        what = f"target {target_name} spells no installed op"
        raise refuse("op-not-spelled", what, Spot(f"target {target_name}"), "install the plugin that brings its ops")
    return tuple(op for op in manager.ops if (op.name in wanted if wanted else op.name in target.spells))


def _least(outcomes: Iterable[Outcome]) -> Outcome:
    return min((one for one in outcomes if not one.holds), key=lambda one: one.case.size)


def _check_compared(outcomes: Sequence[Outcome]) -> None:
    """A run that compared nothing says nothing: the first refusal says why, where refusals are all there is."""
    if any(outcome.verdicts for outcome in outcomes):
        return
    met = [Refused(one.refusal) if one.refusal is not None else one.refused for one in outcomes]
    refusals = [refused for refused in met if refused is not None]
    if refusals and len(refusals) == len(outcomes):
        raise refusals[0]
