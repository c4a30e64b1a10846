"""The rdu-sambaflow target: a PyTorch module for SambaFlow, with its manifest, compile script and weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from logos import (
    API,
    Artifact,
    Inputs,
    Job,
    Node,
    Recording,
    Refusal,
    Refused,
    Role,
    Spot,
    Steps,
    Value,
    WeightEntry,
    WeightFile,
    suggestion,
)
from logos_sambaflow.emit import compile_text, many_of, model_text
from logos_sambaflow.forward import statements
from logos_sambaflow.layout import PARAMETERS, Layout
from logos_sambaflow.manifest import manifest_text
from logos_sambaflow.options import Options
from logos_sambaflow.prefill import PrefillLayout, prefill_refusals
from logos_sambaflow.readme import readme_text
from logos_sambaflow.spelling import SPELLS, base_op

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "rdu-sambaflow"
WEIGHTS = "weights.safetensors"
SELFTEST = "selftest.safetensors"
_INT32_ROWS = 2**31


class SambaflowTarget:
    """The contract of `logos.Target`; see there."""

    name = NAME
    api = API
    spells = SPELLS
    fuses: tuple[str, ...] = ()
    stores = ("float32", "bfloat16")
    options = Options
    reads_versions = True

    def refusals(self, job: Job) -> Iterable[Refusal]:
        """Outputs that forward cannot return (`unknown-output`, `output-is-leaf`, `output-twice`), a number of steps
        below 0 (`selftest-steps`), row numbers beyond 32 bits (`too-many-rows`); a support.toml that is not sound, and
        ops of which the probes left no spelling (`unsupported-op`)."""
        yield from _output_refusals(job)
        if job.options.selftest < 0:
            what = f"selftest is {job.options.selftest}; it is a number of steps"
            yield Refusal("selftest-steps", what, Spot("-D selftest"), "give the steps to record, or 0 for none")
        yield from _row_refusals(job)
        layout = Layout(job)
        found = (*_support_refusals(layout), *prefill_refusals(job, layout))
        yield from found
        if job.options.prefill > 0 and not found:
            yield from _support_refusals(PrefillLayout(job, layout))

    def emit(self, job: Job) -> Sequence[Artifact]:
        """model.py, compile.py, manifest.json and README.md."""
        layout = Layout(job)
        written, many = statements(layout), many_of(layout)
        stored = {entry.variable for file in self.steps(job).extractions for entry in file.entries}
        return (
            Artifact("model.py", model_text(layout, written, many)),
            Artifact("compile.py", compile_text(layout.options.state, many is not None)),
            Artifact("manifest.json", manifest_text(layout, written, stored, many)),
            Artifact("README.md", readme_text(layout, [*written, *(many.written if many else ())], bool(stored))),
        )

    def steps(self, job: Job) -> Steps:
        """weights.safetensors, where there are values to write and the options ask for it; the recording that
        `selftest` asks for."""
        layout = Layout(job)
        supplied = (leaf for leaf in layout.leaves(*PARAMETERS) if job.binding.supplies(leaf.name))
        entries = tuple(_entry(layout, leaf.value) for leaf in supplied)
        written = entries and layout.options.weights != "none"
        steps = layout.options.selftest
        return Steps(
            (WeightFile(WEIGHTS, entries),) if written else (),
            recordings=(Recording(SELFTEST, steps, layout.outputs),) if steps else (),
        )

    def outputs(self, job: Job) -> tuple[str, ...]:
        """What forward returns before the states."""
        return Layout(job).outputs

    def dtypes(self, job: Job) -> tuple[str, ...]:
        """bfloat16 for a module that stores it; one of float32 shows its arithmetic in float64 too."""
        return ("bfloat16",) if Layout(job).options.dtype == "bfloat16" else ("float64", "float32")

    def probes(self, options: Options) -> Sequence[Artifact]:
        """run_probes.py and a folder for each spelling and each torch operator in each dtype; the same whatever the
        options, since support.toml is to serve every build."""
        from logos_sambaflow.probing import probe_artifacts

        return probe_artifacts()

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, NDArray[np.generic]]:
        """Runs model.py in a Python of its own. Refused: `torch-missing`, `module-failed`."""
        from logos_sambaflow.host import run_module

        return run_module(job, inputs)


def _entry(layout: Layout, value: Value) -> WeightEntry:
    kind = layout.kinds[value.name]
    if not value.real:
        return WeightEntry(value.name, "I64")
    # Tables and constants are small, and rounded to the module's dtype they would cost accuracy in float64.
    exact = layout.roles[value.name] is not Role.WEIGHT
    stored = "F64" if exact else {"float32": "F32", "bfloat16": "BF16"}[layout.options.dtype]
    return WeightEntry(value.name, stored, transposed=kind == "linear")


def _output_refusals(job: Job) -> Iterable[Refusal]:
    known = job.graph.newest()
    leaves = {leaf.name: leaf for leaf in job.graph.leaves}
    computed = [name for name in known if name not in leaves]
    where = Spot(f"{job.graph.source.name}, outputs")
    for place, name in enumerate(job.options.outputs):
        if name not in known:
            what = f"the program has no variable {name}{suggestion(name, computed)}"
            yield Refusal("unknown-output", what, where, "name variables that the program computes")
        elif name in leaves:
            role = job.binding[name].role.value
            what = f"{name} is a leaf ({role}), which forward does not return as an output"
            next_ = "leave it out: states are returned after the outputs" if role == "state" else "leave it out"
            yield Refusal("output-is-leaf", what, where, next_)
        elif name in job.options.outputs[:place]:
            yield Refusal("output-twice", f"{name} stands twice among the outputs", where, "name it once")


def _support_refusals(layout: Layout) -> Iterable[Refusal]:
    """One refusal for each op that no spelling is left for, with every place that uses it."""
    try:
        choices = layout.choices
    except Refused as refused:
        yield from refused.refusals
        return
    lost: dict[tuple[str, ...], list[Node]] = {}
    for node in layout.graph.nodes:
        choice = choices.get(node.index)
        if choice is not None and choice.helper is None:
            lost.setdefault(choice.objections, []).append(node)
    for objections, (first, *more) in lost.items():
        what = f"{NAME} has no spelling of {base_op(first.op.name)} that the probes leave: {'; '.join(objections)}"
        next_ = "build for a dtype that was verified, write the program without this op, or probe a newer SambaFlow"
        yield Refusal("unsupported-op", what, first.span, next_, tuple(node.span for node in more))


def _row_refusals(job: Job) -> Iterable[Refusal]:
    for node in job.graph.nodes:
        for hole in node.op.indexes:
            table = node.operands[node.op.table(hole)]
            if node.operands[hole] is not None and isinstance(table, Value) and table.rows > _INT32_ROWS:
                what = f"{table.name} has {table.rows} rows; row numbers are int32 on the RDU"
                yield Refusal("too-many-rows", what, node.span, f"declare {table.name} with at most {_INT32_ROWS} rows")
