"""A program with every sentence replaced by the loops that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from logos.graph import Graph, Node, Shown, Value
from logos.loops.forms import numbers_of, own_loop, with_names
from logos.loops.records import Repeat, lines
from logos.loops.uses import outputs
from logos.op import LoopForm
from logos.printer import declaration, fills, sentence, show


def desugar(graph: Graph) -> str:
    """The program of loops: it parses, and computes what the graph computes.

    A name that is produced more than once gets a name for each time, the last one keeping its own. A sentence stays
    where its op says no loops, where it writes a state that another of its operands is too (loops work in place), and
    where it sets all of a state, which a loop would make anew.
    """
    return "".join(f"{line}\n" for line in _lines(graph))


def node_form(node: Node) -> LoopForm:
    """The form of a node's sentence."""
    op = node.op
    present = {hole for hole, operand in node.operands.items() if operand is not None}
    literal = frozenset(hole for hole in op.indexes if isinstance(node.operands.get(hole), int))
    given = present if node.out is None else {*present, "OUT"}
    rules = (rule for rule in op.shapes if present.issuperset(rule.given) and present.isdisjoint(rule.absent))
    fitting = [rule for rule in rules if _fits(node, rule.operands)]
    return LoopForm(frozenset(given - _defaults(node)), fitting[0], literal)


def _defaults(node: Node) -> frozenset[str]:
    """Literals are symbols of the loops whether the sentence says them or not."""
    return frozenset(node.op.values)


def _fits(node: Node, operands: Mapping[str, tuple[str, str]]) -> bool:
    from logos.shapes import evaluate

    for hole, dims in operands.items():
        value = node.operands.get(hole)
        if isinstance(value, Value) and tuple(evaluate(dim, node.sizes) for dim in dims) != value.shape:
            return False
    return True


def node_loop(node: Node, names: Mapping[Value, str]) -> Repeat | None:
    """The loop that a node's sentence stands for; None where the sentence has to stay."""
    tensors = {hole: names[value] for hole, value in node.operands.items() if isinstance(value, Value)}
    if node.op.block is not None:
        renamed = {value.name: names[value] for value in (*node.inputs, *node.results)}
        return with_names(node.op.block, {}, renamed)
    written = [tensors[hole] for hole in node.op.writes]
    if node.op.loops is None or any(list(tensors.values()).count(name) > 1 for name in written):
        return None
    if node.out is not None:
        tensors["OUT"] = names[node.out]
    form = node_form(node)
    loop = with_names(own_loop(node.op, form), numbers_of(node.op, form, node.operands, node.sizes), tensors)
    shapes = {names[value]: value.shape for value in (*node.inputs, *node.results)}
    return loop if outputs(loop, shapes) == (() if node.out is None else (names[node.out],)) else None


def one_name_each(graph: Graph) -> dict[Value, str]:
    """A name for every value: a state keeps its own, as does a name's last value; an earlier one gets its number."""
    newest = graph.newest()
    states = {leaf.name for leaf in graph.states}
    values = [*(leaf.value for leaf in graph.leaves), *(value for node in graph.nodes for value in node.results)]
    taken = {value.name for value in values}
    names: dict[Value, str] = {}
    for value in values:
        name = value.name
        if name not in states and newest[name] != value:
            name = f"{name}_{value.version}"
            while name in taken:
                name += "_"
            taken.add(name)
        names[value] = name
    return names


def _lines(graph: Graph) -> Iterator[str]:
    names = one_name_each(graph)
    loops = {node.index: node_loop(node, names) for node in graph.nodes}
    for leaf in graph.leaves:
        yield declaration(leaf.value)
    for node in graph.nodes:
        if node.out is not None and loops[node.index] is not None:
            yield declaration(replace(node.out, name=names[node.out]))
    for leaf in graph.leaves:
        yield from fills(leaf)
    shows = list(graph.shows)
    for node in graph.nodes:
        yield from _shown(shows, node.index, names)
        loop = loops[node.index]
        yield from (sentence(_renamed(node, names)),) if loop is None else lines((loop,))
    yield from _shown(shows, len(graph.nodes), names)


def _shown(shows: list[Shown], done: int, names: Mapping[Value, str]) -> Iterator[str]:
    while shows and shows[0].after <= done:
        shown = shows.pop(0)
        yield show(replace(shown, value=replace(shown.value, name=names[shown.value])))


def _renamed(node: Node, names: Mapping[Value, str]) -> Node:
    operands = {
        hole: replace(operand, name=names[operand]) if isinstance(operand, Value) else operand
        for hole, operand in node.operands.items()
    }
    return replace(node, operands=operands, out=node.out and replace(node.out, name=names[node.out]))
