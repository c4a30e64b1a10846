"""The patterns of the fusion steps: which nodes, of those at hand, may act as one. Each is a pure function of a graph.

Whether something else must run between the nodes of a match is not a pattern's concern: `plan_fusion` sees to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from logos.graph import Node, Operand, Value
from logos.passes.scope import Scope

Match = tuple[Node, ...]

_UNARY = ("silu", "sigmoid", "gelu")
_BINARY = ("plus", "hadamard", "swiglu")
_QUANTIZED = "q8_0"
_ENDS = ("attention", "gated delta", "swiglu", "hadamard")
_IN_PARTS = ("attention", "gated delta", "argmax")


def chains(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """Runs of elementwise ops, each the only reader of the one before, all of one shape and type."""
    inside = {node.index for node in nodes}
    follows: dict[int, Node] = {}
    led = set()
    for node in nodes:
        reader = scope.sole_reader(node.out) if node.op.name in (*_UNARY, *_BINARY) else None
        if reader is None or reader.index in led or reader.index not in inside:
            continue
        if reader.op.name in (*_UNARY, *_BINARY) and _is_alike(node.out, reader.out):
            follows[node.index] = reader
            led.add(reader.index)
    for node in nodes:
        if node.index in follows and node.index not in led:
            yield tuple(_run(node, follows))


def _run(node: Node, follows: dict[int, Node]) -> Iterator[Node]:
    yield node
    while node.index in follows:
        node = follows[node.index]
        yield node


def _is_alike(one: Value | None, other: Value | None) -> bool:
    return one is not None and other is not None and one.shape == other.shape and one.real == other.real


def added_norms(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """A sum of two equal shapes, and an rmsnorm of it weighted by something else."""
    inside = {node.index for node in nodes}
    for node in nodes:
        if node.op.name != "rmsnorm" or node.operands["W"] is None or node.operands["RES"] is not None:
            continue
        added = scope.maker(node.operands["X"], "plus")
        if added is None or added.index not in inside or not _is_even(added):
            continue
        if node.operands["W"] != added.out:  # a weight is read from memory, and nothing may store the sum
            yield added, node


def _is_even(node: Node) -> bool:
    """Whether a sum's operands have one shape and its type."""
    a, b = node.operands["A"], node.operands["B"]
    return isinstance(a, Value) and isinstance(b, Value) and _is_alike(a, b) and _is_alike(a, node.out)


