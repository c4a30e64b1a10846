"""Fusion: the table of named steps, and the plan that says which nodes of a graph act as one.

A target names the steps that it takes in `fuses`; a user holds some back. What acts as one rounds where the stages met
that it stands for, so that held and fused agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from logos.graph import Graph, Node, Value
from logos.passes import patterns
from logos.passes.dataflow import Dataflow
from logos.passes.scope import Scope, Storage

if TYPE_CHECKING:
    from logos.hookspecs import Job, Target


@dataclass(frozen=True, slots=True)
class FusionStep:
    """A named step of fusion.

    becomes  what the nodes of a match are as one stage
    sums     what that stage sums, and where it rounds
    bound    the largest difference between held and fused, as verification measures it; 0 is to the bit
    find     of a scope, the matches among some nodes. A match of one node marks the stage that it is in
    """

    name: str
    becomes: str
    sums: str
    bound: float
    find: Callable[[Scope, Sequence[Node]], Iterator[patterns.Match]]


FUSION_STEPS: tuple[FusionStep, ...] = (
    FusionStep(
        "gate-up",
        "the products of one row by a gate and an up weight, and silu(gate) · up, as swiglu or as silu and hadamard",
        "each product's sum as the product alone; both sums round to the element's type before silu",
        0.0,
        patterns.gates_with_ups,
    ),
    FusionStep(
        "norm-rope-append",
        "before an attention: the norms of query and key across heads, their rotation, the rows appended to its tables",
        "each head's mean of squares as the norm alone; the normed row rounds before it turns",
        0.0,
        patterns.turned_and_appended,
    ),
    FusionStep(
        "delta-inputs",
        "before a gated delta: convolution, silu and l2norm of query, key and value, the sigmoid of beta, the decay",
        "each channel's taps and each head's squares as the op alone; every op rounds to the element's type",
        0.0,
        patterns.delta_inputs,
    ),
    FusionStep(
        "qkv",
        "the products of one row by several weights of one storage: their rows of outputs one below another",
        "each output's sum as the product alone",
        0.0,
        patterns.shared_rows,
    ),
    FusionStep(
        "residual",
        "the product of one row by a weight, scaled by one element or not, and the rows added to it",
        "each output's sum as the product alone, rounded to the element's type before the next op",
        0.0,
        patterns.residual_sums,
    ),
    FusionStep(
        "add-norm",
        "a sum of two equal shapes and a weighted rmsnorm of it; the sum is stored where something else reads it",
        "the sum rounds to the element's type before it is squared; the mean of squares as the norm alone",
        0.0,
        patterns.added_norms,
    ),
    FusionStep(
        "chain",
        "elementwise ops (plus, hadamard, swiglu with an operand from outside; silu, sigmoid, gelu) in a register",
        "nothing; each op rounds to the element's type before the next",
        0.0,
        patterns.chains,
    ),
    FusionStep(
        "router",
        "of one row routed to experts: scores and choice; beside them a shared expert's gate and its sigmoid",
        "each score's and the gate's sum as the product alone",
        0.0,
        patterns.routers,
    ),
    FusionStep(
        "combine",
        "attention, a gated delta rule or an argmax whose parts are made side by side: what joins them joins in",
        "the parts, and what joins them, as the op alone",
        0.0,
        patterns.combined,
    ),
    FusionStep(
        "norm-quantize",
        "an rmsnorm that stores its rows in Q8_0 for the products that read them, and as numbers for what else does",
        "as the norm alone; the row rounds to the element's type before it is quantized",
        0.0,
        patterns.quantized_norms,
    ),
    FusionStep(
        "act-quantize",
        "attention, gated delta, swiglu, hadamard or the hidden rows of experts that are stored so",
        "as the op alone; the row rounds to the element's type before it is quantized",
        0.0,
        patterns.quantized_ends,
    ),
)
"""The steps there are. Of two matches of one length the one whose step stands first here acts."""

_BY_NAME = {step.name: step for step in FUSION_STEPS}


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that act as one stage, in program order, with the steps that made them one: none for a node alone.

    `inner` are the values that nothing outside reads and nobody keeps: they need not be stored.
    """

    nodes: tuple[Node, ...]
    steps: tuple[str, ...] = ()
    inner: tuple[Value, ...] = ()


