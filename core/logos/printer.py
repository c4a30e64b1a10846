"""Graph → program text. Parsing what is printed gives the same graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from logos.graph import Graph, Leaf, Node, Shown, Value
from logos.loops.records import head, lines
from logos.op import Hole


def print_program(graph: Graph) -> str:
    """The whole program: declarations, fills, then the operations and `Show` sentences in order."""
    return "".join(f"{sentence}\n" for sentence in _sentences(graph))


def _sentences(graph: Graph) -> Iterator[str]:
    made = {node.out.name: node.out for node in graph.nodes if node.op.block is not None and node.out is not None}
    for value in (*(leaf.value for leaf in graph.leaves), *made.values()):
        yield declaration(value)
    for leaf in graph.leaves:
        yield from fills(leaf)
    shows = deque(graph.shows)
    for node in graph.nodes:
        while shows and shows[0].after <= node.index:
            yield show(shows.popleft())
        if node.op.block is None:
            yield sentence(node)
        else:
            yield from lines((node.op.block,))
    for shown in shows:
        yield show(shown)


def declaration(value: Value) -> str:
    """The sentence that declares a value's name."""
    return f"Let {value.name} be a {value.rows} by {value.columns} tensor of {'Real' if value.real else 'Int'}."


def fills(leaf: Leaf) -> Iterator[str]:
    """The sentences that give a leaf its initial values."""
    for index, value in leaf.fills:
        yield f"Set item {index + 1} of {leaf.name} to {value!r}."


def show(shown: Shown) -> str:
    """The `Show` sentence."""
    name = shown.value.name
    if shown.item is not None:
        return f"Show item {shown.item} of {name}."
    return f"Show {name}." if shown.row is None else f"Show row {shown.row} of {name}."


def sentence(node: Node) -> str:
    """The node's sentence, in the words of its op; of a loop that no op computes, its first line. A literal that is its
    default is left out."""
    if node.op.block is not None:
        return head(node.op.block)
    words = []
    for optional, part in node.op.pattern.parts:
        holes = [word.text for word in part if word.hole is not None]
        if optional and all(_left_out(node, hole) for hole in holes):
            continue
        for word in part:
            words.append(word.text if word.hole is None else _word(node, word.text, word.hole))
    return " ".join(words) + "."


def _left_out(node: Node, hole: str) -> bool:
    operand = node.operands[hole]
    return operand is None or (hole in node.op.values and operand == node.op.values[hole])


def _word(node: Node, hole: str, kind: Hole) -> str:
    if kind is Hole.NEW:
        assert node.out is not None
        return node.out.name
    operand = node.operands[hole]
    return operand.name if isinstance(operand, Value) else repr(operand)
