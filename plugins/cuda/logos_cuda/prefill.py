"""Kind forward over prompts: the steps of many tokens at once beside those of one, with rows that can be read out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from logos import Graph, Job, Refusal, Refused, Spot, Value, step_input, unroll
from logos_cuda.choice import storage_of
from logos_cuda.emit import program_text, template
from logos_cuda.generate import MOST_STEPS, Generation, ManyDriver, generation
from logos_cuda.lower import stored_graph
from logos_cuda.stages import ForwardError

_NEXT = "leave the option prefill out"


def prefill_refusals(job: Job) -> Iterator[Refusal]:
    """What is wrong with the option prefill: a number of steps out of range or beyond a table of `pos`
    (`prefill-steps`), a kind or a program that takes no tokens (`prefill-no-tokens`). Of kind forward, what many steps
    at once do not equal (`no-row-rule`, `steps-not-at-once`) and what no kernel takes of them (`no-kernel`)."""
    steps, place, kind = job.options.prefill, Spot("-D prefill"), job.options.kind
    if steps is None:
        return
    if not 1 <= steps <= MOST_STEPS:
        what = f"prefill is {steps}; it is a number of steps"
        yield Refusal("prefill-steps", what, place, f"give one from 1 to {MOST_STEPS}, or leave the option out")
    elif kind in ("op", "moe", "gemm"):
        what = f"prefill takes chunks of tokens, and kind {kind} makes a single step"
        yield Refusal("prefill-no-tokens", what, place, _NEXT)
    elif kind == "forward":
        yield from _forward_refusals(job, steps)


def _forward_refusals(job: Job, steps: int) -> Iterator[Refusal]:
    graph = job.graph
    if step_input(graph, "tok") is None:
        what = "prefill takes chunks of tokens, and the program has no input tok, 1 by 1 of Int"
        yield Refusal("prefill-no-tokens", what, Spot(graph.source.name), _NEXT)
        return
    if (shortest := _shortest(graph)) is not None and shortest[1] < steps:
        what = f"prefill is {steps}, and pos is a row of {shortest[0]}, which has {shortest[1]}"
        yield Refusal("prefill-steps", what, Spot("-D prefill"), f"give at most {shortest[1]} steps")
    try:
        many = unroll(graph, steps, tuple(_asked(graph))).graph
        stored_graph(many, storage_of(job), job.hold)
    except Refused as refused:
        yield from (replace(refusal, next=_NEXT) for refusal in refused.refusals)
    except ForwardError as error:
        for refusal in dict.fromkeys(error.refusals):
            place = many.nodes[refusal.statement].span
            yield Refusal("no-kernel", f"many steps at once, {refusal.what}", place, _NEXT)


def _shortest(graph: Graph) -> tuple[str, int] | None:
    """The table with the fewest of the rows that the position counts, and how many; None where it counts none."""
    found = []
    for node, hole in graph.readers("pos"):
        table = node.operands[node.op.table(hole)] if hole in node.op.indexes else None
        if isinstance(table, Value) and node.operands[hole] == step_input(graph, "pos"):
            found.append((table.name, table.rows))
    return min(found, key=lambda pair: pair[1], default=None)


def _asked(graph: Graph) -> Iterator[Value]:
    """The values that a chunk has a row of for every step: the output and all that is chosen."""
    if all(leaf.name != graph.output.name for leaf in graph.states):
        yield graph.output
    yield from (node.out for node in graph.nodes if node.op.name == "argmax" and node.out is not None)


def forward_generation(job: Job) -> Generation:
    """The steps of a job of kind forward that makes many at once."""
    return generation(job.graph, storage_of(job), job.options.prefill, job.hold, tuple(_asked(job.graph)))


def forward_text(job: Job) -> str:
    """Its source."""
    made = forward_generation(job)
    return program_text(_Driver(made), made.kernels, template("prefill.cuh"), "forward.cu")


class _Driver(ManyDriver):
    """The driver with the table of what a chunk has of every value that can be read out."""

    def __init__(self, made: Generation) -> None:
        super().__init__(made, generates=False)
        assert made.many is not None  # refused before anything is written
        assert made.unrolled is not None
        self.many, self.unrolled = made.many, made.unrolled
        self.alike = _alike(self.program)

    def tables(self) -> str:
        values = self.own.values.values()
        buffers = [self.many.held[self.unrolled.rows(value)].name for value in values]
        rows = [self._rows_of(value) for value in values]
        names = ("int chunk_buffers", buffers), ("int chunk_rows", rows)
        enum = "enum { EACH, LAST, BEFORE, ALIKE };"
        return "\n\n".join((super().tables(), enum, *(_array(name, entries) for name, entries in names)))

    def _rows_of(self, value: Value) -> str:
        """What a chunk has of a value: a row of each step, the last step's alone, one that is the same at all; `BEFORE`
        is what a state was before the last step."""
        if value in self.unrolled.stepwise:
            return "EACH"
        if value in self.alike:
            return "ALIKE"
        return "BEFORE" if any(leaf.value == value for leaf in self.program.states) else "LAST"


def _array(name: str, entries: Sequence[str]) -> str:
    return "\n".join((f"const {name}[] = {{", *(f"    {entry}," for entry in entries), "};"))


def _alike(graph: Graph) -> Collection[Value]:
    """The values that are the same at every step."""
    names = {name for name in ("tok", "pos") if step_input(graph, name)}
    names.update(value.name for node in graph.nodes for value in node.writes.values())
    found = {leaf.value for leaf in graph.leaves if leaf.name not in names}
    for node in graph.nodes:
        if not node.writes and found.issuperset(node.inputs):
            found.update(node.results)
    return found