def _float32(variable: str) -> str:
    return "float32"


def plan_fusion(
    graph: Graph,
    steps: Collection[str],
    held: Collection[str] = (),
    storage: Storage = _float32,
    keep: Collection[str] = (),
) -> tuple[Group, ...]:
    """The nodes of a graph in groups: each node in one, in an order in which the groups may run.

    `steps` are those that a target takes, `held` those of them that are not to act. `storage` says how a weight is
    stored, in the words of a target's `stores`: parts of unequal storage are not fused. `keep` names variables whose
    newest values are read out: like the output's, no group swallows them. Longer matches act before shorter ones. Pure:
    the same arguments give the same groups. Raises ValueError for a step that the table does not have, KeyError for a
    variable that the program does not have.
    """
    unknown = [name for name in (*steps, *held) if name not in _BY_NAME]
    if unknown:
        raise ValueError(f"no fusion step {', '.join(unknown)}; there are {', '.join(_BY_NAME)}")
    scope = Scope(graph, storage, keep)
    acting = [step for step in FUSION_STEPS if step.name in steps and step.name not in held]
    plan = _Plan(scope, acting)
    plan.carry_out()
    return tuple(plan.groups())


class _Plan:
    """The matches that act, longest first, and the order that they leave."""

    def __init__(self, scope: Scope, steps: Sequence[FusionStep]) -> None:
        self.scope, self.steps = scope, steps
        self.dataflow = Dataflow(scope.graph)
        self.labels: dict[int, str] = {}
        self.marks: dict[int, list[str]] = {}
        self.pending: list[tuple[int, int, tuple[int, ...]]] = []
        self.seen: set[tuple[int, tuple[int, ...]]] = set()

    def carry_out(self) -> None:
        for rank in range(len(self.steps)):
            self._look(rank, self.scope.graph.nodes)
        heapify(self.pending)
        while self.pending:
            _, rank, members = heappop(self.pending)
            free = [index for index in members if index not in self.labels]
            if len(free) < len(members):
                self._again(rank, free)
            elif self.dataflow.join(members):
                self.labels.update(dict.fromkeys(members, self.steps[rank].name))
            else:
                # Something must run between: what is left without the last or the first may still act as one.
                self._again(rank, members[:-1])
                self._again(rank, members[1:])

    def _again(self, rank: int, members: Sequence[int]) -> None:
        self._look(rank, [self.scope.graph.nodes[index] for index in members])

    def _look(self, rank: int, nodes: Sequence[Node]) -> None:
        for match in self.steps[rank].find(self.scope, nodes):
            members = tuple(node.index for node in match)
            if len(members) == 1:
                self.marks.setdefault(members[0], []).append(self.steps[rank].name)
            elif (rank, members) not in self.seen:
                self.seen.add((rank, members))
                heappush(self.pending, (-len(members), rank, members))

    def groups(self) -> Iterator[Group]:
        for members in self.dataflow.order():
            label = (self.labels[members[0]],) if len(members) > 1 else ()
            nodes = tuple(self.scope.graph.nodes[index] for index in members)
            marks = [mark for index in members for mark in self.marks.get(index, ())]
            yield Group(nodes, tuple(dict.fromkeys((*label, *marks))), tuple(self._inner(nodes)))

    def _inner(self, nodes: Sequence[Node]) -> Iterator[Value]:
        own = {node.index for node in nodes}
        for node in nodes:
            readers = self.scope.readers.get(node.out, ()) if node.out is not None else ()
            if readers and node.out not in self.scope.kept and all(reader.index in own for reader, _ in readers):
                assert node.out is not None
                yield node.out


def job_groups(target: Target, job: Job) -> tuple[Group, ...]:
    """The groups of a job as its target's contract says them: the steps of the table that it `fuses`, less those held;
    weights as its weight files store them; its `outputs` kept. `logos explain` shows these."""
    stored = {entry.variable: entry.dtype.lower() for file in target.steps(job).extractions for entry in file.entries}
    steps = [name for name in target.fuses if name in _BY_NAME]
    held = [name for name in job.hold if name in _BY_NAME]
    return plan_fusion(job.graph, steps, held, lambda variable: stored.get(variable, ""), target.outputs(job))
