"""The plan of a build: every artifact, its files and their steps. Making it refuses what will not work."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from logos.artifacts import check_commands, check_paths, emit_artifacts, job_files
from logos.author import author_inputs, author_program
from logos.discovery import Installed
from logos.hookspecs import Job, Recording, Rule, Target, WeightFile
from logos.inputs import Inputs, Watch, package_files
from logos.job import make_job, with_files
from logos.manager import Manager
from logos.near import suggestion
from logos.recording import check_recording
from logos.refusal import Refusal, Refused
from logos.selection import Order, Selection
from logos.source import Place, Source, Spot
from logos.steps import (
    Step,
    absolute,
    author_step,
    emit_step,
    extract_step,
    extraction_record,
    recording_record,
    recording_step,
    rule_name,
    target_steps,
    text_record,
)
from logos.weights.extract import check_sources

PRIVATE = ".logos"
"""The folder below a build's out folder that takes build.ninja, ninja's logs and what steps hand each other."""


@contextmanager
def _unseen(name: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda done, total: None


@dataclass(frozen=True)
class Unit:
    """One artifact: a program for a target, in its folder.

    `files` are relative to `folder`, in the order of their making. `records` are texts that must lie at their paths
    before ninja runs: the inputs of steps that no other file says. `tools` and `environment` are those of `Steps`.
    """

    order: Order
    operations: int
    leaves: Mapping[str, int]
    files: tuple[str, ...]
    steps: tuple[Step, ...]
    rules: tuple[Rule, ...]
    records: Mapping[Path, str]
    tools: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.order.folder


@dataclass(frozen=True)
class Plan:
    """Everything that a build makes. `sources` are the files of LOGOS and of the plugins; `inputs` remember what weight
    files are read from."""

    selection: Selection
    units: tuple[Unit, ...]
    sources: tuple[Path, ...]
    inputs: Inputs

    @property
    def out(self) -> Path:
        return self.selection.out

    @property
    def private(self) -> Path:
        return self.out / PRIVATE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step once: two targets of one authored program share the step that writes it."""
        return tuple({step.outputs: step for unit in self.units for step in unit.steps}.values())

    @property
    def records(self) -> dict[Path, str]:
        return {path: text for unit in self.units for path, text in unit.records.items()}

    @property
    def read(self) -> tuple[Path, ...]:
        """Every file that the plan was made from: project files, there or not, programs, what weights come from, code,
        tools; not what the build itself makes."""
        made = {path for step in self.steps for path in step.outputs}
        files = [*self.selection.files, *(path for step in self.steps for path in step.inputs)]
        return tuple(path for path in dict.fromkeys((*map(absolute, files), *self.sources)) if path not in made)

    @property
    def listed(self) -> tuple[Path, ...]:
        """The folders whose names decide what is built."""
        weights = [unit.order.request.weights for unit in self.units]
        return tuple(map(absolute, dict.fromkeys((*self.selection.listed, *(path for path in weights if path)))))

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that decided the plan."""
        return tuple(sorted({name for unit in self.units for name in unit.environment}))

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple({rule.name: rule for unit in self.units for rule in unit.rules}.values())


def make_plan(manager: Manager, selection: Selection, watch: Watch = _unseen, preview: bool = False) -> Plan:
    """The plan of a selection. Raises `Refused` with everything wrong in every order; writes nothing.

    `watch` shows the reading of what weights come from, so far as it has changed. A preview leaves out what it can: a
    file that was never extracted will be, whatever it is read from.
    """
    private = selection.out / PRIVATE
    inputs = Inputs(private, watch)
    refusals = list(selection.refusals)
    units: list[Unit] = []
    for order in selection.orders:
        try:
            units.append(_Planner(manager, order, private, inputs, preview).unit())
        except Refused as refused:
            refusals += [refusal for refusal in refused.refusals if refusal not in refusals]
    if refusals:
        raise Refused(refusals)
    return Plan(selection, tuple(units), code_files(manager), inputs)


def code_files(manager: Manager) -> tuple[Path, ...]:
    """The source files of LOGOS and of the installed plugins."""
    return package_files(code_modules(manager))


def code_modules(manager: Manager) -> tuple[str, ...]:
    """A module of each package that a plan comes from: LOGOS's own and those of the installed plugins."""
    modules = ["logos"]
    for one in (*manager.plugins, *manager.targets.values()):
        plugin = one.object if isinstance(one, Installed) else type(one)
        modules.append(str(getattr(plugin, "__name__" if inspect.ismodule(plugin) else "__module__", "logos")))
    return tuple(modules)


