"""How a program's weights and tables are kept on the device, and how what is kept in 8 bits is multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from logos import FORMATS, Graph, Leaf, Node, Value
from logos_cuda.tiling import SEVERAL, Tiling

BLOCK = FORMATS["Q8_0"].elements
"""Elements of a row that share a scale."""

EXPERTS = ("WG", "WU", "WD")
"""The holes of a moe that take its experts' weights: gate, up and down."""

_READERS = frozenset({("matmul", "B"), ("embedding", "TABLE"), ("moe", "WG"), ("moe", "WU"), ("moe", "WD")})
"""The operands, by op and hole, that kernels read in Q8_0."""

_TABLE_READERS = frozenset({("set row", "T"), ("attention", "K"), ("attention", "V")})


class Multiply(Enum):
    """How a weight in Q8_0 is multiplied.

    EXACT  by float32 activations, sums in float64: the value that the reference machine has, rounded to float32
    DP4A   by activations quantized to 8 bits with a scale for each 32, sums of 32 in integers
    MMA    as DP4A, several rows on the tensor cores, one row as DP4A has it
    """

    EXACT = "exact"
    DP4A = "dp4a"
    MMA = "mma"


@dataclass(frozen=True, slots=True)
class Storage:
    """The weights kept in Q8_0, by variable; how they are multiplied (EXACT or DP4A), experts in one pass of dp4a or in
    two; whether the tables that attention reads are kept as float16. What `tiling` takes of the products by dp4a goes
    to the tensor cores."""

    q8: frozenset[str] = frozenset()
    multiply: Multiply = Multiply.DP4A
    single_pass: bool = True
    half: bool = False
    tiling: Tiling | None = None


def storage_by(q8: frozenset[str], multiply: Multiply, single_pass: bool, half: bool) -> Storage:
    """Weights multiplied one way, MMA being DP4A whose products of several rows go to the tensor cores."""
    if multiply is not Multiply.MMA:
        return Storage(q8, multiply, single_pass, half)
    return Storage(q8, Multiply.DP4A, single_pass, half, Tiling(SEVERAL, asked=True))


def keeps_q8(graph: Graph, leaf: Leaf) -> str | None:
    """Why a leaf cannot be kept in Q8_0, in words; None where it can."""
    readers = [(_op(node), hole) for node, hole in graph.readers(leaf.name)]
    if not leaf.value.real or leaf.state:
        return "it is no weight of Real"
    odd = sorted({name for name, hole in readers if (name, hole) not in _READERS})
    if odd or not readers:
        return f"{' and '.join(odd)} reads it as float32" if odd else "nothing reads it"
    if len({hole == "B" for _, hole in readers}) > 1:
        return "a matmul reads its columns and another op its rows"
    length = stored_columns(leaf.value, readers[0][1] == "B")
    if length % BLOCK:
        return f"its rows hold {length} values as stored, no multiple of {BLOCK}"
    return None


def stored_columns(value: Value, transposed: bool) -> int:
    """The length of a weight's rows as stored."""
    return value.rows if transposed else value.columns


def half_tables(graph: Graph) -> frozenset[str]:
    """The states that rows are set in and that only attention reads, its K and its V alike."""
    found = set()
    for leaf in graph.states:
        readers = {(_op(node), hole) for node, hole in graph.readers(leaf.name)}
        if leaf.value.real and ("set row", "T") in readers and readers <= _TABLE_READERS and len(readers) > 1:
            found.add(leaf.name)
    pairs = [{name_of(node, hole) for hole in "KV"} for node in graph.nodes if _op(node) == "attention"]
    while odd := {name for pair in pairs if not pair <= found for name in pair & found}:
        found -= odd
    return frozenset(found)


def _op(node: Node) -> str:
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


def multiplied_by(graph: Graph, name: str) -> set[str]:
    """The ops that multiply by a weight."""
    return {node.op.name for node, hole in graph.readers(name) if node.op.name in ("matmul", "moe")}
