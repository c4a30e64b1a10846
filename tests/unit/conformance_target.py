"""A target for the tests of conformance: it runs the reference machine in this process, and errs as it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from logos import (
    API,
    OPS,
    Artifact,
    Graph,
    Inputs,
    Job,
    Machine,
    Manager,
    Node,
    Refusal,
    Role,
    Steps,
    hookimpl,
    make_manager,
)
from logos.weights.files import find_weight_file, read_weight_file

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Options:
    """`dtypes` are those that it runs in."""

    dtypes: tuple[str, ...] = ("float64", "float32")


@dataclass
class Erring:
    """`err` changes what a node made, `refuse` says why the target refuses a graph, `crash` is called before a run."""

    spells: frozenset[str] = frozenset(op.name for op in OPS)
    err: Callable[[Node, Array], Array] = lambda node, array: array
    refuse: Callable[[Graph], Refusal | None] = lambda graph: None
    crash: Callable[[Graph], None] = lambda graph: None
    leave_out: str = ""
    runs: list[int] = field(default_factory=list)
    name: str = "erring"
    api: int = API
    fuses: tuple[str, ...] = ()
    stores: tuple[str, ...] = ("float32",)
    options: type[Any] = Options

    def refusals(self, job: Job) -> Iterable[Refusal]:
        refusal = self.refuse(job.graph)
        return () if refusal is None else (refusal,)

    def emit(self, job: Job) -> tuple[Artifact, ...]:
        return (Artifact("erring.txt", f"{len(job.graph.nodes)}\n"),)

    def steps(self, job: Job) -> Steps:
        return Steps()

    def outputs(self, job: Job) -> tuple[str, ...]:
        return ()

    def dtypes(self, job: Job) -> tuple[str, ...]:
        dtypes: tuple[str, ...] = job.options.dtypes
        return dtypes

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        graph = job.graph
        self.runs.append(len(graph.nodes))
        self.crash(graph)
        values = {name: np.asarray(array) for name, array in inputs.arrays.items()}
        for bound in job.binding.leaves:
            file = find_weight_file(inputs.weights, bound.name)
            if file is not None:
                assert bound.role in (Role.WEIGHT, Role.CONSTANT)
                values[bound.name] = read_weight_file(file, bound.name, bound.leaf.value.shape, bound.leaf.value.real)
            elif bound.leaf.fills:
                values[bound.name] = np.array([[value for _, value in bound.leaf.fills]])
        if inputs.dtype == "float32":
            values = {name: array if array.dtype.kind == "i" else np.float64(np.float32(array))
                      for name, array in values.items()}  # fmt: skip
        made, newest = Machine(graph, values).step(), graph.newest()
        for node in graph.nodes:
            for value in node.results:
                made[value] = self.err(node, made[value])
        return {name: made[newest[name]][None] for name in inputs.taps if not name.startswith(self.leave_out or "-")}


def manager_of(target: Any) -> Manager:
    """A manager of one target, and of a family that names no weight."""
    return make_manager([plugin_of(target)])


def plugin_of(target: Any) -> Any:
    """The entry point of a plugin with these."""
    family = SimpleNamespace(name="qwen35", author=lambda *_: "", view=lambda *_: None)
    plugin = SimpleNamespace(logos_targets=hookimpl(lambda: [target]), logos_families=hookimpl(lambda: [family]))
    return SimpleNamespace(name="erring", value="erring", dist=None, load=lambda: plugin)
