"""Running cases on a target: many side by side in one program, so that a target that starts a process pays for it once.

The cases of a program share no name, so that each is what it is alone, and is held to the bound of one op.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from logos.conformance.cases import Case
from logos.conformance.prepare import Prepared
from logos.contracts import compared_of
from logos.discovery import said
from logos.execution import as_kept, loose_values, run_artifact, write_artifact
from logos.hookspecs import Job, Target
from logos.job import Request, make_job
from logos.manager import Manager
from logos.refusal import Refusal, Refused, refuse
from logos.source import Source, Spot
from logos.verification import Verdict

TOGETHER = 128
"""The most cases of one program."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: verdicts by dtype; or the target's refusal, made before anything was written; or what the
    target broke with (`refused` where it ran into a refusal of its own)."""

    case: Case
    verdicts: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    refusal: Refusal | None = None
    error: str | None = None
    refused: Refused | None = None

    @property
    def failures(self) -> tuple[tuple[str, Verdict], ...]:
        """(dtype, verdict) of what lies beyond its bound."""
        return tuple((dtype, one) for dtype, found in self.verdicts.items() for one in found if not one.holds)

    @property
    def holds(self) -> bool:
        """Whether nothing of it speaks against the target: a refusal does not."""
        return self.error is None and not self.failures


@dataclass
class Trials:
    """Runs cases on one target with its options. `name` is what the programs are called."""

    manager: Manager
    target: str
    options: Mapping[str, object]
    progress: Progress = lambda done, total: None
    ran: bool = False
    name: str = "conformance.lg"

    def job(self, cases: Sequence[Case]) -> tuple[Target, Job]:
        """The job of some cases side by side. Raises `Refused` with what the target refuses of it."""
        source = Source(self.name, "".join(case.text for case in cases))
        weights = {name: name for case in cases for name in case.weights}
        request = Request(Path(source.name), options=self.options, overrides=weights, source=source)
        return make_job(self.manager, request, self.target)

    def run(self, prepared: Sequence[Prepared]) -> list[Outcome]:
        """An outcome for each case, in their order. Raises `Refused` where this host lacks what the target runs on."""
        found: dict[int, Outcome] = {}
        sound = []
        for one in prepared:
            try:
                self.job([one.case])
                sound.append(one)
            except Refused as refused:
                found[id(one)] = Outcome(one.case, refusal=refused.refusals[0])
            except Exception as error:
                found[id(one)] = Outcome(one.case, error=said(error))
        for start in range(0, len(sound), TOGETHER):
            self.progress(start, len(sound))
            batch = sound[start : start + TOGETHER]
            found.update(zip(map(id, batch), self._together(batch), strict=True))
        self.progress(len(sound), len(sound))
        return [found[id(one)] for one in prepared]

    def _together(self, batch: Sequence[Prepared]) -> Iterator[Outcome]:
        """The batch in one program; where that is refused or breaks, its halves."""
        try:
            yield from self._outcomes(batch)
        except Exception as error:
            if len(batch) == 1:
                refused = error if isinstance(error, Refused) else None
                text = refused.refusals[0].what if refused else said(error)
                yield Outcome(batch[0].case, error=text, refused=refused)
                return
            if not self.ran:
                self._check_host(batch)
            middle = len(batch) // 2
            yield from self._together(batch[:middle])
            yield from self._together(batch[middle:])

    def _check_host(self, batch: Sequence[Prepared]) -> None:
        """Refuses what two cases alone meet in the same words before anything has run: it is not of the program but of
        this host or of the whole target (`broken-target`), and each further case would meet it too."""
        met = []
        for one in (batch[0], batch[-1]):
            try:
                self._outcomes([one])
            except Refused as refused:
                met.append(refused)
            except Exception as error:
                what = f"target {self.target} failed when it was asked to emit and run: {said(error)}"
                met.append(refuse("broken-target", what, Spot(f"target {self.target}"), "tell its authors"))
        if len(met) == 2 and met[0].refusals[0].what == met[1].refusals[0].what:
            raise met[0]

    def _outcomes(self, batch: Sequence[Prepared]) -> list[Outcome]:
        target, job = self.job([one.case for one in batch])
        _, dtypes = compared_of(target, job)
        values = {name: array for one in batch for name, array in one.values.items()}
        values, rounded = as_kept(target, job, values)
        if rounded:
            # A target that keeps weights in Q8_0 is held to what it keeps, as verify holds it.
            batch = [replace(one, values={name: values[name] for name in one.values}) for one in batch]
        taps = [name for one in batch for name in one.expected]
        with tempfile.TemporaryDirectory(prefix="logos-conformance-") as scratch:
            folder = Path(scratch)
            write_artifact(target, job, loose_values(job.binding, values), folder)
            found = {dtype: run_artifact(target, job, values, folder, (), taps, dtype) for dtype in dtypes}
        self.ran = True
        return [Outcome(one.case, {dtype: one.verdicts(dtype, found[dtype]) for dtype in dtypes}) for one in batch]
