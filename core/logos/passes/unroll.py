"""unroll(T): the graph of one step → the graph of T steps at once, for prompts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from logos.graph import Graph, Leaf, Node, Operand, Value
from logos.op import Op
from logos.ops import OPS
from logos.passes.checked import checked, solve_node
from logos.passes.row_ops import STEPS, over_rows
from logos.passes.variation import Variation
from logos.refusal import Refused
from logos.shapes import Solution

(_ROW,) = (op for op in OPS if op.name == "embedding")


@dataclass(frozen=True)
class Unrolled:
    """A program's graph of `steps` steps at once.

    graph     the graph of all the steps; `graph.steps` says how many
    single    the graph of one step that it was made from
    stepwise  the values of `single` that hold a row for each step in `graph`: same name and version, `steps` rows
    last      of values of `stepwise`, the value of `graph` that holds the last step's row alone
    """

    graph: Graph
    single: Graph
    steps: int
    stepwise: frozenset[Value]
    last: Mapping[Value, Value]

    def rows(self, value: Value) -> Value:
        """Where the graph has a value of one step: with `steps` rows where it is of `stepwise`, else as it was."""
        return replace(value, rows=self.steps) if value in self.stepwise else value


def unroll(graph: Graph, steps: int, rows: Collection[Value] = (), last: Collection[Value] = ()) -> Unrolled:
    """The graph that makes `steps` steps of `graph` at once and equals them, one after the other.

    Its inputs `tok` and `pos` are steps by 1 of Int: the steps' ids, and pos, pos + 1, … A one-row value that differs
    from step to step has a row for each. What does not (weights, tables, constants, what is computed from them alone)
    stays as it is. A state has before the graph what it held before the first step, after it what the last one leaves.
    An op whose own shapes take the rows, each for itself, is that op; any other is its `NAME rows` (`over_rows`).

    What neither a state nor `rows` needs is made for the last step alone, by the ops of one step, from the last rows of
    what it reads (`row steps−1 of x`): the head of a model, unless its rows are asked for. `rows` are values of `graph`
    wanted at every step, `last` those wanted of the last step. `Show` sentences are left out.

    Refused, all at once: every op that every step needs and that has no T-row rule (`no-row-rule`), and whatever else
    single steps alone can give (`steps-not-at-once`).
    """
    variation = Variation(graph, frozenset(rows), last)
    if refusals := tuple(variation.refusals()):
        raise Refused(refusals)
    return _Unrolling(variation, steps).run()


@dataclass
class _Unrolling:
    """One graph being made; `nodes` so far."""

    variation: Variation
    steps: int
    nodes: list[Node] = field(default_factory=list)
    stepwise: set[Value] = field(default_factory=set)
    tails: dict[Value, Value] = field(default_factory=dict)

    def run(self) -> Unrolled:
        graph, variation = self.variation.graph, self.variation
        self.stepwise.update(variation.fed)
        for node in graph.nodes:
            if node.index in variation.every:
                self.add(node, *self.of_all(node))
            else:
                self.add(node, node.op, {hole: self.tail(operand, node) for hole, operand in node.operands.items()})
        leaves = tuple(self.leaf(leaf) for leaf in graph.leaves)
        made = Graph(graph.source, leaves, tuple(self.nodes), (), self.spread(graph.output), self.steps)
        return Unrolled(checked(made), graph, self.steps, frozenset(self.stepwise), dict(self.tails))

    def leaf(self, leaf: Leaf) -> Leaf:
        return Leaf(self.spread(leaf.value), leaf.span) if leaf.value in self.stepwise else leaf

    def spread(self, value: Value) -> Value:
        return replace(value, rows=self.steps) if value in self.stepwise else value

    def of_all(self, node: Node) -> tuple[Op, dict[str, Operand]]:
        """The op of all steps for a node of one, and its operands."""
        varying = frozenset(hole for hole, operand in node.operands.items() if operand in self.stepwise)
        operands = {
            hole: self.spread(operand) if isinstance(operand, Value) else operand
            for hole, operand in node.operands.items()
        }
        if node.out is not None:
            self.stepwise.add(node.out)
        if self.itself(node, operands, varying):
            return node.op, operands
        return over_rows(node.op, varying), {**operands, STEPS: self.steps}

    def itself(self, node: Node, operands: Mapping[str, Operand], varying: frozenset[str]) -> bool:
        """Whether the op's own rows are the steps' and its shape rules take them."""
        rule = node.op.rows
        if rule is None or not rule.rowwise or node.out is None or not varying:
            return False
        solution = solve_node(node.op, operands)
        return not solution.misfits and solution.out == (self.steps, node.out.columns)

    def tail(self, operand: Operand, node: Node) -> Operand:
        """An operand as the last step has it, its row read out of the steps' by a node of its own."""
        if not isinstance(operand, Value) or operand not in self.stepwise:
            return operand
        if self.steps == 1:
            return self.spread(operand)
        if operand not in self.tails:
            out = replace(operand, name=self.fresh(f"{operand.name}_last"), version=len(self.tails) + 1)
            read: dict[str, Operand] = {"TOK": self.steps - 1, "TABLE": self.spread(operand)}
            self.put(node, _ROW, read, solve_node(_ROW, read), out, {})
            self.tails[operand] = out
        return self.tails[operand]

    def fresh(self, name: str) -> str:
        """A name that the program does not have."""
        known = {value.name for value in self.variation.graph.taps.values()}
        while name in known:
            name += "_"
        return name

    def add(self, node: Node, op: Op, operands: Mapping[str, Operand]) -> None:
        out = None if node.out is None else self.spread(node.out)
        self.put(node, op, operands, solve_node(op, operands), out, node.writes)

    def put(
        self,
        node: Node,
        op: Op,
        operands: Mapping[str, Operand],
        solution: Solution,
        out: Value | None,
        writes: Mapping[str, Value],
    ) -> None:
        self.nodes.append(Node(len(self.nodes), node.span, op, operands, solution.sizes, out, writes))
