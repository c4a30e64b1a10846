"""Reductions over rows: a norm, softmax, and the index of the largest element."""

from __future__ import annotations

from logos_cuda.lowering import ABSENT, FAULT, THREADS, Lowering, Parameter, arrivals, q8_of

NARROW = 256
"""Columns up to which a warp takes a row; a block of THREADS takes a wider one."""

PART = 2048
"""Elements of an argmax from which another block shares the search."""

LEAST_REAL, LARGEST_REAL = 2.0**-126, (2 - 2.0**-23) * 2.0**127
_MOST_BLOCKS = 4096
_MOST_PARTS = 512


def shape_of(rows: int, columns: int) -> tuple[str, int, int]:
    """What a kernel's name says, the threads that share a row, and the blocks."""
    lanes = 32 if columns <= NARROW else THREADS
    blocks = min(-(-rows // (THREADS // lanes)), _MOST_BLOCKS)
    return ("narrow" if lanes == 32 else "wide"), lanes, blocks


def epsilon(lowering: Lowering) -> float | None:
    """The sentence's eps as a Real of 32 bits; refused where it is beyond one."""
    eps = lowering.node.operands["EPS"]
    assert isinstance(eps, (int, float))
    if abs(eps) > LARGEST_REAL:
        lowering.refuse(f"eps {eps} is beyond a Real of 32 bits, {LARGEST_REAL:.9g}")
        return None
    # An eps above 0 keeps a row of zeros from 0 / 0; as a Real of 32 bits it must stay above 0.
    return max(float(eps), LEAST_REAL) if eps > 0 else float(eps)


def runs_of(lowering: Lowering) -> tuple[int, int]:
    """The runs that are normalized and their length: X's rows or, across heads, runs of them."""
    x, heads = lowering.value("X"), lowering.node.operands["H"]
    rows = heads * x.rows if isinstance(heads, int) else x.rows
    return rows, x.size // rows


def rmsnorm(lowering: Lowering) -> None:
    """Rows, or the runs of one row, over the root of their mean square."""
    eps = epsilon(lowering)
    if eps is None:
        return
    rows, columns = runs_of(lowering)
    plus, weight = lowering.node.operands["RES"] is not None, lowering.node.operands["W"] is not None
    width, lanes, blocks = shape_of(rows, columns)
    parameters: list[Parameter] = [
        ("const Real *x", lowering.real("X")),
        ("const Real *res", lowering.real("RES")) if plus else ABSENT,
        ("const Real *w", lowering.real("W")) if weight else ABSENT,
        ("Real *y", lowering.out), *lowering.made_quants(),
        ("Size rows", rows), ("Size columns", columns), ("float eps", eps),
    ]  # fmt: skip
    q8 = q8_of(lowering)
    name = "_".join(["rmsnorm", *(["plus"] if plus else []), *(["weight"] if weight else []), f"{width}{q8}"])
    call = f"rmsnorm{q8}<{str(plus).lower()}, {str(weight).lower()}, {lanes}>"
    lowering.launch(name, f"rmsnorm{q8}.cuh", call, parameters, blocks, registers=bool(q8))


def layernorm(lowering: Lowering) -> None:
    """Rows less their mean, over the root of their variance."""
    x, eps = lowering.value("X"), epsilon(lowering)
    if eps is None:
        return
    width, lanes, blocks = shape_of(x.rows, x.columns)
    parameters: list[Parameter] = [
        ("const Real *x", lowering.real("X")), ("const Real *w", lowering.real("W")),
        ("const Real *b", lowering.real("B")), ("Real *y", lowering.out),
        ("Size rows", x.rows), ("Size columns", x.columns), ("float eps", eps),
    ]  # fmt: skip
    lowering.launch(f"layernorm_{width}", "layernorm.cuh", f"layernorm<{lanes}>", parameters, blocks)


def l2norm(lowering: Lowering) -> None:
    """Rows, or the runs of one row, over their length."""
    eps = epsilon(lowering)
    if eps is None:
        return
    rows, columns = runs_of(lowering)
    width, lanes, blocks = shape_of(rows, columns)
    parameters: list[Parameter] = [
        ("const Real *x", lowering.real("X")), ("Real *y", lowering.out),
        ("Size rows", rows), ("Size columns", columns), ("float eps", eps),
    ]  # fmt: skip
    lowering.launch(f"l2norm_{width}", "layernorm.cuh", f"l2norm<{lanes}>", parameters, blocks)


def softmax(lowering: Lowering) -> None:
    """Rows of any length."""
    x = lowering.value("X")
    width, lanes, blocks = shape_of(x.rows, x.columns)
    parameters: list[Parameter] = [
        ("const Real *x", lowering.real("X")), ("Real *y", lowering.out),
        ("Size rows", x.rows), ("Size columns", x.columns),
    ]  # fmt: skip
    lowering.launch(f"softmax_{width}", "softmax.cuh", f"softmax<{lanes}>", parameters, blocks)


def argmax(lowering: Lowering) -> None:
    """Each block's best of its share, then the best of the blocks'."""
    x = lowering.buffer("X")
    kind, suffix = ("Real", "") if x.real else ("Int", "_int")
    blocks = min(-(-x.elements // PART), _MOST_PARTS)
    values, indexes = lowering.scratch(blocks, x.real), lowering.scratch(blocks, real=False)
    parts: list[Parameter] = [
        (f"const {kind} *x", x), (f"{kind} *values", values), ("Int *indexes", indexes), FAULT,
        ("Size n", x.elements),
    ]  # fmt: skip
    if lowering.act("combine"):
        both = [*parts[:3], ("Int *y", lowering.out), arrivals(1), *parts[3:]]
        lowering.launch(f"argmax_combined{suffix}", "argmax.cuh", f"argmax_combined<{kind}>", both, blocks)
        return
    lowering.launch(f"argmax_parts{suffix}", "argmax.cuh", f"argmax_parts<{kind}>", parts, blocks)
    whole: list[Parameter] = [
        (f"const {kind} *values", values), ("const Int *indexes", indexes), ("Int *y", lowering.out),
        ("Size n", blocks),
    ]  # fmt: skip
    lowering.launch(f"argmax_whole{suffix}", "argmax.cuh", f"argmax_whole<{kind}>", whole, 1)
