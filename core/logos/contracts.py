"""Whether what a plugin offers keeps the contract of its kind, said in a line where it does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container
from typing import Any

from logos.bounds import DTYPES
from logos.discovery import said
from logos.hookspecs import API, Job, Target
from logos.op import Op, Rows, Shapes, TypeRule
from logos.refusal import Refused, refuse
from logos.source import Spot

_ASKED = ("refusals", "emit", "steps", "outputs", "dtypes", "run")


def fault(offered: Any, kind: type[Any]) -> str | None:
    """What is wrong with an offer of a kind (Target, CheckpointFormat, Family, Op); None where nothing is.

    An offer is a stranger's object: whatever it raises when it is looked at is its fault too.
    """
    try:
        return _fault(offered, kind)
    except Exception as error:
        return f"a {type(offered).__name__} raised {said(error)} when it was looked at"


def _fault(offered: Any, kind: type[Any]) -> str | None:
    what = f"a {type(offered).__name__}"
    if kind is Target and getattr(offered, "api", API) != API:
        return f"its target {offered.name} is for contract version {offered.api!r}; this is version {API}"
    if kind is Op:
        return _op_fault(offered) if isinstance(offered, Op) else f"{what} is no Op"
    missing = [name for name in dir(kind) if not name.startswith("_") and not hasattr(offered, name)]
    if missing or isinstance(offered, type):
        ending = f": it has no {', '.join(missing)}" if missing else ": it is a class, not an object"
        return f"{what} is no {kind.__name__}{ending}"
    if not isinstance(offered.name, str) or not offered.name:
        return f"the name of {what} is {offered.name!r}, not a text"
    return _target_fault(offered) if kind is Target else None


def _target_fault(target: Target) -> str | None:
    if not isinstance(target.options, type) or not dataclasses.is_dataclass(target.options):
        return f"the options of its target {target.name} are no dataclass"
    for attribute in ("spells", "fuses", "stores"):
        names = getattr(target, attribute)
        if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(n, str) for n in names):
            return f"`{attribute}` of its target {target.name} is {names!r}, not names"
    for method in _ASKED:
        if not callable(getattr(target, method)):
            return f"`{method}` of its target {target.name} is {getattr(target, method)!r}, not a method"
    return None


def compared_of(target: Target, job: Job) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A target's `outputs` and `dtypes` of a job. Refused: ones that are not what the contract says
    (`broken-target`)."""
    outputs, dtypes = target.outputs(job), target.dtypes(job)
    if not _are_of(outputs, job.graph.newest()):
        raise _broken(target, f"`outputs` gave {outputs!r}, not names of the program's variables")
    if not dtypes or not _are_of(dtypes, DTYPES):
        raise _broken(target, f"`dtypes` gave {dtypes!r}, not some of {', '.join(DTYPES)}")
    return outputs, dtypes


def _are_of(names: object, known: Container[str]) -> bool:
    return isinstance(names, tuple) and all(isinstance(name, str) and name in known for name in names)


def _broken(target: Target, what: str) -> Refused:
    return refuse("broken-target", f"its {what}", Spot(f"target {target.name}"), "tell its authors")


def _op_fault(op: Op) -> str | None:
    """The parts of a declaration that the core reads unasked; a broken one raises here, not in someone's command."""
    holes = {word.text for word in op.pattern.holes}
    lost = {*op.counts, *op.values, *op.indexes, *op.writes, *(h for rule in op.shapes for h in rule.operands)} - holes
    if lost:
        return f"its op {op.name} has no hole {', '.join(sorted(lost))} in its sentence"
    if not op.pattern.variants or not op.shapes or not callable(op.value):
        return f"its op {op.name} lacks a sentence, shapes or a value"
    for rule in op.shapes:
        unsized = _always(op, rule) - rule.operands.keys()
        if unsized:
            return f"its op {op.name} has no shape for {', '.join(sorted(unsized))} in `{rule.text}`"
    if op.type is TypeRule.SAME and not op.exact:
        return f"its op {op.name} has the type of its operands but is not exact on Int"
    for index in op.indexes:
        op.table(index)
    return None if op.rows is None else _rows_fault(op, op.rows)


def _always(op: Op, rule: Shapes) -> set[str]:
    """The tensor operands that are there wherever a shape rule is asked."""
    optional = {word.text for is_optional, words in op.pattern.parts for word in words if is_optional}
    return set(op.tensors) - (optional - {*rule.given})


def _rows_fault(op: Op, rows: Rows) -> str | None:
    """What is wrong with an op's rule for many steps, whose functions are looked at when it is used."""
    if isinstance(rows.holes, str) or not set(rows.holes) <= {*op.tensors, *op.indexes} - set(op.writes):
        return f"the rule for many steps of its op {op.name} holds {rows.holes!r}, not names of operands that it reads"
    pairs = {**rows.sets, **rows.reads}
    if not set(pairs.values()) <= set(op.indexes) or not set(rows.sets) <= set(op.writes):
        return f"the rule for many steps of its op {op.name} names rows or states that the op has not"
    if not set(rows.reads) <= set(op.tensors) - set(op.writes):
        return f"the rule for many steps of its op {op.name} reads rows of what is no operand"
    return None
