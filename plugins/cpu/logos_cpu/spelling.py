"""The target's table: for every op, the function that spells it, of one step and of several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from logos import Value, c_double
from logos_cpu.experts import moe
from logos_cpu.lowering import MOST_THREADS, Argument, Lowering, written
from logos_cpu.stages import Element, Use

ABSENT = "nullptr"


def matmul(lowering: Lowering) -> None:
    """By a weight in tiles, by rows of a transposed one, by a tensor as it is; two Int operands exactly."""
    a, b, out = lowering.value("A"), lowering.buffer("B"), lowering.made()
    sizes = (lowering.rows(a), lowering.sizes["k"], lowering.sizes["n"])
    if not lowering.out.real:
        operands = (lowering.whole("A", None), lowering.whole("B", None))
        lowering.call("matmul.h", "matmul_int", *operands, out, *sizes)
    elif b.element is not Element.TILES:
        name = "matmul_rows" if b.transposed else "matmul_columns"
        lowering.call("matmul.h", name, lowering.real("A", None), lowering.real("B", None), out, *sizes)
    elif lowering.exact:
        lowering.call("q8.h", "matmul_exact", lowering.real("A", None), Use(b), out, *sizes)
    else:
        lowering.call("q8.h", "matmul_q8", lowering.activations("A"), Use(b), out, *sizes)


def pairwise(lowering: Lowering) -> None:
    """A sum or product of elements, B spread over A's rows or over all elements."""
    a, b, out = lowering.value("A"), lowering.value("B"), lowering.out
    function = lowering.name.removesuffix(" rows").capitalize()
    unit_b = 32 if b.columns == out.columns else None
    taken = lowering.real if out.real else lowering.whole
    operands = (taken("A"), taken("B", unit_b))
    name = "pairwise" if out.real else "pairwise_int"
    steps = (a.columns if a.rows > 1 else 0, b.columns if b.rows > 1 else 0, b.columns)
    sizes = (lowering.rows(out), out.columns, *steps)
    lowering.call("elementwise.h", f"{name}<{function}>", *operands, lowering.made(), *sizes)


def function(lowering: Lowering) -> None:
    """A function of each element."""
    out = lowering.out
    name = f"map<{lowering.name.capitalize()}>"
    lowering.call("elementwise.h", name, lowering.real("X"), lowering.made(), lowering.rows(out), out.columns)


def swiglu(lowering: Lowering) -> None:
    """silu(gate) · up."""
    out = lowering.out
    steps = (lowering.step("GATE"), lowering.step("UP"), out.columns)
    operands = (lowering.real("GATE"), lowering.real("UP"), lowering.made())
    lowering.call("elementwise.h", "pairwise<Swiglu>", *operands, lowering.rows(out), out.columns, *steps)


def transpose(lowering: Lowering) -> None:
    """OUT[j, i] = X[i, j]."""
    x = lowering.value("X")
    kind = "Real" if x.real else "Int"
    operands = (lowering.whole("X", None), lowering.made(None))
    lowering.call("elementwise.h", f"transpose<{kind}>", *operands, x.rows, x.columns)


def norm(lowering: Lowering) -> None:
    """rmsnorm and l2norm: rows, or runs of them, over the root of their squares' mean or sum."""
    out, heads = lowering.out, lowering.node.operands["H"]
    width = out.columns // heads if isinstance(heads, int) else out.columns
    unit = width if isinstance(heads, int) else None
    squares = lowering.name.startswith("rmsnorm")
    holes = ("X", "RES", "W") if squares else ("X",)
    operands: list[Argument] = [
        lowering.real(hole, None if hole == "W" else unit) if lowering.has(hole) else ABSENT for hole in holes
    ]
    operands += [ABSENT] * (3 - len(holes))
    steps = [lowering.step(hole) for hole in holes] + [0] * (3 - len(holes))
    sizes: list[Argument] = [lowering.rows(out), out.columns, *([] if unit is None else [width]), *steps]
    last = (c_double(float(width if squares else 1)), _epsilon(lowering))
    name, made = ("norm_rows", lowering.made()) if unit is None else ("norm_heads", lowering.made(width))
    lowering.call("norms.h", name, *operands, made, *sizes, *last)


