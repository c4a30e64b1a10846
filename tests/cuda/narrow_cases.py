"""Programs for the kernels that read weights in Q8_0 or keep tables as float16, as kernel_cases.py has for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from kernel_bench import Array, Case
from kernel_cases import EDGES, MANY, Generator, Make, Spec, case, few, reals

from logos_cuda.storage import Multiply, Storage

BOUNDS = {"exact": 1e-5, "dp4a": 2e-2, "two passes": 1e-4}
"""How far experts may be off, of their largest: by float32 activations; of 8 bits, and of some 15."""

ROUNDING = 5e-7
"""How far a product may be off whose operands the reference machine has as the kernels have."""

BLOCKS = (1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 129, 160)
"""Blocks of 32 in a row: below, at and beyond a warp's and a block's round of loads."""


def exact(*names: str) -> Storage:
    return Storage(frozenset(names), Multiply.EXACT)


def dp4a(*names: str, single_pass: bool = True) -> Storage:
    return Storage(frozenset(names), Multiply.DP4A, single_pass)


def awkward(random: Generator, i: int, x: Array) -> Array:
    """Blocks of zeros, below the least normal float, of one large value among small ones, of ±6e4, of ties."""
    flat = x.reshape(-1, 32)
    rows = random.integers(len(flat), size=(4, 1 + len(flat) // 8))
    flat[rows[0]] = 0
    flat[rows[1]] *= np.float32(1e-40)
    if i % 3 == 0:
        flat[rows[2], 5] = 100
    if i % 4 == 1:
        flat[rows[3]] = np.where(flat[rows[3]] < 0, np.float32(-6e4), np.float32(6e4))
    flat[0] = np.arange(32) - np.float32(15.5)  # halfway between quants, by a scale of 1
    flat[0, 0] = 127
    return x


def quantized(x: Array, kind: type[np.floating[Any]] = np.float32) -> Array:
    """Rows as a kernel quantizes them: a scale for each 32, quants rounded half away from zero; their products with the
    scales rounded to `kind`."""
    blocks = x.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    scale[scale < np.finfo(np.float32).tiny] = 0
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    ratio = blocks * inverse
    whole = np.copysign(np.floor(np.abs(ratio) + np.float32(0.5)), ratio)
    return (whole.astype(kind) * scale.astype(kind)).reshape(x.shape)


def product(storage: Storage, m: int, k: int, n: int, random: Generator, i: int) -> Case:
    values = {"a": awkward(random, i, reals(random, m, k)), "b": reals(random, k, n)}
    values["b"].T.reshape(-1, 32)[:: 7 + i] = 0
    values["b"].T.reshape(-1, 32)[3 :: 11 + i] *= np.float32(1e-5)  # scales that are denormal in float16
    made = case(values, "Let y be a matmul b.", blocks=few(i))
    rounded = {"a": quantized(values["a"])} if storage.multiply is Multiply.DP4A else {}
    return Case(made.text, made.values, made.blocks, storage=storage, bound=ROUNDING, rounded=rounded)


def matvec(how: str, rows: int, long: bool) -> Make:
    """Products of one row or several; `long` rows of W take a block each."""

    def make(random: Generator, i: int) -> Case:
        k, n = 32 * BLOCKS[i % 17], EDGES[i] if BLOCKS[i % 17] <= 64 else 2053  # a warp takes a row of many
        m = 1 if rows == 1 else (2, 3, 7, 8, 9, 12, 17)[i % 7]
        if long:
            k, n = 32 * (65, 66, 96, 127, 128, 129, 192, 256, 257)[i % 9], EDGES[i % 20]
        if i == 0:
            k, n = (32, MANY) if not long else (32 * 1029, 3)
        storage = exact("b") if how == "exact" else dp4a("b")
        return product(storage, m, k, n, random, i)

    return make


def embedding(literal: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        n, c = (MANY, 32) if i == 0 else (int(random.choice(EDGES)), 32 * BLOCKS[i % 17])
        row = (n - 1, 0, n // 2)[i % 3]
        values: dict[str, Array] = {"t": awkward(random, 2, reals(random, n, c))}
        if not literal:
            values["p"] = np.array([[row]], dtype=np.int64)
        made = case(values, f"Let y be row {row if literal else 'p'} of t.", blocks=few(i))
        return Case(made.text, made.values, made.blocks, storage=exact("t"), bound=0.0)

    return make


def moe(how: str) -> Make:
    def make(random: Generator, i: int) -> Case:
        t, experts = (1, 1, 1, 2, 5)[i % 5], (4, 8, 16, 31, 64, 128)[i % 6]
        top = (1, 2, 4, 8, 3)[i % 5] if experts >= 8 else 1 + i % 4
        d, f = 32 * (1, 2, 3, 4, 33)[i % 5], 32 * (1, 2, 3, 5)[i % 4]
        if i == 0:
            experts, top, d, f = 300, 300, 32, 32
        values = {
            "x": reals(random, t, d), "r": reals(random, experts, d) / np.float32(np.sqrt(d)),
            "g": reals(random, experts * f, d), "u": reals(random, experts * f, d),
            "w": reals(random, experts * d, f),
        }  # fmt: skip
        said = f"moe of x with router r gate g up u down w top {top} of {experts} experts"
        made = case(values, f"Let y be {said}.", blocks=few(i))
        storage = exact("g", "u", "w") if how == "exact" else dp4a("g", "u", "w", single_pass=how == "dp4a")
        return Case(made.text, made.values, made.blocks, storage=storage, bound=BOUNDS[how])

    return make


def half_tables(span: int, bounded: bool, literal: bool) -> Make:
    """A row set in tables of float16, and attention over them."""

    def make(random: Generator, i: int) -> Case:
        least = {64: 1, 128: 65, 256: 129, 512: 257}[span]
        width = (span, least, least + 2, span - 1, (span + least) // 2 // 8 * 8, span - 8)[i % 6] or 1
        groups = (1, 2, 3, 8)[i % 4]
        heads, rows = groups * (1, 2, 3, 4, 5, 8, 9)[i % 7], (1, 2, 3, 31, 32, 33, 64, 65, 100, 129, 257, 401)[i % 12]
        values: dict[str, Array] = {"q": reals(random, 1, heads * width)}
        for name, count in (("k", rows), ("v", rows), ("r", 1), ("s", 1)):
            values[name] = reals(random, count, groups * width)
        last = (rows - 1, 0, rows // 2)[i % 3]
        at = str(last)
        if bounded or not literal:
            values["p"] = np.array([[last]], dtype=np.int64)
            at = at if literal else "p"
        words = f"attention of q over k and v with {heads} heads {groups} groups" + (" up to p" if bounded else "")
        made = case(values, f"Set row {at} of k to r.", f"Set row {at} of v to s.", f"Let y be {words}.")
        # The new rows are rounded as they are set; the reference machine sets them as they are.
        return Case(made.text, made.values, storage=Storage(half=True), bound=2e-3)

    return make


def _products() -> Iterator[Spec]:
    for rows, suffix in ((1, ""), (8, "_rows")):
        yield Spec(f"matvec_exact{suffix}", (f"matvec_exact{suffix}",), matvec("exact", rows, False))
        for by in ("warps", "blocks"):
            name = f"matvec_q8_by_{by}{suffix}"
            yield Spec(name, ("quantize", name), matvec("dp4a", rows, by == "blocks"))


def _halves() -> Iterator[Spec]:
    for number, span in enumerate((64, 128, 256, 512)):
        for bounded in (False, True):
            literal = number % 2 == 0
            reads = f"attention_up_to_{span}_half" if bounded else f"attention_{span}_half"
            writes = "set_row_at_half" if literal else "set_row_half"
            yield Spec(reads, (writes, reads, "attention_join"), half_tables(span, bounded, literal))


SPECS = (
    *_products(),
    Spec("embedding_q8", ("embedding_q8",), embedding(False)),
    Spec("embedding_at_q8", ("embedding_at_q8",), embedding(True)),
    Spec("moe_exact", ("choose_experts", "experts_hidden_exact", "experts_down_exact"), moe("exact")),
    Spec("moe_q8", ("quantize", "experts_hidden_q8", "experts_down_q8"), moe("dp4a")),
    Spec("moe_q8_two_pass", ("quantize_twice", "experts_hidden_q8_two_pass", "experts_down_q8_two_pass"),
         moe("two passes")),
    *_halves(),
)  # fmt: skip
