"""The probes: for each spelling and each torch operator, in each dtype, a module, a script and values in a folder.

The values are computed here, by the reference machine and by formulas in numpy float64. So that another machine's last
digit changes no byte, they are rounded to `DIGITS` decimals, far below every bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos import Artifact, Job, Machine, Manager, Node, Request, Role, Source, Value, make_job, make_manager
from logos_sambaflow.alternatives import ALTERNATIVES, in_dtypes
from logos_sambaflow.emit import LICENCE, VENDOR_HEADER
from logos_sambaflow.forward import folded, statement
from logos_sambaflow.layout import PARAMETERS, Layout
from logos_sambaflow.manifest import generator
from logos_sambaflow.operators import FORMULAS, SHAPES
from logos_sambaflow.operators import PARAMETERS as OPERATOR_PARAMETERS
from logos_sambaflow.parts import closure, digest, helpers, parts, text
from logos_sambaflow.probe_programs import ROW, program
from logos_sambaflow.spelling import FIRST_OPS, operators_of
from logos_sambaflow.support import SCHEMA as SUPPORT_SCHEMA
from logos_sambaflow.support import VERSION as SUPPORT_VERSION

Array = NDArray[Any]

DIGITS = 9
BOUNDS: Mapping[str, float] = {"float32": 1e-4, "bfloat16": 2e-2, "int32": 0.0, "int64": 0.0}
"""The verification rule's bounds for one op; whole numbers agree exactly."""

_BITS = {"float32": 10, "bfloat16": 7, "int32": 29, "int64": 28}
"""The bits of a value of each dtype."""

_WHOLE = ("matmul", "plus", "hadamard", "transpose", "argmax", "embedding", "set_row")
"""The first spellings that are exact on Int (a matmul by a weight of Int is spelled as any other)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a probe: its name, its dtype as torch calls it, its values in float64, int64 or bool."""

    name: str
    dtype: str
    array: Array


@dataclass(frozen=True, slots=True)
class Probe:
    """One module: the functions and the body of its forward, what it takes, and what it must give."""

    kind: str
    name: str
    op: str
    dtype: str
    inputs: tuple[Entry, ...]
    parameters: tuple[Entry, ...]
    functions: tuple[str, ...]
    lines: tuple[str, ...]
    returned: tuple[str, ...]
    expected: tuple[Array, ...]

    @property
    def folder(self) -> str:
        return f"{self.kind}s/{self.name}-{self.dtype}"


def probe_artifacts() -> Sequence[Artifact]:
    """run_probes.py, probes.json, which lists the probes in the order of their running, and each probe's folder."""
    found = tuple(probes(make_manager()))
    listed = [
        {
            "kind": one.kind,
            "name": one.name,
            **({"op": one.op, "digest": digest(one.name)} if one.kind == "spelling" else {}),
            "dtype": one.dtype,
            "bound": BOUNDS[one.dtype],
            "folder": one.folder,
        }
        for one in found
    ]
    head = {"schema": SUPPORT_SCHEMA, "version": SUPPORT_VERSION, "generator": generator()}
    artifacts = [Artifact("run_probes.py", _script("run_probes.py")), Artifact("probes.json", _index(head, listed))]
    for one in found:
        artifacts += [
            Artifact(f"{one.folder}/module.py", _module(one)),
            Artifact(f"{one.folder}/compile.py", _script("probe_compile.py")),
            Artifact(f"{one.folder}/values.json", _values(one)),
        ]
    return artifacts


def probes(manager: Manager) -> Iterator[Probe]:
    """Every probe: first spellings, since a build needs these alone where all is well, then operators, then
    alternatives."""
    yield from (one for first in FIRST_OPS for one in _of_spelling(manager, first, first))
    yield from (_of_operator(name, dtype) for name, dtype in probed_operators())
    for first, others in ALTERNATIVES.items():
        yield from (one for other in others for one in _of_spelling(manager, first, other))


def probed_operators() -> tuple[tuple[str, str], ...]:
    """Every torch operator of a spelling with each dtype in which it is used."""
    used: set[tuple[str, str]] = set()
    for first in FIRST_OPS:
        dtypes = ("float32", "bfloat16", *(("int64",) if first in _WHOLE else ()))
        for dtype in dtypes:
            for helper in (first, *ALTERNATIVES.get(first, ())):
                used.update(in_dtypes(helper, operators_of(helper, "listed"), dtype))
            used.update(in_dtypes(first, operators_of(first, "plain"), dtype))
    order = tuple(BOUNDS)
    # A cast is from int32 and to float32, whatever else a probe would call its dtype.
    kept = [(name, dtype) for name, dtype in used if name != "cast" or dtype in ("float32", "bfloat16")]
    return tuple(sorted(kept, key=lambda one: (one[0], order.index(one[1]))))


def _of_spelling(manager: Manager, first: str, helper: str) -> Iterator[Probe]:
    for dtype in ("float32", "bfloat16", *(("int64",) if first in _WHOLE else ())):
        text = program(first, dtype == "int64")
        options = {} if dtype == "int64" else {"dtype": dtype}
        request = Request(Path("probe.lg"), options=options, source=Source("probe.lg", text))
        _, job = make_job(manager, request, "rdu-sambaflow")
        yield _spelling_probe(job, helper, dtype)