def _epsilon(lowering: Lowering) -> str:
    eps = lowering.node.operands["EPS"]
    assert isinstance(eps, (int, float))
    return c_double(float(eps))


def layernorm(lowering: Lowering) -> None:
    """Rows less their mean, over the root of their variance."""
    out, holes = lowering.out, ("X", "W", "B")
    operands = [lowering.real(hole, None) for hole in holes]
    steps = (lowering.step(hole) for hole in holes)
    sizes = (lowering.rows(out), out.columns)
    lowering.call("norms.h", "layernorm", *operands, lowering.made(), *sizes, *steps, _epsilon(lowering))


def softmax(lowering: Lowering) -> None:
    """Rows of any length."""
    out = lowering.out
    lowering.call("norms.h", "softmax", lowering.real("X", None), lowering.made(), lowering.rows(out), out.columns)


def argmax(lowering: Lowering) -> None:
    """Each thread's best of its columns, then the best of theirs: of X whole, or of each step's row."""
    x, several = lowering.value("X"), lowering.name.endswith(" rows")
    rows, columns = (lowering.rows(x), x.columns) if several else ("1", x.size)
    kind, element = ("Real", Element.REAL) if x.real else ("Int", Element.INT)
    parts = (x.rows if several else 1) * MOST_THREADS
    values, places = lowering.scratch(element, 1, parts), lowering.scratch(Element.INT, 1, parts)
    taken = Use(lowering.buffer("X"), spread=(columns, 32) if several or x.rows == 1 else None)
    both = (written(values, None), written(places, None))
    lowering.call("tables.h", f"argmax_parts<{kind}>", taken, *both, rows, columns)
    lowering.call("tables.h", f"argmax_join<{kind}>", Use(values), Use(places), lowering.made(None), rows, columns)


def rope(lowering: Lowering) -> None:
    """Each head's leading 2 · half elements turn in pairs; the rest passes through."""
    out, half, heads = lowering.out, lowering.value("RC").columns, lowering.node.operands["H"]
    width = out.columns // heads if isinstance(heads, int) else 2 * half
    operands = (lowering.real("Q", width), lowering.real("RC", None), lowering.real("RS", None), lowering.made(width))
    steps = (lowering.step(hole) for hole in ("Q", "RC", "RS"))
    lowering.call("attention.h", "rope", *operands, lowering.rows(out), out.columns, width, half, *steps)


def attention(lowering: Lowering) -> None:
    """A row of queries, or one for each of several steps, over the rows of K and V."""
    out = lowering.out
    heads, groups, rows = (lowering.sizes[symbol] for symbol in ("H", "KV", "L"))
    width, last = out.columns // heads, lowering.node.operands["P"]
    unit = width if out.rows == 1 else None
    operands: list[Argument] = [lowering.real("Q", unit), lowering.real("K", None), lowering.real("V", None)]
    operands.append(lowering.whole("P", None) if isinstance(last, Value) else ABSENT)
    steps = (lowering.step("Q"), 1 if isinstance(last, Value) and last.rows > 1 else 0)
    sizes = (lowering.rows(out), rows, heads, groups, width, *steps)
    lowering.call("attention.h", "attention", *operands, lowering.made(unit), *sizes, scratch=_room_for_scores(rows))


def _room_for_scores(rows: int) -> int:
    """Bytes of a score for each row, up to a multiple of 16."""
    return 8 * (rows + 15)


def full_attention(lowering: Lowering) -> None:
    """Rows over each other; of several steps, each of one row, which sees itself alone."""
    out, several = lowering.out, lowering.name.endswith(" rows")
    heads = lowering.sizes["H"]
    width, rows = out.columns // heads, 1 if several else out.rows
    operands = [lowering.real(hole, width) for hole in "QKV"]
    steps = [lowering.step(hole) if several else 0 for hole in "QKV"]
    sizes = (lowering.rows(out) if several else 1, rows, heads, width, *steps)
    scratch = _room_for_scores(rows)
    lowering.call("attention.h", "full_attention", *operands, lowering.made(width), *sizes, scratch=scratch)


