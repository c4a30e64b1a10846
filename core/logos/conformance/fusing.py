"""Whether fusion changes what a program computes: parts of models with every step acting, and with all held back."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from logos.check import read_program
from logos.conformance.checks import Check, counted, takes
from logos.conformance.fusable import BLOCKS, block_text
from logos.contracts import compared_of
from logos.discovery import said
from logos.execution import loose_values, run_artifact, write_artifact
from logos.graph import Graph
from logos.hookspecs import Job, Target
from logos.job import Request, make_job
from logos.manager import Manager
from logos.passes.fusion import FUSION_STEPS, job_groups
from logos.reference import Machine, initial
from logos.source import Source
from logos.verification import bound_of, compared, difference, judge
from logos.weights.fill import fill

Arrays = Mapping[str, NDArray[Any]]
Made = Mapping[str, Arrays]
"""What was read out, by dtype."""


@dataclass(frozen=True)
class Block:
    """A part of a model, with its noise and what the reference machine makes of it."""

    name: str
    graph: Graph

    @cached_property
    def values(self) -> Arrays:
        return {
            leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(self.graph, leaf, "noise")
            for leaf in self.graph.leaves
        }

    @cached_property
    def expected(self) -> Arrays:
        made, newest = Machine(self.graph, self.values).step(), self.graph.newest()
        return {name: made[newest[name]][None] for name in compared(self.graph)}

    @property
    def weights(self) -> tuple[str, ...]:
        """The leaves that matmuls and experts multiply by: targets lay them out otherwise, and may fuse those alone."""
        return tuple(leaf.name for leaf in self.graph.leaves if not leaf.state and leaf.value.rows > 5)


def check_fusion(manager: Manager, target_name: str, options: Mapping[str, object]) -> Check:
    """The target's fusion steps on every part of a model that it takes: against the reference machine, and held
    against fused, in each dtype. Where they disagree, each step acts alone, to be named."""
    target = manager.target(target_name)
    known = [step.name for step in FUSION_STEPS]
    steps = tuple(name for name in target.fuses if name in known)
    notes = tuple(f"{name} is no step of LOGOS's table: not tried" for name in target.fuses if name not in known)
    if not steps:
        return Check("fusion", "no step", notes=notes)
    trial = _Trial(manager, target_name, options, _blocks(manager, target_name, options))
    if not trial.blocks:
        return Check("fusion", counted(len(steps), "step"), notes=(*notes, "the target takes none of the programs"))
    acting = trial.acting()
    idle = [name for name in steps if name not in acting]
    notes += (f"no program has {', '.join(idle)}",) if idle else ()
    try:
        fused, held = trial.run(()), trial.run(steps)
    except Exception as error:
        return Check("fusion", counted(len(acting), "step"), (f"the target broke: {said(error)}",), notes)
    faults, furthest = trial.disagreements(fused, held)
    if faults:
        faults = (*trial.alone(acting, steps, held), *faults)
    how = "held and fused equal to the bit" if furthest == 0 else f"held and fused within {furthest:.2g}"
    words = f"{counted(len(acting), 'step')} in {counted(len(trial.blocks), 'program')}, {how}"
    return Check("fusion", words, faults, notes)


def _blocks(manager: Manager, target_name: str, options: Mapping[str, object]) -> tuple[Block, ...]:
    spelled, found = manager.target(target_name).spells, []
    for number, name in enumerate(BLOCKS):
        graph = read_program(Source("fusion.lg", block_text(name, number)), manager.grammar)
        if {node.op.name for node in graph.nodes} <= spelled:
            block = Block(name, graph)
            if takes(manager, target_name, _request([block], options, ())) is None:
                found.append(block)
    return tuple(found)


def _request(blocks: Sequence[Block], options: Mapping[str, object], hold: tuple[str, ...]) -> Request:
    weights = {name: name for block in blocks for name in block.weights}
    source = Source("fusion.lg", "".join(block.graph.source.text for block in blocks))
    return Request(Path(source.name), options=options, overrides=weights, source=source, hold=hold)


@dataclass(frozen=True)
class _Trial:
    """Blocks side by side in one program."""

    manager: Manager
    target: str
    options: Mapping[str, object]
    blocks: tuple[Block, ...]

    def job(self, hold: tuple[str, ...]) -> tuple[Target, Job]:
        return make_job(self.manager, _request(self.blocks, self.options, hold), self.target)

    def acting(self) -> tuple[str, ...]:
        """The steps that act on some block, in the table's order."""
        target, job = self.job(())
        found = {step for group in job_groups(target, job) for step in group.steps}
        return tuple(step.name for step in FUSION_STEPS if step.name in found)

    def run(self, hold: tuple[str, ...]) -> Made:
        target, job = self.job(hold)
        _, dtypes = compared_of(target, job)
        values = {name: array for block in self.blocks for name, array in block.values.items()}
        taps = [name for block in self.blocks for name in block.expected]
        with tempfile.TemporaryDirectory(prefix="logos-fusion-") as scratch:
            folder = Path(scratch)
            write_artifact(target, job, loose_values(job.binding, values), folder)
            return {dtype: run_artifact(target, job, values, folder, (), taps, dtype) for dtype in dtypes}

    def disagreements(self, fused: Made, held: Made) -> tuple[tuple[str, ...], float]:
        """A line for everything beyond its bound, and the furthest that held and fused lie apart."""
        faults, furthest = [], 0.0
        for how, made in (("fused", fused), ("held", held)):
            for dtype, arrays in made.items():
                for block in self.blocks:
                    mine = {name: arrays[name] for name in block.expected}
                    for one in judge(block.graph, dtype, block.expected, mine):
                        if not one.holds:
                            apart = f"has the difference {one.difference:.3g}, beyond {one.bound:.3g}"
                            faults.append(f"{block.name}, {how}: {one.variable} in {dtype} {apart}")
        for dtype, arrays in fused.items():
            for block in self.blocks:
                for name in block.expected:
                    apart_by = difference(held[dtype][name], arrays[name])
                    furthest = max(furthest, apart_by)
                    bound = bound_of(block.graph, dtype)
                    if apart_by > bound and block.graph.newest()[name].real:
                        far = f"lie {apart_by:.3g} apart, beyond {bound:.3g}"
                        faults.append(f"{block.name}: held and fused, {name} in {dtype} {far}")
        return tuple(faults), furthest

    def alone(self, acting: Sequence[str], steps: Sequence[str], held: Made) -> tuple[str, ...]:
        """The steps that change something when they act alone."""
        found = []
        for step in acting:
            try:
                faults, _ = self.disagreements(self.run(tuple(name for name in steps if name != step)), held)
            except Exception as error:
                faults = (f"the target broke: {said(error)}",)
            found += [f"step {step} alone: {faults[0]}"] if faults else []
        return tuple(found)