def check_hold(target: Target, hold: tuple[str, ...]) -> None:
    """Refuses fusion steps that the target does not have (`unknown-fusion-step`), with those it has."""
    known = ", ".join(target.fuses) or "none"
    unknown = [step for step in hold if step not in target.fuses]
    if unknown:
        raise Refused(
            Refusal(
                "unknown-fusion-step",
                f"target {target.name} has no fusion step {step}{suggestion(step, target.fuses)}",
                Spot("--hold"),
                f"its fusion steps: {known}",
            )
            for step in unknown
        )


@contextmanager
def _placed(ending: str, place: Place | None) -> Iterator[None]:
    """Gives refusals whose code ends so (`unknown-target`) the place of the key that named what is refused."""
    try:
        yield
    except Refused as refused:
        if place is None:
            raise
        found = [replace(one, where=place) if one.code.endswith(ending) else one for one in refused.refusals]
        raise Refused(found) from None


class _Planner:
    """Makes the unit of one order."""

    def __init__(self, manager: Manager, order: Order, private: Path, inputs: Inputs, preview: bool) -> None:
        self.manager, self.order, self.inputs, self.preview = manager, order, inputs, preview
        self.programs = private / "programs"
        self.own = private / "records" / order.name / order.target
        self.records: dict[Path, str] = {}

    def unit(self) -> Unit:
        """The order's unit. Refused: everything wrong with it, at the key of logos.toml that named it."""
        order = self.order
        with _placed("-target", order.target_place), _placed("-family", order.family_place):
            target = self.manager.target(order.target)
            check_hold(target, order.request.hold)
            steps = [self._author()] if order.author is not None else []
            self.order = replace(self.order, request=with_files(target, self.order.request))
            target, job = make_job(self.manager, self.order.request, order.target)
        try:
            return self._of(target, job, steps)
        finally:
            if job.binding.checkpoint is not None:
                job.binding.checkpoint.close()

    def _author(self) -> Step:
        """The step that writes the program. It is written in memory first, for the steps that follow."""
        order = self.order
        assert order.author is not None
        program = self.programs / f"{order.name}.lg"
        text = author_program(self.manager, order.author, order.request.family)
        request = replace(order.request, program=program, source=Source(os.fspath(program), text))
        self.order = replace(order, request=request)
        record = self._record(self.own.parent / "program.json", text_record({order.name: text}))
        return author_step(self.order, text, author_inputs(self.manager, order.author), record)

    def _record(self, path: Path, text: str) -> Path:
        self.records[absolute(path)] = text
        return absolute(path)

    def _of(self, target: Target, job: Job, steps: list[Step]) -> Unit:
        order = self.order
        emitted = emit_artifacts(target, job)
        following = target.steps(job)
        if following.refusals:
            raise Refused(following.refusals)
        check_commands(target, following)
        for weight_file in following.extractions:
            check_sources(job.binding, weight_file)
        for recording in following.recordings:
            check_recording(job.graph, recording)
        extracted = [path for weight_file in following.extractions for path in weight_file.paths]
        extracted += [recording.path for recording in following.recordings]
        made = [path for edge in following.edges for path in edge.outputs]
        files = (*(artifact.path for artifact in emitted), *extracted, *made)
        check_paths(target, files)
        texts = {artifact.path: artifact.text for artifact in emitted}
        record = self._record(self.own / "emission.json", text_record(texts))
        steps.append(emit_step(order, emitted, tuple(map(absolute, job_files(job))), record))
        steps += [self._extract(job, weight_file) for weight_file in following.extractions]
        steps += [self._recording(job, recording) for recording in following.recordings]
        steps += target_steps(order, following)
        return Unit(
            order=order,
            operations=len(job.graph.nodes),
            leaves=Counter(bound.role.value for bound in job.binding.leaves),
            files=files,
            steps=tuple(steps),
            rules=tuple(replace(rule, name=rule_name(order.target, rule)) for rule in following.rules),
            records=self.records,
            tools=following.tools,
            environment=following.environment,
        )

    def _extract(self, job: Job, weight_file: WeightFile) -> Step:
        path = self.own / "extractions" / f"{weight_file.path}.json"
        unneeded = self.preview and not path.exists()
        text = "" if unneeded else extraction_record(job, weight_file, self.inputs, self._readers(job))
        read = tuple(map(absolute, job_files(job)))
        return extract_step(self.order, job, weight_file, read, self._record(path, text))

    def _recording(self, job: Job, recording: Recording) -> Step:
        path = self.own / "extractions" / f"{recording.path}.json"
        unneeded = self.preview and not path.exists()
        text = "" if unneeded else recording_record(job, recording, self.inputs, self._readers(job))
        read = tuple(map(absolute, job_files(job)))
        return recording_step(self.order, recording, read, self._record(path, text))

    def _readers(self, job: Job) -> list[str]:
        """The modules, of whatever package, that read the weights and compute tables."""
        readers = [type(self.manager.family(job.binding.family)).__module__]
        return readers + ([type(job.binding.checkpoint).__module__] if job.binding.checkpoint is not None else [])
