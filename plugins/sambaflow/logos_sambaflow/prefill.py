"""The second module of an artifact, which makes many steps at once: its graph, its layout, and what keeps it away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from logos import Graph, Job, Refusal, Refused, Role, Spot, Unrolled, Value, unroll
from logos_sambaflow.layout import Check, Layout
from logos_sambaflow.names import fresh, reserved

_NEXT = "leave the option prefill out"


@dataclass(frozen=True)
class PrefillLayout(Layout):
    """LogosPrefill of one job, beside the LogosModule of `single`, whose weights, names and kinds it has."""

    single: Layout

    @cached_property
    def unrolled(self) -> Unrolled:
        """The graph of the steps, with a row for each in what forward returns, and in what is to be checked. Refused: a
        program that many steps at once do not equal (`no-row-rule`, `steps-not-at-once`)."""
        graph, newest = self.single.graph, self.single.graph.newest()
        asked = {newest[name] for name in self.single.outputs}
        asked |= {node.out for node in graph.nodes if node.op.name == "argmax" and node.out is not None}
        return unroll(graph, self.options.prefill, asked)

    @property
    def graph(self) -> Graph:
        return self.unrolled.graph

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return self.single.kinds

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return self.single.outputs

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Those of the variables of one step, and of the last rows that are read out of all steps' rows."""
        names = dict(self.single.names)
        for name in self.graph.newest():
            if name not in names:
                names[name] = fresh(name, names.values(), reserved(True))
        return names

    @cached_property
    def fed(self) -> tuple[str, ...]:
        """The inputs that have a row for each step."""
        return tuple(leaf.name for leaf in self.single.graph.leaves if leaf.value in self.unrolled.stepwise)

    @cached_property
    def last(self) -> tuple[str, ...]:
        """What there is of the last step alone, by tap: states, what no step but it needs, what no step changes."""
        rows = {*self.unrolled.stepwise, *(leaf.value for leaf in self.single.graph.leaves if not leaf.state)}
        return tuple(tap for tap, value in self.single.graph.taps.items() if value not in rows)

    def _check(self, at: int, name: str, values: Sequence[Value], *more: str | int) -> Check:
        """A check of all steps' rows; a variable that one step does not have is called by its Python name."""
        check = super()._check(at, name, values, *more)
        known = self.single.names
        variables = tuple(one if one in known else self.names[one] for one in check.variables)
        return replace(check, name="rows_inside" if name == "row_inside" else name, variables=variables)


def prefill_refusals(job: Job, layout: Layout) -> Iterator[Refusal]:
    """What keeps LogosPrefill from being made: a number of steps below 0 or beyond a table of `pos` (`prefill-steps`),
    no tokens to feed (`prefill-no-tokens`), and what many steps at once do not equal (`no-row-rule`,
    `steps-not-at-once`)."""
    steps, place = job.options.prefill, Spot("-D prefill")
    if steps < 0:
        yield Refusal("prefill-steps", f"prefill is {steps}; it is a number of steps", place, "give one, or 0 for none")
    if steps <= 0:
        return
    if not any(leaf.name == "tok" and _takes_a_number(leaf.value) for leaf in layout.leaves(Role.INPUT)):
        what = "prefill takes chunks of tokens, and the program has no input tok, 1 by 1 of Int"
        yield Refusal("prefill-no-tokens", what, Spot(job.graph.source.name), _NEXT)
        return
    for name, table, rows in layout.checks:
        if name == "pos" and rows < steps:
            what = f"prefill is {steps}, and pos is a row of {table}, which has {rows}"
            yield Refusal("prefill-steps", what, place, f"give at most {rows} steps")
    try:
        fed = PrefillLayout(job, layout).fed
    except Refused as refused:
        yield from (replace(refusal, next=_NEXT) for refusal in refused.refusals)
        return
    for name in fed:
        if layout.roles[name] is not Role.INPUT:
            what = f"prefill feeds {name} a row for each step, and it is a {layout.roles[name].value} of the module"
            yield Refusal("prefill-no-tokens", what, Spot(job.graph.source.name), _NEXT)


def _takes_a_number(value: Value) -> bool:
    return not value.real and value.shape == (1, 1)
