"""What the patterns of fusion ask of a graph: who made a value, who reads it, what must be stored, what is a weight."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

from logos.graph import Graph, Node, Operand, Value

Storage = Callable[[str], str]
"""How a target stores a weight, by variable, in the words of its `stores`: float32, bfloat16, q8_0 …"""


class Scope:
    """A graph with the values that are kept whatever acts as one: the output, and the newest values of `keep`.
    Raises KeyError for a name of `keep` that the program does not have."""

    def __init__(self, graph: Graph, storage: Storage, keep: Collection[str]) -> None:
        self.graph, self.storage = graph, storage
        newest = graph.newest()
        self.kept = frozenset((graph.output, *(newest[name] for name in keep)))
        self.readers: dict[Value, list[tuple[Node, str]]] = {}
        for node in graph.nodes:
            for hole, operand in node.operands.items():
                if isinstance(operand, Value):
                    self.readers.setdefault(operand, []).append((node, hole))

    @cached_property
    def _weights(self) -> frozenset[Value]:
        return frozenset(leaf.value for leaf in self.graph.leaves if not leaf.state)

    @cached_property
    def attentions(self) -> tuple[Node, ...]:
        return tuple(node for node in self.graph.nodes if node.op.name == "attention")

    @cached_property
    def deltas(self) -> tuple[Node, ...]:
        return tuple(node for node in self.graph.nodes if node.op.name == "gated delta")

    def is_weight(self, operand: Operand) -> bool:
        """Whether an operand is a leaf that no operation writes."""
        return operand in self._weights

    def maker(self, operand: Operand, *ops: str) -> Node | None:
        """The node that made an operand, where it is of one of these ops."""
        node = self.graph.producer(operand) if isinstance(operand, Value) else None
        return node if node is not None and node.op.name in ops else None

    def sole_reader(self, value: Value | None) -> Node | None:
        """The node that reads a value, where nothing else does, it does so once, and the value is not kept: what makes
        the value and what reads it may act as one without storing it."""
        if value is None or value in self.kept:
            return None
        found = self.readers.get(value, ())
        return found[0][0] if len(found) == 1 else None

    def product(self, operand: Operand, reader: Node) -> Node | None:
        """The matmul of one row by a weight that made an operand, where `reader` alone reads it."""
        node = self.maker(operand, "matmul")
        if node is None or not self.is_product(node) or self.sole_reader(node.out) is not reader:
            return None
        return node

    def is_product(self, node: Node) -> bool:
        """Whether a node is a matmul of one row by a weight."""
        return node.op.name == "matmul" and node.sizes["m"] == 1 and self.is_weight(node.operands["B"])

    def stored_as(self, operand: Operand) -> str:
        """How the target stores a weight; the empty text for what is none."""
        return self.storage(operand.name) if isinstance(operand, Value) and self.is_weight(operand) else ""