def shared_rows(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """Products of one row by several weights of one storage."""
    found: dict[tuple[Operand, str, bool], list[Node]] = {}
    for node in nodes:
        if scope.is_product(node) and node.out is not None:
            key = node.operands["A"], scope.stored_as(node.operands["B"]), node.out.real
            found.setdefault(key, []).append(node)
    yield from (tuple(products) for products in found.values() if len(products) > 1)


def gates_with_ups(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """The products of one row by a gate and an up weight of one storage, and silu(gate) · up of them, as swiglu or as
    silu and hadamard."""
    inside = {node.index for node in nodes}
    for node in nodes:
        for match in _gated(scope, node):
            if all(member.index in inside for member in match):
                yield tuple(sorted(match, key=lambda member: member.index))


def _gated(scope: Scope, node: Node) -> Iterator[Match]:
    if node.op.name == "swiglu":
        gate, up = scope.product(node.operands["GATE"], node), scope.product(node.operands["UP"], node)
        if gate is not None and up is not None and _is_pair(scope, gate, up):
            yield gate, up, node
    if node.op.name == "hadamard" and _is_even(node):
        for one, other in (("A", "B"), ("B", "A")):
            silu, up = scope.maker(node.operands[one], "silu"), scope.product(node.operands[other], node)
            if silu is None or up is None or scope.sole_reader(silu.out) is not node:
                continue
            gate = scope.product(silu.operands["X"], silu)
            if gate is not None and _is_pair(scope, gate, up):
                yield gate, up, silu, node
                return


def _is_pair(scope: Scope, gate: Node, up: Node) -> bool:
    same_storage = scope.stored_as(gate.operands["B"]) == scope.stored_as(up.operands["B"])
    return gate is not up and gate.operands["A"] == up.operands["A"] and same_storage and _is_alike(gate.out, up.out)


def residual_sums(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """The product of one row by a weight, scaled by one element or not, and its sums with other rows of its shape."""
    inside = {node.index for node in nodes}
    for node in nodes:
        if scope.is_product(node):
            run = tuple(_summed(scope, node, inside))
            if len(run) > 1 and run[-1].op.name == "plus":
                yield run


def _summed(scope: Scope, product: Node, inside: Collection[int]) -> Iterator[Node]:
    """A product and what follows it, each the only reader of the one before."""
    yield product
    node, reader = product, scope.sole_reader(product.out)
    if reader is not None and reader.index in inside and _scales(reader, node.out):
        yield reader
        node, reader = reader, scope.sole_reader(reader.out)
    while reader is not None and reader.index in inside and _adds(scope, reader, product):
        yield reader
        reader = scope.sole_reader(reader.out)


def _scales(node: Node, row: Value | None) -> bool:
    """Whether a node multiplies a row, as its first operand, by one element."""
    other = node.operands["B"] if node.op.name == "hadamard" else None
    return isinstance(other, Value) and other.size == 1 and other != row and _is_alike(row, node.out)


def _adds(scope: Scope, node: Node, product: Node) -> bool:
    """Whether a node adds a row; of two products the later takes the sum, so that the other is there by then."""
    if node.op.name != "plus" or not _is_even(node):
        return False
    others = [scope.product(node.operands[hole], node) for hole in "AB"]
    return all(other is None or other.index <= product.index for other in others)


def routers(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """Routed experts of one row, with a shared expert's gate where there is one: the product of that row by a weight of
    one column, stored as the router is, and its sigmoid."""
    inside = {node.index: node for node in nodes}
    for node in nodes:
        if node.op.name != "moe" or node.sizes["t"] != 1:
            continue
        gates = [gate for gate in _gates(scope, node) if all(member.index in inside for member in gate)]
        yield tuple(sorted((node, *(gates[0] if gates else ())), key=lambda member: member.index))


def _gates(scope: Scope, moe: Node) -> Iterator[Match]:
    row = moe.operands["X"]
    for node, hole in scope.readers.get(row, ()) if isinstance(row, Value) else ():
        sigmoid = scope.sole_reader(node.out)
        if hole != "A" or not scope.is_product(node) or node.sizes["n"] != 1 or sigmoid is None:
            continue
        same = scope.stored_as(node.operands["B"]) == scope.stored_as(moe.operands["WR"])
        if same and sigmoid.op.name == "sigmoid":
            yield node, sigmoid


def combined(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """What is made in parts that something then joins."""
    yield from ((node,) for node in nodes if node.op.name in _IN_PARTS)


def turned_and_appended(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """What stands between an attention and its projections, as far as it is there: the norms of query and key across
    heads, their rotation, and the rows that key and value append to their tables."""
    inside = {node.index for node in nodes}
    for attention in scope.attentions:
        parts = [list(_turned(scope, attention.operands["Q"], inside))]
        for append in _appends(scope, attention, inside):
            row = append.operands["R"]
            alone = isinstance(row, Value) and scope.sole_reader(row) is append
            parts.append([append, *(_turned(scope, row, inside) if alone else ())])
        yield from _side_by_side(parts)


def _side_by_side(parts: Sequence[Sequence[Node]]) -> Iterator[Match]:
    """The parts as one match, without those that read what one before them makes, or make what it reads."""
    found: dict[int, Node] = {}
    made: set[Value] = set()
    read: set[Value] = set()
    for part in parts:
        makes = {value for node in part for value in node.results}
        reads = {value for node in part for value in node.inputs} - makes
        if made.isdisjoint(reads | makes) and makes.isdisjoint(read):
            found.update((node.index, node) for node in part)
            made |= makes
            read |= reads
    if len(found) > 1:
        yield tuple(node for _, node in sorted(found.items()))


def _appends(scope: Scope, attention: Node, inside: Collection[int]) -> list[Node]:
    """The sentences that set a row of the key and value tables, those of one row together."""
    made = [scope.maker(attention.operands[hole], "set row") for hole in "KV"]
    found = [append for append in made if append is not None and append.index in inside]
    return [append for append in found if append.operands["P"] == found[0].operands["P"]]


def _turned(scope: Scope, row: Operand, inside: Collection[int]) -> Iterator[Node]:
    """The rotation that made a row, and the norm across heads before it; or that norm alone."""
    rope = scope.maker(row, "rope")
    if rope is not None:
        if rope.index not in inside:
            return
        yield rope
        row = rope.operands["Q"]
        if not isinstance(row, Value) or scope.sole_reader(row) is not rope:
            return
    norm = scope.maker(row, "rmsnorm")
    if norm is not None and norm.index in inside and norm.operands["H"] is not None and norm.operands["RES"] is None:
        yield norm


def delta_inputs(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """What stands between a gated delta rule and its projections, as far as it is there: convolution, silu and l2norm
    of query, key and value, the sigmoid of beta, the decay."""
    inside = {node.index for node in nodes}
    parts = {**dict.fromkeys("QKV", ("l2norm", "silu", "causal conv")), "B": ("sigmoid",), "A": ("decay",)}
    for delta in scope.deltas:
        yield from _side_by_side([
            list(_backwards(scope, delta.operands[hole], ops, inside)) for hole, ops in parts.items()
        ])


def _backwards(scope: Scope, row: Operand, ops: Sequence[str], inside: Collection[int]) -> Iterator[Node]:
    """What made a row, backwards, as long as it is the next of these ops, some of which may be missing, and only what
    it found before reads it."""
    reader: Node | None = None
    for op in ops:
        node = scope.maker(row, op)
        if node is None:
            continue
        if node.index not in inside or (reader is not None and scope.sole_reader(node.out) is not reader):
            return
        yield node
        reader, row = node, node.operands["X" if "X" in node.operands else "AR"]


def quantized_norms(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """An rmsnorm whose rows a product by a Q8_0 weight reads."""
    yield from ((node,) for node in nodes if node.op.name == "rmsnorm" and _is_multiplied(scope, node))


def quantized_ends(scope: Scope, nodes: Sequence[Node]) -> Iterator[Match]:
    """What else makes a row that a product by a Q8_0 weight reads: attention, a gated delta rule, a gated product; and
    experts, whose hidden rows their down weights multiply."""
    for node in nodes:
        hidden = node.op.name == "moe" and scope.stored_as(node.operands["WD"]) == _QUANTIZED
        if hidden or (node.op.name in _ENDS and _is_multiplied(scope, node)):
            yield (node,)


def _is_multiplied(scope: Scope, node: Node) -> bool:
    if node.out is None or not node.out.real:
        return False
    weights = {"matmul": ("A", ("B",)), "moe": ("X", ("WG", "WU"))}
    for reader, hole in scope.readers.get(node.out, ()):
        row, taken = weights.get(reader.op.name, ("", ()))
        if hole == row and any(scope.stored_as(reader.operands[name]) == _QUANTIZED for name in taken):
            return True
    return False
