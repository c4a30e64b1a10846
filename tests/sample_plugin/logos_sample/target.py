"""The onnx target: a program's step as an ONNX model, with its weights beside it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logos import API, Artifact, Edge, Inputs, Job, Refusal, Rule, Steps, Value, WeightEntry, WeightFile
from logos_sample.emit import dtype, manifest_text, model_text, stored
from logos_sample.spelling import SPELLINGS


@dataclass(frozen=True)
class Options:
    """binary: whether a build goes on from model.onnxtxt to model.onnx."""

    binary: bool = True


@dataclass(frozen=True)
class OnnxTarget:
    """The contract of `logos.Target`; see there."""

    name: str = "onnx"
    api: int = API
    spells: frozenset[str] = frozenset(SPELLINGS)
    fuses: tuple[str, ...] = ()
    stores: tuple[str, ...] = ("float32",)
    options: type[Any] = Options
    reads_versions: bool = True

    def refusals(self, job: Job) -> Iterable[Refusal]:
        """Rows that the program computes: ONNX takes −1 for the last row, and nobody could check them beforehand."""
        given = {leaf.value for leaf in job.graph.leaves if not leaf.state}
        for node in job.graph.nodes:
            for hole in node.op.indexes:
                row = node.operands[hole]
                if isinstance(row, Value) and row not in given:
                    what = f"{row.name} is a row number that the program computes; ONNX would not check it"
                    yield Refusal("onnx-computed-row", what, node.span, f"make {row.name} an input of the program")

    def emit(self, job: Job) -> Sequence[Artifact]:
        return Artifact("model.onnxtxt", model_text(job)), Artifact("manifest.json", manifest_text(job))

    def steps(self, job: Job) -> Steps:
        values = [bound.leaf.value for bound in stored(job) if job.binding.supplies(bound.name)]
        entries = tuple(WeightEntry(value.name, dtype(value)) for value in values)
        files = (WeightFile("weights", entries, "raw"),) if entries else ()
        if not job.options.binary:
            return Steps(files)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assemble.py")
        command = " ".join(shlex.quote(word).replace("$", "$$") for word in (sys.executable, script))
        rule = Rule("assemble", f"{command} $in $out", "")
        return Steps(files, (rule,), (Edge("assemble", ("model.onnx",), ("model.onnxtxt",)),))

    def outputs(self, job: Job) -> tuple[str, ...]:
        return ()

    def dtypes(self, job: Job) -> tuple[str, ...]:
        return ("float32",)

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        from logos_sample.running import run_model

        return run_model(job, inputs)
