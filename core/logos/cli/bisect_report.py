"""What `logos verify --bisect` prints of a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from logos.cli.build_options import amount
from logos.cli.events import json_text
from logos.source import brief, printable

if TYPE_CHECKING:
    from logos.bisection import Place, Stage
    from logos.finding import Finding
    from logos.graph import Value
    from logos.measure import Gap, Measure
    from logos.weights.binding import Binding

_HELD = ("weight", "table", "constant")
_SHOWN = 8
"""Values that a list names; of more it says how many."""


def show_finding(finding: Finding, binding: Binding, target: str, dtype: str, as_json: bool, run: bool = True) -> None:
    """One finding, of an artifact that was run or of arrays: lines for a person, or one JSON object."""
    report = _Report(finding, binding, run)
    if as_json:
        click.echo(json_text({"target": target, "dtype": dtype, **report.record()}))
        return
    for line in report.lines(dtype):
        click.echo(printable(brief(line)))


class _Report:
    def __init__(self, finding: Finding, binding: Binding, run: bool) -> None:
        self.graph, self.finding = binding.graph, finding
        self.names = {value: name for name, value in binding.graph.taps.items()}
        self.run = run
        self.side = "the artifact" if run else "the array"
        self.missing = "the target reads no earlier versions of a name" if run else "there is no array of them"
        self.roles = {bound.name: bound.role.value for bound in binding.leaves}

    def lines(self, dtype: str) -> Iterator[str]:
        finding, first, cause = self.finding, self.finding.first, self.finding.cause
        steps = amount(finding.steps, "step")
        if first is None:
            yield f"{dtype}: every stage holds at {steps}; {amount(len(finding.read), 'value')} compared"
            if finding.nearest is not None:
                (step, index), measure = finding.nearest
                yield f"  nearest to its bound: {self._measured(measure)}; step {step}, {self._where(index)}"
        else:
            yield f"{dtype}: the first stage beyond its bound, of {steps}: step {first.step}, {self._where(first)}"
            yield from self._stage(first)
        if cause is not None:
            bound = "within the bound of a model, beyond that of one op" if first is None else "before it, alone"
            yield f"  {bound}: step {cause.step}, {self._where(cause)}"
            yield from self._stage(cause)
        if finding.unread:
            count, names = len(finding.unread), [self.names[value] for value in finding.unread]
            yield f"  not compared, since {self.missing}: {amount(count, 'value')} ({self._listed(names)})"
        if finding.fault is not None:
            yield f"  {self._verdict()}"

    def _stage(self, stage: Stage) -> Iterator[str]:
        node = stage.node
        yield f"    {node.span.excerpt()[0].strip()}"
        read = ", ".join(self._shaped(value) for value in dict.fromkeys(node.inputs))
        made = ", ".join(self._shaped(value) for value in node.results)
        yield f"  {node.op.name}: {read} → {made}"
        for measure in stage.results:
            yield f"  made {self._measured(measure)}{_mark(measure)}"
            if not measure.holds or measure is stage.worst:
                yield from self._element(measure.gap, "the reference machine")
        for measure in stage.operands:
            yield f"  read {self._measured(measure)}{_mark(measure)}"
        for measure in stage.leaves:
            role = self.roles[measure.value.name]
            said = "as it should be, but for rounding" if measure.holds else "NOT AS IT SHOULD BE"
            yield f"  read {self.names[measure.value]} ({role}): {said}"
            yield from self._element(measure.gap, "the reference machine")
        for measure in stage.alone or ():
            yield f"  alone, from what it read: {self._measured(measure)}{_mark(measure)}"
            if not measure.holds:
                yield from self._element(measure.gap, "what it read gives")

    def _verdict(self) -> str:
        finding, stage = self.finding, self.finding.culprit
        assert stage is not None
        where, names = self._where(stage), self.names
        if finding.fault == "stage":
            return f"the fault lies in the stage at {where}: what it read does not give what it made{self._unsure()}"
        if finding.fault == "leaf":
            wrong = ", ".join(f"{self.roles[one.value.name]} {names[one.value]}" for one in stage.wrong_leaves)
            return f"the fault lies in the {wrong}: the stage at {where} made what it gives"
        if finding.fault == "unread":
            lines = self._listed([str(node.line) for node in finding.inside])
            border = self._listed([names[value] for value in finding.border])
            behind = f", behind {border}, which hold" if border else ""
            return f"the fault lies in the stages of lines {lines}{behind}: the rest between them was not read"
        if finding.fault == "program":
            return f"the reference machine itself makes no number at {where}: look at the program and its values"
        most = finding.most
        adds = ""
        if most is not None:
            (step, index), measure = most
            adds = f"; most adds {self._measured(measure)}, step {step}, {self._where(index)}"
        return f"no stage errs alone: each made what it read gives, and the differences add up{adds}"

    def _unsure(self) -> str:
        """The weights and tables that the stage read and that were not compared: the fault may be theirs."""
        stage = self.finding.culprit
        assert stage is not None
        compared = {measure.value for measure in stage.leaves}
        held = (value for value in dict.fromkeys(stage.node.inputs) if value not in compared)
        names = [self.names[value] for value in held if self.roles.get(value.name) in _HELD]
        if not names:
            return ""
        how = "" if self.run else f": add it by --get '*,{','.join(names[:_SHOWN])}'"
        return f", unless the fault is in {self._listed(names)}, not compared{how}"

    def _where(self, stage: Stage | int) -> str:
        node = self.graph.nodes[stage if isinstance(stage, int) else stage.node.index]
        return f"{self.graph.source.name}:{node.line}"

    def _shaped(self, value: Value) -> str:
        return f"{self.names[value]} ({value.rows} by {value.columns})"

    def _measured(self, measure: Measure) -> str:
        return f"{self.names[measure.value]}: difference {measure.difference:.3g}, bound {measure.bound:.3g}"

    def _listed(self, names: Sequence[str]) -> str:
        more = len(names) - _SHOWN
        return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")

    def _element(self, gap: Gap | None, due: str) -> Iterator[str]:
        if gap is not None:
            yield f"    row {gap.row}, column {gap.column}: {self.side} {gap.found:.10g}, {due} {gap.due:.10g}"

    def record(self) -> dict[str, Any]:
        """The finding as data."""
        finding = self.finding
        return {
            "steps": finding.steps,
            "compared": len(finding.read),
            "unread": [self.names[value] for value in finding.unread],
            "holds": finding.first is None,
            "first": self._stage_record(finding.first),
            "cause": self._stage_record(finding.cause),
            "fault": finding.fault,
            "inside": [node.line for node in finding.inside],
            "border": [self.names[value] for value in finding.border],
            "most": self._placed(finding.most),
            "nearest": self._placed(finding.nearest),
        }

    def _stage_record(self, stage: Stage | None) -> dict[str, Any] | None:
        if stage is None:
            return None
        node = stage.node
        measured = {"made": stage.results, "read": stage.operands, "leaves": stage.leaves, "alone": stage.alone}
        return {
            "step": stage.step,
            "where": node.span.label(),
            "sentence": printable(node.span.source.lines[node.line - 1].strip()),
            "op": node.op.name,
            "inputs": [{"variable": self.names[value], "shape": list(value.shape)} for value in node.inputs],
            "results": [{"variable": self.names[value], "shape": list(value.shape)} for value in node.results],
            **{key: None if found is None else [self._measure_record(one) for one in found]
               for key, found in measured.items()},
        }  # fmt: skip

    def _measure_record(self, measure: Measure) -> dict[str, Any]:
        gap = measure.gap
        worst = {} if gap is None else {
            "row": gap.row, "column": gap.column, "found": gap.found, "reference": gap.due
        }  # fmt: skip
        name = self.names[measure.value]
        said = {"variable": name, "difference": measure.difference, "bound": measure.bound, "holds": measure.holds}
        return {**said, **worst}

    def _placed(self, placed: tuple[Place, Measure] | None) -> dict[str, Any] | None:
        if placed is None:
            return None
        (step, index), measure = placed
        return {"step": step, "line": self.graph.nodes[index].line, **self._measure_record(measure)}


def _mark(measure: Measure) -> str:
    return "  ok" if measure.holds else "  BEYOND ITS BOUND"