def causal_conv(lowering: Lowering) -> None:
    """A channel's column of the ring moves up a row a step."""
    out, taps = lowering.out, lowering.sizes["TAPS"]
    operands = (lowering.real("X"), lowering.real("WC"), written(lowering.buffer("CS"), out.columns), lowering.made())
    sizes = (lowering.rows(out), taps, out.columns, lowering.step("X"))
    lowering.call("recurrent.h", "causal_conv", *operands, *sizes)


def decay(lowering: Lowering) -> None:
    """e^(al · softplus(ar + dt))."""
    out, holes = lowering.out, ("AR", "DT", "AL")
    operands = [lowering.real(hole) for hole in holes]
    steps = (lowering.step(hole) for hole in holes)
    lowering.call("elementwise.h", "decay", *operands, lowering.made(), lowering.rows(out), out.columns, *steps)


def gated_delta(lowering: Lowering) -> None:
    """Threads share the heads, each with its part of the memory."""
    heads, groups, width = (lowering.sizes[symbol] for symbol in ("HV", "HK", "d"))
    operands: list[Argument] = [lowering.real("Q", None), lowering.real("K", None)]
    operands += [lowering.real(hole, width) for hole in "VZ"]
    operands += [lowering.real(hole, None) for hole in "BA"]
    operands += [written(lowering.buffer("S"), heads * width, width), lowering.real("GN", None), lowering.made(width)]
    steps = ", ".join(str(lowering.step(hole)) for hole in ("Q", "K", "V", "Z", "B", "A", "GN"))
    sizes = (lowering.rows(lowering.out), heads, groups, width, f"DeltaSteps{{{{{steps}}}}}", _epsilon(lowering))
    lowering.call("recurrent.h", "gated_delta", *operands, *sizes, scratch=8 * width)


def embedding(lowering: Lowering) -> None:
    """OUT becomes a row of the table; of several steps' values, the tail reads the last."""
    out, table = lowering.out, lowering.buffer("TABLE")
    number = lowering.node.operands["TOK"]
    literal = "w.steps - 1" if out in lowering.memory.tails else str(number)
    row: tuple[Argument, ...] = (lowering.whole("TOK", None), -1) if isinstance(number, Value) else (ABSENT, literal)
    sizes = (lowering.rows(out), lowering.value("TABLE").rows, out.columns)
    if table.element is Element.QUANTS:
        assert table.scales is not None
        lowering.call("tables.h", "read_rows_q8", *row, Use(table), Use(table.scales), lowering.made(), *sizes)
        return
    kind = "Real" if out.real else "Int"
    lowering.call("tables.h", f"read_rows<{kind}>", *row, lowering.whole("TABLE"), lowering.made(), *sizes)


def set_row(lowering: Lowering) -> None:
    """A row of the state, or one for each of several steps, becomes R, in place."""
    table, number = lowering.value("T"), lowering.node.operands["P"]
    kind, values = ("Real", lowering.real("R")) if table.real else ("Int", lowering.whole("R"))
    row: tuple[Argument, ...] = (lowering.whole("P", None), -1) if isinstance(number, Value) else (ABSENT, str(number))
    steps = "w.steps" if lowering.name.endswith(" rows") else 1
    state = written(lowering.buffer("T"), table.columns)
    step = lowering.step("R")
    lowering.call("tables.h", f"set_rows<{kind}>", *row, state, values, steps, table.rows, table.columns, step)


SPELLINGS: Mapping[str, Callable[[Lowering], None]] = MappingProxyType(
    {
        "matmul": matmul,
        "plus": pairwise,
        "hadamard": pairwise,
        "transpose": transpose,
        "rmsnorm": norm,
        "layernorm": layernorm,
        "l2norm": norm,
        "softmax": softmax,
        "argmax": argmax,
        "rope": rope,
        "attention": attention,
        "full attention": full_attention,
        "causal conv": causal_conv,
        "decay": decay,
        "gated delta": gated_delta,
        "moe": moe,
        "sigmoid": function,
        "silu": function,
        "gelu": function,
        "swiglu": swiglu,
        "embedding": embedding,
        "set row": set_row,
    }
)

SPELLS: frozenset[str] = frozenset(SPELLINGS)
"""The names of the ops that the target spells; of several steps at once it takes the same."""
