"""Whether what a target does not spell is refused, by name and with every place, and what it spells is made."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from logos.check import read_program
from logos.conformance.cases import Case, forms, make_case
from logos.conformance.checks import Check, counted
from logos.conformance.elsewhere import flags, is_installed, places
from logos.conformance.report import OpReport
from logos.conformance.sizes import pinned_sizes
from logos.job import Request, make_job
from logos.manager import Manager
from logos.refusal import Refusal, Refused
from logos.source import Source

NAME = "p.lg"


def check_refusals(
    manager: Manager, target_name: str, options: Mapping[str, object], ops: Sequence[OpReport] = (), seed: int = 0
) -> Check:
    """One program with every op that the target does not spell, each twice: one refusal each, with both places, and a
    build that writes nothing. `ops` are the reports of those that it spells: where none of an op's shapes gave a value,
    it is accepted but not spelled."""
    cases = list(_unspelled(manager, target_name, seed))
    source = Source(NAME, "".join(case.text for case in cases))
    faults = [*_accepted(ops), *_misread(manager, target_name, options, source, cases)]
    notes = []
    if cases:
        with tempfile.TemporaryDirectory(prefix="logos-refusals-") as scratch:
            place, _ = places(Path(scratch))
            (place.work / NAME).write_text(source.text, encoding="utf-8")
            ran = place.run("build", NAME, "--out", "out", *flags(target_name, dict(options)))
            if not is_installed(target_name, ran):
                notes = [f"no build was tried: other processes do not know the target {target_name}"]
            else:
                faults += [f"a build that is refused leaves {stray} behind" for stray in place.strays({NAME})]
                faults += [] if ran.returncode == 1 else [f"a build of those ops exits with {ran.returncode}, not 1"]
    words = f"{counted(len(cases) // 2, 'op')} not spelled" + (f", {len(ops)} spelled" if ops else "")
    return Check("refusals", words, tuple(faults), tuple(notes))


def _unspelled(manager: Manager, target_name: str, seed: int) -> Iterator[Case]:
    spelled, random = manager.target(target_name).spells, Random(f"{seed} refusals")
    every = frozenset(op.name for op in manager.ops)
    for op in manager.ops:
        if op.name not in spelled:
            form = next(forms(op, every))
            case = make_case(form, 0, pinned_sizes(op, form.rule, {}, random), random)
            yield from (case, case.renumbered(1))


def _accepted(ops: Sequence[OpReport]) -> Iterator[str]:
    for one in ops:
        tried = [outcome for outcome in one.outcomes if outcome.refusal is None]
        if tried and not any(outcome.verdicts for outcome in tried):
            yield f"{one.op.name} is accepted, but nothing spells it: {tried[0].error}"


def _misread(
    manager: Manager, target_name: str, options: Mapping[str, object], source: Source, cases: Sequence[Case]
) -> Iterator[str]:
    """What the refusals of that program leave out."""
    if not cases:
        return
    refusals: tuple[Refusal, ...] = ()
    try:
        make_job(manager, Request(Path(NAME), options=options, source=source), target_name)
    except Refused as refused:
        refusals = refused.refusals
    places = {line for one in refusals if one.code == "op-not-spelled" for line in _lines(one)}
    names = {case.op.name for case in cases}
    for node in read_program(source, manager.grammar).nodes:
        if node.op.name in names and node.span.label() not in places:
            yield f"{node.op.name} at {node.span.label()} is not spelled, and is not refused"


def _lines(refusal: Refusal) -> Iterator[str]:
    for place in (refusal.where, *refusal.also):
        if place is not None:
            yield place.label()
