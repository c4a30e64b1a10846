"""A recorded run of LOGOS's reference machine, to hold the module to: on the host, or on the device by compile.py."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logos_sambaflow.emitted.loader import (
    HELD,
    NUMPY_DTYPES,
    TORCH_DTYPES,
    ArtifactError,
    load_parameters,
    safetensors_file,
    torch_dtype,
)
from logos_sambaflow.emitted.prefill import in_chunks, recorded_chunk
from logos_sambaflow.emitted.program import Program, Reader, fed_by_tokens, first_states, step_inputs
from logos_sambaflow.emitted.variant import numpy_values

SELFTEST = "selftest.safetensors"
RECORDING_VERSION = 1
BEYOND_BOUND = 4
# Stages that the table shows beside the outputs and states: those beyond their bounds, the first ones.
SHOWN_STAGES = 5


class Recorded:
    """The recording beside the module: what its steps were given, and what they are to come to."""

    def __init__(self, program: Program) -> None:
        self.program, self.path = program, os.path.join(os.path.dirname(program.path), SELFTEST)
        if not os.path.isfile(self.path):
            raise ArtifactError(f"{self.path} is not there; build the artifact with -D selftest=N")
        self.entries, metadata = safetensors_file(self.path)
        try:
            said = json.loads(metadata["logos.recording"])
            version, self.steps, self.compared = said["version"], int(said["steps"]), said["compared"]
            self.bounds = {dtype: float(said["bounds"][dtype]) for dtype in TORCH_DTYPES}
            self.choices = said["choices"]
            self.places = {name: (op, line) for name, op, line in said["order"]}
        except (KeyError, ValueError, TypeError) as error:
            raise ArtifactError(f"{self.path}: not a recording of LOGOS ({error!r})") from None
        if version != RECORDING_VERSION:
            raise ArtifactError(f"{self.path} is of version {version!r}; this module reads version {RECORDING_VERSION}")
        states = program.of_role("state")
        due = [*("expected." + name for name in program.outputs), *("rows." + name for name in states)]
        if not set(due) <= set(self.entries):
            raise ArtifactError(f"{self.path} is of another program than the module beside it")
        self.order = list(self.places)
        # The operand of an argmax may be a leaf: no stage made it, and none can be at fault.
        self.compared = [name for name in self.compared if name not in program.leaves or name in states]
        values = (key.partition(".") for key, stored in self.entries.items() if stored.dtype == "I64")
        self.exact = {name for kind, _, name in values if kind in ("expected", "written", "stage")}
        self.states = {name: numpy_values(value) for name, value in zip(states, self.first_states(torch.float64))}
        try:
            self._check()
            self.largest = {name: self._largest(name) for name in self.compared}
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise ArtifactError(f"{self.path}: not a sound recording ({error!r})") from None

    def _check(self) -> None:
        """That what the steps are held to is there for each of them, and has a place in the program."""
        values = {name: self.entries["expected." + name].shape for name in self.named("expected")}
        if self.steps < 1 or any(shape[:1] != (self.steps,) for shape in values.values()):
            raise ValueError(f"{self.steps} steps")
        for name in [*self.compared, *self.choices, *self.choices.values()]:
            if name not in values and name not in self.states:
                raise KeyError(name)
        for name in {*self.compared, *self.named("stage")}:
            self.order.index(name)

    def array(self, key: str) -> Any:
        stored = self.entries[key]
        if 0 in stored.shape:
            return np.zeros(stored.shape, NUMPY_DTYPES[stored.dtype])
        return np.array(np.memmap(self.path, NUMPY_DTYPES[stored.dtype], "r", stored.start, stored.shape))

    def named(self, kind: str) -> list[str]:
        return [key.partition(".")[2] for key in self.entries if key.startswith(kind + ".")]

    def weights(self) -> dict[str, Any]:
        """The weights that no weight file holds, and zeros for those that steps feed."""
        fed = [name for name in fed_by_tokens(self.program) if self.tokens()]
        given = {name: 0 for name in fed if self.program.leaves[name].role in HELD}
        given.update((name, self.array("weight." + name)) for name in self.named("weight"))
        return given

    def tokens(self) -> list[int]:
        """The ids that steps feed; empty for a program without."""
        fed = "tok" in fed_by_tokens(self.program)
        return [int(one) for one in self.array("input.tok").reshape(-1)] if fed else []

    def inputs(self) -> dict[str, Tensor]:
        """The inputs that are the same at every step."""
        fed = fed_by_tokens(self.program)
        names = [name for name in self.named("input") if name not in fed]
        return {name: torch.from_numpy(self.array("input." + name)[0]) for name in names}

    def first_states(self, dtype: torch.dtype) -> list[Tensor]:
        """The states before the first step, as the module holds them."""
        return first_states(self.program, {name: self.array("state." + name) for name in self.named("state")}, dtype)

    def expected(self, step: int) -> dict[str, Any]:
        """What a step is to come to; steps are asked for one after another."""
        values = {name: self.array("expected." + name)[step] for name in self.named("expected")}
        for name in self.states:
            self.states[name] = self.changed(name, step, self.states[name])
        values.update(self.states)
        if step == 0:
            values.update((name, self.array("stage." + name)) for name in self.named("stage"))
        return values

    def changed(self, name: str, step: int, state: Any) -> Any:
        """A state with the rows that a step writes."""
        rows = self.array("rows." + name)
        made = rows[:, 0] == step
        state = state.copy()
        state[rows[made, 1]] = self.array("written." + name)[made]
        return state

    def _largest(self, name: str) -> float:
        """The largest magnitude over all steps: differences are relative to it."""
        if name not in self.states:
            return finite_largest(self.array("expected." + name))
        state, largest = self.states[name], 0.0
        for step in range(self.steps):
            state = self.changed(name, step, state)
            largest = max(largest, finite_largest(state))
        return largest


class Report:
    """How far a run's values lie from the recorded ones, step by step, and how far they may in a dtype; `read` are the
    variables that the run gives."""

    def __init__(self, recorded: Recorded, dtype: str, read: Sequence[str]) -> None:
        self.recorded, self.dtype, self.bound = recorded, dtype, recorded.bounds[dtype]
        self.compared = [name for name in recorded.compared if name in read]
        self.steps = 0
        self.worst: dict[str, float] = {}
        self.beyond: list[tuple[int, int, str, float]] = []

    def add(self, step: int, values: Mapping[str, Tensor]) -> None:
        """One step's values, by variable; those that the recording says nothing of are not looked at."""
        expected = self.recorded.expected(step)
        self.steps = step + 1
        for name, value in values.items():
            if name not in expected:
                continue
            difference = self.difference(name, expected, numpy_values(value))
            self.worst[name] = max(self.worst.get(name, 0.0), difference)
            if difference > self.bound_of(name):
                self.beyond.append((step, self.recorded.order.index(name), name, difference))

    def bound_of(self, name: str) -> float:
        return 0.0 if name in self.recorded.exact else self.bound

    def difference(self, name: str, expected: Mapping[str, Any], found: Any) -> float:
        """By the rule of `logos verify`: an argmax agrees where what it chose is within the bound of the largest."""
        right = expected[name]
        if found.shape != right.shape:
            return float("inf")
        if name in self.recorded.choices and (found != right).any():
            row, index = expected[self.recorded.choices[name]].reshape(-1), int(found.reshape(-1)[0])
            near = 0 <= index < row.size and row.max() - row[index] <= self.bound * np.abs(row).max()
            return 0.0 if near else float("inf")
        if name in self.recorded.exact:
            return float("inf") if (found != right).any() else 0.0
        largest = self.recorded.largest.get(name)
        return relative(right, found, finite_largest(right) if largest is None else largest)

    def failed(self) -> list[str]:
        """The outputs and states that lie beyond their bounds."""
        return [name for name in self.compared if self.worst.get(name, float("inf")) > self.bound_of(name)]

    def lines(self) -> list[str]:
        """The table, and the first step and variable beyond its bound."""
        late = [name for _, _, name, _ in sorted(self.beyond) if name not in self.compared]
        shown = [*self.compared, *(list(dict.fromkeys(late))[:SHOWN_STAGES] if self.failed() else ())]
        width = max(8, *(len(name) for name in shown))
        text = [f"{'variable':{width}}  steps  difference   bound"]
        for name in shown:
            steps = self.steps if name in self.compared else 1
            difference, bound = self.worst.get(name, float("inf")), self.bound_of(name)
            mark = "ok" if difference <= bound else "BEYOND ITS BOUND"
            text.append(f"{name:{width}}  {steps:5}  {difference:10.3g}  {bound:6.3g}  {mark}")
        if self.failed():
            text.append(self._first())
        return text

    def _first(self) -> str:
        step, _, name, difference = min(self.beyond)
        op, line = self.recorded.places[name]
        where = f"step {step}, {name} ({op}, line {line} of the program)"
        return f"first beyond its bound: {where}: {difference:.3g}, where {self.bound_of(name):.3g} is allowed"

    def record(self) -> dict[str, Any]:
        """The summary, for JSON: which has no number for what is not finite."""
        first = None
        if self.failed():
            step, _, name, difference = min(self.beyond)
            op, line = self.recorded.places[name]
            said = difference if np.isfinite(difference) else str(difference)
            first = {"step": step, "variable": name, "op": op, "line": line, "difference": said}
        return {
            "selftest": "beyond" if self.failed() else "ok",
            "dtype": self.dtype,
            "steps": self.steps,
            "variables": len(self.compared),
            "beyond": self.failed(),
            "first": first,
        }

    def tell(self) -> int:
        """Prints both; the exit code."""
        print("\n".join(self.lines()))
        print(json.dumps(self.record()))
        return BEYOND_BOUND if self.failed() else 0


