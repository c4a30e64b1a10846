"""Emitted modules for tests: from program text to a loaded module, and both sides' values on the same inputs."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from logos import Job, Machine, Manager, Request, Source, make_job, make_manager
from logos.reference import initial
from logos.values import run_values
from logos.weights.fill import fill

Array = np.ndarray[Any, Any]
_numbers = itertools.count()


@dataclass(frozen=True)
class Emitted:
    """An artifact on disk, its loaded model.py, and the job that it came from."""

    folder: Path
    job: Job
    module: ModuleType

    def noise(self) -> dict[str, Array]:
        """A value for every leaf: states too, since some ops show nothing on a state of zeros."""
        graph = self.job.graph
        states = {
            leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")
            for leaf in graph.states
        }
        return run_values(self.job.binding, states, "noise")


def sambaflow_job(text: str, manager: Manager | None = None, **options: object) -> Job:
    request = Request(Path("p.lg"), options=options, source=Source("p.lg", text))
    _, job = make_job(manager or make_manager(), request, "rdu-sambaflow")
    return job


def emitted(text: str, folder: Path, manager: Manager | None = None, **options: object) -> Emitted:
    """The artifact of a program in a folder, without weights."""
    from logos_sambaflow.target import SambaflowTarget

    job = sambaflow_job(text, manager, **options)
    folder.mkdir(exist_ok=True)
    for artifact in SambaflowTarget().emit(job):
        (folder / artifact.path).write_text(artifact.text, encoding="utf-8")
    return Emitted(folder, job, load(folder / "model.py"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"emitted_{next(_numbers)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stepped(made: Emitted, values: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """One step of the emitted module in this process: what forward returns, by variable, as numpy float64 or int64."""
    import torch

    program, kind = made.module.PROGRAM, getattr(torch, dtype)
    held = {name: values[name] for name in program.of_role("weight", "table", "constant")}
    module = program.module().load_weights(made.folder, kind, held)
    inputs = {name: torch.from_numpy(values[name]) for name in program.of_role("input")}
    states = [
        made.module.held_as(name, program.leaves[name], torch.from_numpy(values[name]), kind)
        for name in program.of_role("state")
    ]
    arguments = made.module.step_inputs(program, module, inputs, states, [], 0, kind)
    results = module(*arguments, *states)
    names = [*program.outputs, *program.of_role("state")]
    assert len(results) == len(names)
    return {
        name: result.double().numpy() if result.dtype.is_floating_point else result.long().numpy()
        for name, result in zip(names, results, strict=True)
    }


def reference(made: Emitted, values: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
    """The same variables after one step of the reference machine."""
    made_values = Machine(made.job.graph, values).step()
    newest = made.job.graph.newest()
    return {name: made_values[newest[name]] for name in names}


def rounded(values: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """The values as a dtype holds them, so that a comparison shows the arithmetic alone."""
    import torch

    kind = getattr(torch, dtype)
    return {
        name: torch.from_numpy(array).to(kind).double().numpy() if array.dtype.kind == "f" else array
        for name, array in values.items()
    }


def quietly_traced(module: Any, arguments: tuple[Any, ...]) -> Any:
    """torch.jit.trace, which newer torch calls deprecated and the vendor's tools stand on."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return torch.jit.trace(module, arguments)


def exported_operators(exported: Any) -> set[str]:
    """The operators of torch.export's undecomposed graph, by torch's names; a change of dtype is a `cast`."""
    renamed = {"split_with_sizes": "split", "to": "cast", "int": "cast"}
    names = set()
    for node in exported.graph.nodes:
        name = str(node.target).removeprefix("aten.").split(".")[0]
        if node.op == "call_function" and "getitem" not in str(node.target) and name != "_assert_tensor_metadata":
            names.add(renamed.get(name, name))
    return names


def prompted(made: Emitted, values: Mapping[str, Array], tokens: Sequence[int], dtype: str) -> dict[str, Array]:
    """Steps of the emitted module in this process, whole chunks by LogosPrefill: its outputs over all steps, and the
    states after the last one."""
    import torch

    program, kind = made.module.PROGRAM, getattr(torch, dtype)
    held = {name: values[name] for name in program.of_role("weight", "table", "constant")}
    module = program.module().load_weights(made.folder, kind, held)
    inputs = {name: torch.from_numpy(values[name]) for name in program.of_role("input")}
    states = [
        made.module.held_as(name, program.leaves[name], torch.from_numpy(values[name]), kind)
        for name in program.of_role("state")
    ]
    read = made.module.Reader(program, module, program.outputs)
    arguments = argparse.Namespace(prefill=True, no_checks=False)
    read = made.module.in_chunks(program, read, module, inputs, tokens, kind, arguments, ())
    found: dict[str, list[Array]] = {name: [] for name in program.outputs}
    for step in range(len(tokens)):
        given = made.module.step_inputs(program, module, inputs, states, tokens, step, kind)
        now, states = read.step(given, states)
        for name, rows in found.items():
            rows.append(now[name].double().numpy() if now[name].is_floating_point() else now[name].long().numpy())
    last = zip(program.of_role("state"), states, strict=True)
    stacked = {name: np.stack(rows) for name, rows in found.items()}
    return {**stacked, **{name: state.double().numpy() for name, state in last}}
