"""A program with every sentence replaced by the loops that it stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from logos.graph import Graph, Node, Shown, Value
from logos.loops.forms import numbers_of, own_loop, with_names
from logos.loops.records import Item, Name, Number, Repeat, SetItem, lines
from logos.loops.uses import outputs
from logos.op import LoopForm
from logos.printer import declaration, fills, sentence, show


def desugar(graph: Graph) -> str:
    """The program of loops: it parses, and computes what the graph computes.

    A name that is produced more than once gets a name for each time, the last one keeping its own. Loops work in place,
    so a state that a sentence writes and reads as another operand too is copied before. A state that is set whole
    before anything reads it is copied at the top: a loop would make it anew, if nothing read it above. A sentence
    stays where its op says no loops, or loops that do not make what the op makes.
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


def node_loop(node: Node, names: Mapping[Value, str], before: Mapping[str, str] | None = None) -> Repeat | None:
    """The loop that a node's sentence stands for; None where its op says none, or writes one state twice. `before`
    gives the copies of states that are other operands too."""
    tensors = {hole: names[value] for hole, value in node.operands.items() if isinstance(value, Value)}
    if node.op.block is not None:
        renamed = {value.name: names[value] for value in (*node.inputs, *node.results)}
        return with_names(node.op.block, {}, renamed)
    if node.op.loops is None or len({tensors[hole] for hole in node.op.writes}) < len(node.op.writes):
        return None
    for hole in tensors.keys() - node.op.writes:
        tensors[hole] = (before or {}).get(tensors[hole], tensors[hole])
    if node.out is not None:
        tensors["OUT"] = names[node.out]
    form = node_form(node)
    return with_names(own_loop(node.op, form), numbers_of(node.op, form, node.operands, node.sizes), tensors)


def sets_whole(node: Node, loop: Repeat, names: Mapping[Value, str]) -> tuple[str, ...] | None:
    """The states that a node's loop sets whole before it reads them; None where it does not make what the node
    makes."""
    made = outputs(loop, {names[value]: value.shape for value in (*node.inputs, *node.results)})
    out = None if node.out is None else names[node.out]
    states = tuple(name for name in made if name != out)
    right = (out is None or out in made) and set(states) <= {names[value] for value in node.writes.values()}
    return states if right else None


def read_twice(node: Node) -> tuple[Value, ...]:
    """The states that a sentence writes and reads as other operands too."""
    if node.op.block is not None:
        return ()
    written = [value for hole in node.op.writes if isinstance(value := node.operands[hole], Value)]
    others = [operand for hole, operand in node.operands.items() if hole not in node.op.writes]
    return tuple(value for value in written if value in others)


def copy_loop(value: Value, name: str, copy: str) -> Repeat:
    """The loop that makes a copy of a tensor; of one row it is an op, `row 0 of` the tensor."""
    rows, columns = (next(unused) for unused in (_unused("row", name, copy), _unused("column", name, copy)))
    place = (Number(1) if value.rows == 1 else Name(rows), Name(columns))
    line = SetItem(Item(copy, place), Item(name, place))
    inner = Repeat(columns, Number(1), Number(value.columns), (line,))
    return inner if value.rows == 1 else Repeat(rows, Number(1), Number(value.rows), (inner,))


def _unused(name: str, *taken: str) -> Iterator[str]:
    while True:
        if name not in taken:
            yield name
        name += "_"


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


@dataclass(frozen=True, slots=True)
class _Step:
    """A node as it is printed: the states that are copied before it, each with its copy's name, and its loop, or None
    where its sentence stays."""

    node: Node
    copies: Mapping[Value, str]
    loop: Repeat | None


@dataclass
class _Steps:
    """The nodes as they are printed, and what is copied at the top."""

    graph: Graph
    names: Mapping[Value, str]
    top: dict[Value, str] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.taken = set(self.names.values())
        used: set[str] = set()
        for node in self.graph.nodes:
            used |= {self.names[shown.value] for shown in self.graph.shows if shown.after == node.index}
            self.steps.append(self.step(node, used))
            used |= {self.names[value] for value in (*node.inputs, *node.results)}

    def step(self, node: Node, used: Collection[str]) -> _Step:
        twice = read_twice(node)
        # A copy that follows the last tensor which the program makes would be its output.
        if twice and node.index > max(one.index for one in self.graph.nodes if one.out is not None):
            return _Step(node, {}, None)
        copies = {value: self.fresh(self.names[value]) for value in twice}
        loop = node_loop(node, self.names, {self.names[value]: copy for value, copy in copies.items()})
        whole = None if loop is None else sets_whole(node, loop, self.names)
        if whole is None:
            return _Step(node, {}, None)
        for leaf in self.graph.leaves if whole else ():
            if leaf.name in whole and leaf.name not in used and leaf.name not in map(self.names.get, copies):
                self.top[leaf.value] = self.fresh(leaf.name)
        return _Step(node, copies, loop)

    def fresh(self, name: str) -> str:
        """A name for the copy of a state."""
        copy = next(_unused(f"{name}_before", *self.taken))
        self.taken.add(copy)
        return copy


def _lines(graph: Graph) -> Iterator[str]:
    names = one_name_each(graph)
    made = _Steps(graph, names)
    for leaf in graph.leaves:
        yield declaration(leaf.value)
    for copies in (made.top, *(step.copies for step in made.steps)):
        yield from (declaration(replace(value, name=copy)) for value, copy in copies.items())
    for step in made.steps:
        if step.node.out is not None and step.loop is not None:
            yield declaration(replace(step.node.out, name=names[step.node.out]))
    for leaf in graph.leaves:
        yield from fills(leaf)
    yield from _copied(made.top, names)
    shows = list(graph.shows)
    for step in made.steps:
        yield from _shown(shows, step.node.index, names)
        yield from _copied(step.copies, names)
        yield from (sentence(_renamed(step.node, names)),) if step.loop is None else lines((step.loop,))
    yield from _shown(shows, len(graph.nodes), names)


def _copied(copies: Mapping[Value, str], names: Mapping[Value, str]) -> Iterator[str]:
    yield from lines(tuple(copy_loop(value, names[value], copy) for value, copy in copies.items()))


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