def selftest(program: Program, arguments: argparse.Namespace) -> int:
    """Runs the recorded steps on the host: every stage of the first one, outputs and states of all."""
    if arguments.set or arguments.tokens is not None:
        raise ArtifactError("--selftest takes every value from the recording: leave --set and --tokens out")
    recorded, dtype = Recorded(program), torch_dtype(arguments.dtype)
    module = program.module()
    given = recorded.weights()
    load_parameters(module, program.leaves, program.names, program.fills, arguments.weights, dtype, given)
    stages = recorded.named("stage")
    read = Reader(program, module, [*recorded.compared, *stages], not arguments.no_checks)
    states, inputs, tokens = recorded.first_states(dtype), recorded.inputs(), recorded.tokens()
    if arguments.prefill:  # with prefill
        recorded_chunk(program, recorded.steps)  # with prefill
    every = [*recorded.compared, *stages]  # with prefill
    read = in_chunks(program, read, module, inputs, tokens, dtype, arguments, every)  # with prefill
    report = Report(recorded, arguments.dtype, recorded.compared)
    for step in range(recorded.steps):
        values, states = read.step(step_inputs(program, module, inputs, states, tokens, step, dtype), states)
        report.add(step, {name: values[name] for name in [*recorded.compared, *(stages if step == 0 else ())]})
    return report.tell()


def finite_largest(values: Any) -> float:
    values = np.abs(values[np.isfinite(values)])
    return float(values.max()) if values.size else 0.0


def relative(right: Any, found: Any, largest: float) -> float:
    """The largest absolute difference over `largest`; infinite for NaN, and for infinities that differ."""
    a, b = right.astype(np.float64), found.astype(np.float64)
    apart = a != b  # a NaN is apart from everything, and is not finite
    if not apart.any():
        return 0.0
    if not (np.isfinite(a[apart]).all() and np.isfinite(b[apart]).all()) or not largest:
        return float("inf")
    return float(np.abs(a[apart] - b[apart]).max() / largest)
