"""How a program's weights are kept: in Q8_0, in tiles or as rows, or as float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from logos import FORMATS, Bound, Graph, Job, Leaf, Node, Refusal, Role, Spot, TensorView, Value, suggestion

AUTO, NONE = "auto", "none"
BLOCK = FORMATS["Q8_0"].elements
"""Elements of a row that share a scale."""

EXPERTS = ("WG", "WU", "WD")
"""The holes of a moe that take its experts' weights: gate, up and down."""

_READERS = frozenset({("matmul", "B"), ("embedding", "TABLE"), *(("moe", hole) for hole in EXPERTS)})
"""The operands, by op and hole, that kernels read in Q8_0."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The weights kept in Q8_0, by variable, and whether products and all else are exact: activations of float32, sums
    in double."""

    q8: frozenset[str] = frozenset()
    exact: bool = False


def op_of(node: Node) -> str:
    """The name of a node's op; of one of several steps, its op of one."""
    return node.op.name.removesuffix(" rows")


def name_of(node: Node, hole: str) -> str:
    """The variable of an operand that is one."""
    operand = node.operands[hole]
    assert isinstance(operand, Value)
    return operand.name


def is_transposed(graph: Graph, leaf: Leaf) -> bool:
    """Whether a leaf is read only as a matmul's B: then rows of its transpose are what each result reads."""
    readers = graph.readers(leaf.name)
    only = all(node.op.name == "matmul" and hole == "B" for node, hole in readers)
    return leaf.value.real and not leaf.state and bool(readers) and only


def keeps_q8(graph: Graph, leaf: Leaf) -> str | None:
    """Why a leaf cannot be kept in Q8_0, in words; None where it can."""
    readers = [(op_of(node), hole) for node, hole in graph.readers(leaf.name)]
    if not leaf.value.real or leaf.state:
        return "it is no weight of Real"
    odd = sorted({name for name, hole in readers if (name, hole) not in _READERS})
    if odd or not readers:
        return f"{' and '.join(odd)} reads it as float32" if odd else "nothing reads it"
    if len({name for name, _ in readers}) > 1:
        return f"{' and '.join(sorted({name for name, _ in readers}))} read it, each in a layout of its own"
    if len({node.sizes["EXPERTS"] for node, _ in graph.readers(leaf.name) if node.op.name == "moe"}) > 1:
        return "blocks of different numbers of experts read it"
    length = leaf.value.rows if readers[0][0] == "matmul" else leaf.value.columns
    if length % BLOCK:
        return f"its rows hold {length} values as stored, no multiple of {BLOCK}"
    return None


def storage_of(job: Job) -> Storage:
    """What the options ask for. Names that cannot be kept in Q8_0 are among them: `choice_refusals` refuses those."""
    return Storage(frozenset(_chosen(job)), job.options.multiply == "exact")


def _chosen(job: Job) -> Iterator[str]:
    asked, graph = tuple(job.options.q8), job.graph
    if asked == (NONE,):
        return
    if asked == (AUTO,):
        few = job.options.multiply != "exact"
        chosen = {bound.name for bound in job.binding.leaves if stored_q8(graph, bound) or (few and _few(graph, bound))}
    else:
        chosen = {leaf.name for leaf in graph.leaves if leaf.name in asked or _matched(job, leaf)}
    lone = _without_partners(graph, chosen)
    yield from (name for name in chosen if name not in lone or name in asked)


def _matched(job: Job, leaf: Leaf) -> bool:
    """Whether a pattern finds a leaf that may be rounded: not a table that is computed, such as rope's."""
    found = any(fnmatchcase(leaf.name, pattern) for pattern in job.options.q8 if "*" in pattern)
    return found and job.binding[leaf.name].role is not Role.TABLE and keeps_q8(job.graph, leaf) is None


def stored_q8(graph: Graph, bound: Bound) -> bool:
    """Whether the checkpoint has a leaf in Q8_0, its rows as the kernels read them."""
    if bound.tensor is None or bound.file is not None or not isinstance(bound.view, TensorView):
        return False
    if bound.tensor.storage != "Q8_0" or keeps_q8(graph, bound.leaf) is not None:
        return False
    return bound.view.transposed == is_transposed(graph, bound.leaf)


def _few(graph: Graph, bound: Bound) -> bool:
    """Whether the checkpoint has a leaf in blocks of at most 8 bits an element, which Q8_0 rounds far less than they
    did."""
    if bound.tensor is None or bound.file is not None or not isinstance(bound.view, TensorView):
        return False
    kept = FORMATS.get(bound.tensor.storage)
    return kept is not None and kept.elements > 1 and keeps_q8(graph, bound.leaf) is None


def _without_partners(graph: Graph, chosen: set[str]) -> set[str]:
    """Experts' weights of which another of the same block is kept otherwise: one kernel makes all three."""
    blocks = [{name_of(node, hole) for hole in EXPERTS} for node in graph.nodes if node.op.name == "moe"]
    return {name for block in blocks if not block <= chosen for name in block & chosen}


def choice_refusals(job: Job) -> Iterator[Refusal]:
    """Names of `q8` that the program has not (`unknown-variable`), or that cannot be kept so (`no-kernel`)."""
    graph = job.graph
    names = [leaf.name for leaf in graph.leaves]
    asked = () if tuple(job.options.q8) in ((AUTO,), (NONE,)) else tuple(job.options.q8)
    for name in asked:
        if name not in names and not any(fnmatchcase(one, name) for one in names if "*" in name):
            what = f"q8 names {name}; the program has no such leaf{suggestion(name, names)}"
            next_ = "name weights of the program, with * for any letters, or auto or none"
            yield Refusal("unknown-variable", what, Spot("q8"), next_)
    lone = _without_partners(graph, set(_chosen(job)))
    for leaf in graph.leaves:
        why = keeps_q8(graph, leaf) if leaf.name in asked else None
        if leaf.name in lone and why is None:
            why = "of its block's experts, gate, up and down are not all kept so"
        if why is not None:
            what = f"no kernel reads {leaf.name} in Q8_0: {why}"
            yield Refusal("no-kernel", what, leaf.span, "leave it out of q8")


def dtype_of(graph: Graph, storage: Storage) -> str:
    """The dtype that the artifact's values are held to."""
    products = {node.op.name for name in storage.q8 for node, _ in graph.readers(name)} & {"matmul", "moe"}
    return "int8" if products and not storage.exact else "float32"
