"""A small plugin as a stranger would write it: one more op, and a target that spells it and every op of the core."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logos import API, OPS, Artifact, Inputs, Job, Machine, Op, Refusal, Shapes, Steps, hookimpl, run_steps


def relu(X: Any) -> Any:
    """max(x, 0), elementwise."""
    return np.maximum(X, 0.0)


RELU = Op("relu", "relu of X", (Shapes("X (r, c) -> (r, c)"),), relu)


@dataclass(frozen=True)
class Options:
    """The abacus has none."""


@dataclass(frozen=True)
class Abacus:
    """Writes the program's sentences down and has the reference machine work them out."""

    name: str = "abacus"
    api: int = API
    spells: frozenset[str] = frozenset(op.name for op in (*OPS, RELU))
    fuses: tuple[str, ...] = ()
    stores: tuple[str, ...] = ("float32",)
    options: type[Any] = Options

    def refusals(self, job: Job) -> Iterable[Refusal]:
        return ()

    def emit(self, job: Job) -> Sequence[Artifact]:
        return (Artifact("beads.txt", "".join(f"{node.op.name}\n" for node in job.graph.nodes)),)

    def steps(self, job: Job) -> Steps:
        return Steps()

    def outputs(self, job: Job) -> tuple[str, ...]:
        return (job.graph.output.name,)

    def dtypes(self, job: Job) -> tuple[str, ...]:
        return ("float64",)

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        record = run_steps(Machine(job.graph, inputs.arrays), inputs.taps, inputs.tokens)
        return {name: record.stacked(name) for name in inputs.taps}


@hookimpl
def logos_ops() -> Sequence[Op]:
    return [RELU]


@hookimpl
def logos_targets() -> Sequence[Abacus]:
    return [Abacus()]
