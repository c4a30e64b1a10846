"""The plan of a build: every artifact, its files and their steps. Making it refuses what will not work."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from logos.artifacts import check_paths, emit_artifacts, job_files, tool_files
from logos.author import author_program
from logos.hookspecs import Job, Rule, Target
from logos.job import Request, make_job
from logos.manager import Manager
from logos.near import suggestion
from logos.refusal import Refusal, Refused
from logos.selection import Order, Selection
from logos.source import Source, Spot
from logos.steps import (
    Step,
    absolute,
    author_step,
    emission_record,
    emit_step,
    extract_step,
    extraction_record,
    rule_name,
    target_steps,
)
from logos.weights.extract import check_sources

PRIVATE = ".logos"
"""The folder below a build's out folder that takes build.ninja, ninja's logs and what steps hand each other."""


@dataclass(frozen=True)
class Unit:
    """One artifact: a program for a target, in its folder.

    `files` are relative to `folder`, in the order of their making. `records` are texts that must lie at their paths
    before ninja runs: the inputs of steps that no other file says.
    """

    order: Order
    operations: int
    leaves: Mapping[str, int]
    files: tuple[str, ...]
    steps: tuple[Step, ...]
    rules: tuple[Rule, ...]
    records: Mapping[Path, str]

    @property
    def folder(self) -> Path:
        return self.order.folder


@dataclass(frozen=True)
class Plan:
    """Everything that a build makes. `tools` are, by target, the source files that decide what it emits."""

    out: Path
    units: tuple[Unit, ...]
    tools: Mapping[str, tuple[Path, ...]]

    @property
    def private(self) -> Path:
        return self.out / PRIVATE

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step once: two targets of one authored program share the step that writes it."""
        return tuple({step.outputs: step for unit in self.units for step in unit.steps}.values())

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple({rule.name: rule for unit in self.units for rule in unit.rules}.values())


def make_plan(manager: Manager, selection: Selection) -> Plan:
    """The plan of a selection. Raises `Refused` with everything wrong in every order; writes nothing."""
    refusals: list[Refusal] = []
    units: list[Unit] = []
    tools: dict[str, tuple[Path, ...]] = {}
    for order in selection.orders:
        try:
            target, job, request = _job(manager, order, selection.out / PRIVATE)
            units.append(_unit(target, job, replace(order, request=request), selection.out / PRIVATE))
            tools[target.name] = tool_files(target)
        except Refused as refused:
            refusals += [refusal for refusal in refused.refusals if refusal not in refusals]
    if refusals:
        raise Refused(refusals)
    return Plan(selection.out, tuple(units), tools)


def _job(manager: Manager, order: Order, private: Path) -> tuple[Target, Job, Request]:
    """The order's job; a program to be written by its author is written in memory first."""
    request = order.request
    try:
        target = manager.target(order.target)
    except Refused as refused:
        raise Refused(replace(one, where=order.target_place or one.where) for one in refused.refusals) from None
    check_hold(target, order.hold)
    if order.author is not None:
        program = private / "programs" / f"{order.name}.lg"
        text = author_program(manager, order.author, request.family)
        request = replace(request, program=program, source=Source(os.fspath(program), text))
    return (*make_job(manager, request, order.target), request)


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


def _unit(target: Target, job: Job, order: Order, private: Path) -> Unit:
    try:
        emitted = emit_artifacts(target, job)
        following = target.steps(job)
        for weight_file in following.extractions:
            check_sources(job.binding, weight_file)
    finally:
        if job.binding.checkpoint is not None:
            job.binding.checkpoint.close()
    extracted = [path for weight_file in following.extractions for path in weight_file.paths]
    made = [path for edge in following.edges for path in edge.outputs]
    files = (*(artifact.path for artifact in emitted), *extracted, *made)
    check_paths(target, files)
    own = private / "records" / order.name / order.target
    sources = tuple(map(absolute, job_files(job)))
    record = own / "emission.json"
    records = {record: emission_record(emitted)}
    steps = [author_step(order)] if order.author else []
    steps.append(emit_step(order, emitted, (absolute(order.request.program), *sources, absolute(record))))
    for weight_file in following.extractions:
        record = own / "extractions" / f"{weight_file.path}.json"
        records[record] = extraction_record(job, weight_file)
        steps.append(extract_step(order, weight_file, (*sources, absolute(record))))
    steps += target_steps(order, following)
    return Unit(
        order=order,
        operations=len(job.graph.nodes),
        leaves=Counter(bound.role.value for bound in job.binding.leaves),
        files=files,
        steps=tuple(steps),
        rules=tuple(replace(rule, name=rule_name(order.target, rule)) for rule in following.rules),
        records=records,
    )
