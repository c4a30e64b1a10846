"""The texts of an artifact: the model, and which of its names is which variable."""

from __future__ import annotations

import json
from collections.abc import Iterable

from logos import Bound, Job, Role, Value, WeightEntry
from logos_sample.spelling import Body, value_name

STORED = (Role.WEIGHT, Role.TABLE, Role.CONSTANT)


def dtype(value: Value) -> str:
    """How weight files call a tensor's elements."""
    return "F32" if value.real else "I64"


def stored(job: Job) -> list[Bound]:
    """The leaves that lie in files beside the model: those that a sentence reads."""
    return [one for one in job.binding.leaves if one.role in STORED and job.graph.readers(one.name)]


def weight_path(bound: Bound) -> str:
    (file,) = WeightEntry(bound.name, dtype(bound.leaf.value)).files
    return f"weights/{file}"


def fed(job: Job) -> list[Value]:
    """What each step is given: inputs, and states."""
    return [one.leaf.value for one in job.binding.leaves if one.role not in STORED]


def results(job: Job) -> list[Value]:
    """What each step returns beside its states: the output and, where that is an argmax, its operand."""
    made = job.graph.producer(job.graph.output)
    chosen = made.inputs if made is not None and made.op.name == "argmax" else ()
    return [value for value in (job.graph.output, *chosen) if job.graph.producer(value) is not None]


def written(job: Job) -> list[Value]:
    """The states after a step."""
    newest = job.graph.newest()
    return [newest[leaf.name] for leaf in job.graph.states]


def model_text(job: Job) -> str:
    """The model in ONNX's own textual syntax."""
    body = Body()
    for node in job.graph.nodes:
        body.sentence(node)
    files = (f'{declared([one.leaf.value])} = ["location": "{weight_path(one)}"]' for one in stored(job))
    returned = dict.fromkeys([*results(job), *written(job)])
    return "\n".join([
        '<ir_version: 10, opset_import: ["" : 21]>',
        "step (", declared(fed(job)), ") => (", declared(returned), ") <", ",\n".join(files), "> {",
        *(f"  {line}" for line in body.lines), "}", "",
    ])  # fmt: skip


def declared(values: Iterable[Value]) -> str:
    types = {"F32": "float", "I64": "int64"}
    return ",\n".join(f"  {types[dtype(one)]}[{one.rows},{one.columns}] {value_name(one)}" for one in values)


def manifest_text(job: Job) -> str:
    newest = job.graph.newest()
    tensors = []
    for bound in job.binding.leaves:
        value = bound.leaf.value
        tensor = {"var": bound.name, "shape": value.shape, "dtype": dtype(value), "role": bound.role.value}
        tensor |= {"onnx": value_name(value)}
        tensor |= {"after": value_name(newest[bound.name])} if bound.role is Role.STATE else {}
        tensor |= {"file": weight_path(bound)} if bound in stored(job) else {}
        tensors.append(tensor)
    record = {
        "schema": "logos.sample.manifest",
        "version": 1,
        "generator": "logos-sample 1.0",
        "inputs": [bound.name for bound in job.binding.leaves if bound.role is Role.INPUT],
        "states": [leaf.name for leaf in job.graph.states],
        "output": job.graph.output.name,
        "outputs": [value.name for value in results(job)],
        "tensors": tensors,
    }
    return json.dumps(record, indent=1) + "\n"
