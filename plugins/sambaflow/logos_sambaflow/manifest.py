"""manifest.json: what the artifact holds, for tools that read it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from logos import Bound, Role, Table, TensorView, Value
from logos_sambaflow.alternatives import in_dtypes
from logos_sambaflow.emit import PROVENANCE, Many
from logos_sambaflow.forward import Statement
from logos_sambaflow.layout import Layout
from logos_sambaflow.prefill import PrefillLayout
from logos_sambaflow.spelling import base_op, support

SCHEMA = "logos.sambaflow.manifest"
VERSION = 1
"""Raised when a field changes its meaning or goes; a new field leaves it."""

# Made once: json.dumps makes an encoder for every call that asks for something special.
_encode = json.JSONEncoder(ensure_ascii=False).encode


def manifest_text(
    layout: Layout, written: Iterable[Statement], stored: Collection[str], many: Many | None = None
) -> str:
    """manifest.json of the program's statements, and of LogosPrefill's where there is one; `stored` are the variables
    that weights.safetensors holds."""
    graph = layout.graph
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "provenance": PROVENANCE,
        "generator": generator(),
        "program": f"logos_{graph.source.fnv1a()}",
        "inputs": [leaf.name for leaf in layout.leaves(Role.INPUT)],
        "states": [leaf.name for leaf in layout.leaves(Role.STATE)],
        "output": graph.output.name,
        "outputs": list(layout.outputs),
        "tensors": [*_leaves(layout, stored), *_computed(layout)],
        "ops": [_op(layout, statement) for statement in written],
    }
    if many:
        record["prefill"] = _prefill(many.layout)
        record["prefill_ops"] = [_op(many.layout, statement) for statement in many.written]
    return _json(record)


def _json(record: dict[str, Any]) -> str:
    """JSON with a field a line, and in the lists of tensors and ops an entry a line."""
    fields = []
    for key, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join(f"  {_encode(entry)}" for entry in value) + "\n ]"
        else:
            text = _encode(value)
        fields.append(f" {_encode(key)}: {text}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


@cache
def generator() -> str:
    """LOGOS with its version: who wrote the file."""
    try:
        return f"logos-build {version('logos-build')}"
    except PackageNotFoundError:
        return "logos-build from source"


def _leaves(layout: Layout, stored: Collection[str]) -> Iterable[dict[str, Any]]:
    first: dict[tuple[str, object], str] = {}
    for bound in layout.binding.leaves:
        record = _tensor(layout, bound.leaf.value, bound.role.value)
        view = bound.view if isinstance(bound.view, TensorView) else None
        record["gguf"] = view.tensor if view else None
        record["view"] = _view_text(bound)
        record["file"] = "weights.safetensors" if bound.name in stored else None
        if view is not None:
            other = first.setdefault((view.tensor, view.ranges), bound.name)
            if other != bound.name:
                record["copy_of"] = other
                record["note"] = "a copy on purpose: the RDU does not take shared weights"
        yield record


def _view_text(bound: Bound) -> str | None:
    if isinstance(bound.view, Table):
        return "computed from metadata"
    return bound.view.text() if bound.view is not None else None


def _computed(layout: Layout) -> Iterable[dict[str, Any]]:
    for name, value in layout.graph.newest().items():
        if name not in layout.kinds:
            yield _tensor(layout, value, "computed") | {"gguf": None, "view": None, "file": None}


def _tensor(layout: Layout, value: Value, role: str) -> dict[str, Any]:
    kind = layout.kind(value)
    return {
        "var": value.name,
        "python_name": layout.names[value.name],
        "shape": list(value.shape),
        "dtype": kind if kind.startswith("int") else layout.options.dtype,
        "role": role,
        "transposed": kind == "linear",
    }


def _prefill(layout: PrefillLayout) -> dict[str, Any]:
    """LogosPrefill: its steps, and the inputs and outputs that have a row for each."""
    newest, stepwise = layout.single.graph.newest(), layout.unrolled.stepwise
    rows = [newest[name] for name in (*layout.fed, *layout.outputs) if newest[name] in stepwise]
    shapes = [{"var": value.name, "shape": list(layout.unrolled.rows(value).shape)} for value in rows]
    return {"module": "LogosPrefill", "steps": layout.options.prefill, "rows": shapes}


def _op(layout: Layout, statement: Statement) -> dict[str, Any]:
    node = statement.node
    record = {
        "index": node.index,
        "line": node.line,
        "out": node.results[0].name,
        "op": base_op(node.op.name),
        "inputs": [value.name for value in node.inputs],
        "writes": [value.name for value in node.writes.values()],
        "torch": statement.torch,
        "operators": _operators(layout, statement),
    }
    found = None
    if layout.options.operators == "listed":  # a plain helper may bear the name of a listed one
        found = layout.found.spelling(statement.helper.name, layout.dtype_of(node))
    return record if found is None else record | {"spelling": {"name": statement.helper.name, **found.record()}}


def _operators(layout: Layout, statement: Statement) -> list[dict[str, Any]]:
    """Each operator with what the probes found of it in the dtypes in which it is used here, else with what is known of
    it from the vendor."""
    used = in_dtypes(statement.helper.name, statement.operators, layout.dtype_of(statement.node))
    records = []
    for name in statement.operators:
        found = layout.found.operator(name, tuple(dtype for operator, dtype in used if operator == name))
        records.append({"name": name, **(found.record() if found else {"support": support(name)})})
    return records