def _spelling_probe(job: Job, helper: str, dtype: str) -> Probe:
    layout, node, pool = Layout(job), job.graph.nodes[0], helpers("listed")
    written = statement(layout, node, pool[helper])
    values = {leaf.name: _leaf_values(layout, node, leaf.value, dtype) for leaf in job.graph.leaves}
    made = Machine(job.graph, values).step()
    constants = (Entry(name, "int32", np.array(numbers)[:, None]) for name, numbers in written.needs.items())
    return Probe(
        kind="spelling",
        name=helper,
        op=node.op.name,
        dtype=dtype,
        inputs=_entries(layout, values, (Role.INPUT, Role.STATE)),
        parameters=(*_entries(layout, values, PARAMETERS), *constants),
        functions=tuple(part.source for part in closure([helper], pool)),
        lines=written.lines[1:],
        returned=tuple(layout.names[value.name] for value in node.results),
        expected=tuple(made[value] for value in node.results),
    )


def _entries(layout: Layout, values: Mapping[str, Array], roles: Iterable[Role]) -> tuple[Entry, ...]:
    """The leaves of some roles as the module holds them."""
    entries = []
    for leaf in layout.leaves(*roles):
        kind, array = layout.kinds[leaf.name], values[leaf.name]
        dtype = kind if kind.startswith("int") else layout.options.dtype
        entries.append(Entry(layout.names[leaf.name], dtype, array.T if kind == "linear" else array))
    return tuple(entries)


def _leaf_values(layout: Layout, node: Node, value: Value, dtype: str) -> Array:
    holes = [hole for hole, operand in node.operands.items() if operand == value]
    if any(hole in node.op.indexes for hole in holes):
        return np.full(value.shape, ROW)
    array = numbers(value.name, value.shape, dtype)
    return -np.abs(array) if any(hole in node.op.negative for hole in holes) else array


def _of_operator(name: str, dtype: str) -> Probe:
    part = parts("operator_probes.py")[name]
    entries = [Entry(parameter, *_operand(parameter, dtype)) for parameter in part.parameters]
    results = FORMULAS[name](*(entry.array for entry in entries))
    expected = results if isinstance(results, tuple) else (results,)
    returned = tuple(f"result{number}" for number in range(len(expected)))
    arguments = [f"self.{one.name}" if one.name in OPERATOR_PARAMETERS else one.name for one in entries]
    return Probe(
        kind="operator",
        name=name,
        op=name,
        dtype=dtype,
        inputs=tuple(entry for entry in entries if entry.name not in OPERATOR_PARAMETERS),
        parameters=tuple(entry for entry in entries if entry.name in OPERATOR_PARAMETERS),
        functions=(part.source,),
        lines=(f"        {', '.join(returned)} = {name}({', '.join(arguments)})",),
        returned=returned,
        expected=expected,
    )


def _operand(parameter: str, dtype: str) -> tuple[str, Array]:
    """The dtype and the values of an operator's operand, by the parameter that takes it."""
    shape = SHAPES[parameter]
    if parameter in ("row", "rows"):
        return "int32", (ROW + np.arange(np.prod(shape)) % 2).reshape(shape)
    array = numbers(parameter, shape, dtype)
    if parameter == "mask":
        return "bool", array > 0
    return dtype, np.abs(array) if parameter == "p" else array


def numbers(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    """Values that the dtype holds exactly, so that a difference is the operation's own: for float32 odd multiples of
    2^−10, which bfloat16 does not hold, below 1; whole numbers beyond what a float32 holds, whose products fit."""
    random = Random(f"{name} {shape} {dtype}")
    bits = _BITS[dtype]
    drawn = [(random.getrandbits(bits) | 1) * (1 - 2 * random.getrandbits(1)) for _ in range(int(np.prod(shape)))]
    array = np.array(drawn).reshape(shape)
    return array if dtype.startswith("int") else array / 2**bits


def _index(head: Mapping[str, object], listed: Iterable[Mapping[str, object]]) -> str:
    lines = ",\n".join(f"  {json.dumps(one)}" for one in listed)
    fields = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    return f'{{\n{fields} "probes": [\n{lines}\n ]\n}}\n'


def _script(name: str) -> str:
    """A real file as it is, under the artifact's header in place of the note for mypy."""
    return "\n".join((VENDOR_HEADER, LICENCE, text(name).split("\n", 1)[1]))


def _module(probe: Probe) -> str:
    given = ["self", *(entry.name for entry in probe.inputs)]
    return Template(text("probe_module.py.in")).substitute(
        header="\n".join((VENDOR_HEADER, LICENCE)),
        helpers="\n\n\n".join(probe.functions),
        what=f"The {probe.kind} {probe.name} in {probe.dtype}",
        forward="\n".join(folded("def forward(", given, "):", indent=4)),
        body="\n".join(probe.lines),
        returned=", ".join(probe.returned),
    )


def _values(probe: Probe) -> str:
    record = {
        "inputs": [_entry(entry) for entry in probe.inputs],
        "parameters": [_entry(entry) for entry in probe.parameters],
        "expected": [rounded(array) for array in probe.expected],
    }
    return json.dumps(record) + "\n"


def _entry(entry: Entry) -> dict[str, object]:
    return {"name": entry.name, "dtype": entry.dtype, "values": entry.array.tolist()}


def rounded(array: Array) -> list[Any]:
    """Nested lists: whole numbers as they are, reals rounded (+ 0.0, since a rounded −1e-12 is a negative zero)."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        array = np.array([round(one, DIGITS) for one in array.ravel().tolist()]).reshape(array.shape) + 0.0
    else:
        array = array.astype(np.int64)
    made: list[Any] = array.tolist()
    return made
