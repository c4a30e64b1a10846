"""Programs for the kernels of fused operations, as kernel_cases.py has for those of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import kernel_cases
import numpy as np
from kernel_bench import Array, Case
from kernel_cases import EDGES, MANY, Generator, Make, Spec, few, reals, width_of

WIDE = (513, 514, 516, 521, 640, 1021, 1023, 1024, 1025, 2039, 2048, 2049, 4096, 4099, 516)
"""Elements of a row of which a block of threads takes one."""


def case(values: Mapping[str, Array], *sentences: str, blocks: int | None = None) -> Case:
    """A case in which every step acts."""
    return replace(kernel_cases.case(values, *sentences, blocks=blocks), held=())


def chain(*sentences: str, spread: str = "same") -> Make:
    """Of x (r, c) and of a and b, whose shape is that of the spread."""

    def make(random: Generator, i: int) -> Case:
        r, c = int(random.choice(EDGES[:20])) + 1, EDGES[i] + 1
        if i in (0, 1):
            r, c = (MANY, 3) if i == 0 else (2, MANY)
        shape = {"same": (r, c), "row": (1, c), "scalar": (1, 1)}[spread]
        values = {"x": reals(random, r, c), "a": reals(random, *shape), "b": reals(random, r, c)}
        return case(values, *sentences, blocks=few(i))

    return make


def add_norm(wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        c, r = width_of(wide, random, i), int(random.choice(EDGES[:16]))
        values = {"a": reals(random, r, c), "b": reals(random, r, c), "w": reals(random, 1, c)}
        also = ["Let z be y plus s."] if i % 2 else []
        return case(values, "Let s be a plus b.", "Let y be rmsnorm of s with weight w.", *also, blocks=few(i))

    return make


def _widths(by: str, random: Generator, i: int, parts: int) -> tuple[int, list[int]]:
    """The length of a row and the rows of each weight."""
    few_rows = [int(random.choice(EDGES[:20])) for _ in range(parts)]
    if by == "warps":
        return EDGES[i] if EDGES[i] <= 512 else 512, few_rows
    return (WIDE[i % 5], [2051, *few_rows[1:]]) if by == "mixed" else (WIDE[i % 15], few_rows)


def parts(by: str, count: int) -> Make:
    def make(random: Generator, i: int) -> Case:
        k, rows = _widths(by, random, i, count)
        values: dict[str, Array] = {"x": reals(random, 1, k)}
        values |= {f"w{number}": reals(random, k, n) for number, n in enumerate(rows)}
        return case(values, *(f"Let y{number} be x matmul w{number}." for number in range(count)))

    return make


def residual(by: str) -> Make:
    def make(random: Generator, i: int) -> Case:
        k, (n,) = _widths(by, random, i, 1)
        values = {"x": reals(random, 1, k), "w": reals(random, k, n), "r": reals(random, 1, n)}
        added = "p plus r" if i % 2 else "r plus p"
        return case(values, "Let p be x matmul w.", f"Let y be {added}.", blocks=few(i))

    return make


def gate_up(by: str, silu: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        k, (n,) = _widths(by, random, i, 1)
        # Products of about 1: silu of a large negative number is 0, whatever else is wrong.
        x = reals(random, 1, k) / np.float32(np.sqrt(k))
        values = {"x": x, "wg": reals(random, k, n), "wu": reals(random, k, n)}
        products = ["Let u be x matmul wu.", "Let g be x matmul wg."]
        if i % 2:
            products.reverse()
        joined = ["Let s be silu of g.", f"Let y be {'s hadamard u' if i % 3 else 'u hadamard s'}."]
        made = case(values, *products, *(joined if silu else ["Let y be swiglu of g and u."]), blocks=few(i))
        return replace(made, bound=gate_up_bound(values))

    return make


def gate_up_bound(values: Mapping[str, Array]) -> float:
    """1e-5 of the largest result, or more where the products' terms all but cancel: a sum in float32 is off by about
    1e-7 of the sum of its terms' sizes."""
    x, gate, up = (values[name].astype(np.float64) for name in ("x", "wg", "wu"))
    g, u, sizes_g, sizes_u = x @ gate, x @ up, abs(x) @ abs(gate), abs(x) @ abs(up)
    silu = g / (1 + np.exp(-g))
    # The slope of silu is 1.1 at most.
    off = 1e-7 * (1.1 * sizes_g * abs(u) + abs(silu) * sizes_u)
    return max(1e-5, float(off.max() / abs(silu * u).max()))


def heads(wide: bool, weighted: bool, literal: bool = False) -> Make:
    """Query and key normed and turned, key and value appended: all heads of one width, fewer of them in the key."""

    def make(random: Generator, i: int) -> Case:
        width = (258, 260, 300, 384, 512)[i % 5] if wide else (2, 4, 6, 10, 32, 34, 62, 64, 128, 254, 256)[i % 11]
        groups = (1, 2, 3)[i % 3]
        many = groups * (1, 2, 5)[i % 5 % 3]
        half, rows = max(1, width // (2, 4)[i % 2]), EDGES[i]
        values: dict[str, Array] = {"q": reals(random, 1, many * width), "k": reals(random, 1, groups * width)}
        values |= {"v": reals(random, 1, groups * width), "n": reals(random, 1, width), "m": reals(random, 1, width)}
        values |= {"c": reals(random, 1, half), "s": reals(random, 1, half), "p": np.array([[rows // 2]])}
        values |= {"K": reals(random, rows, groups * width), "V": reals(random, rows, groups * width)}
        weights = (" with weight n", " with weight m") if weighted else ("", "")
        row = str(rows - 1) if literal else "p"
        return case(
            values, f"Let a be rmsnorm of q{weights[0]} across {many} heads.",
            f"Let b be rmsnorm of k{weights[1]} across {groups} heads.",
            f"Let a be rope of a with cos c and sin s across {many} heads.",
            f"Let b be rope of b with cos c and sin s across {groups} heads.",
            f"Set row {row} of K to b.", f"Set row {row} of V to v.",
            f"Let y be attention of a over K and V with {many} heads {groups} groups.",
        )  # fmt: skip

    return make


def turned(random: Generator, i: int) -> Case:
    """Without norms: the heads' width is twice that of the cosines."""
    half, heads = (1, 2, 3, 16, 31, 32, 64, 63, 127, 128)[i % 10], (1, 2, 3, 8)[i % 4]
    width, rows = 2 * half, EDGES[i]
    values: dict[str, Array] = {name: reals(random, 1, heads * width) for name in "qkv"}
    values |= {"c": reals(random, 1, half), "s": reals(random, 1, half), "p": np.array([[rows - 1]])}
    values |= {"K": reals(random, rows, heads * width), "V": reals(random, rows, heads * width)}
    return case(
        values, "Let a be rope of q with cos c and sin s.", "Let b be rope of k with cos c and sin s.",
        "Set row p of K to b.", "Set row p of V to v.",
        f"Let y be attention of a over K and V with {heads} heads {heads} groups up to p.",
    )  # fmt: skip


def delta_inputs(wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        groups, times, taps = (1, 2, 3)[i % 3], (1, 2, 3)[i // 3 % 3], (1, 2, 4, 5)[i % 4]
        width = (257, 260, 300)[i % 3] if wide else (1, 2, 3, 7, 32, 33, 64, 128, 200, 256)[i % 10]
        keys, rest = groups * width, groups * times
        values: dict[str, Array] = {}
        for name, columns in (("q", keys), ("k", keys), ("v", rest * width)):
            values |= {name: reals(random, 1, columns), f"W{name}": reals(random, taps, columns)}
            values[f"C{name}"] = reals(random, taps, columns)
        values |= {name: reals(random, 1, rest) for name in "bad"}
        values |= {"l": -np.abs(reals(random, 1, rest)), "z": reals(random, 1, rest * width)}
        values |= {"S": reals(random, rest * width, width), "n": reals(random, 1, width)}
        taken = f"over {taps} taps"
        return case(
            values, *(f"Let c{x} be causal conv of {x} with weight W{x} state C{x} {taken}." for x in ("q", "k", "v")),
            *(f"Let s{x} be silu of c{x}." for x in ("q", "k", "v")),
            *(f"Let n{x} be l2norm of s{x} across {groups} heads." for x in ("q", "k")),
            "Let beta be sigmoid of b.", "Let alpha be decay of a with bias d rate l.",
            f"Let y be gated delta of nq over nk and sv with gate z beta beta decay alpha state S norm n "
            f"with {rest} heads {groups} groups.",
        )  # fmt: skip

    return make


FUNCTIONS = ("Let p be silu of x.", "Let q be gelu of p.", "Let r be sigmoid of q.", "Let y be swiglu of r and b.")
SECOND = ("Let p be gelu of x.", "Let q be b plus p.", "Let r be a hadamard q.", "Let y be swiglu of b and r.")
HEADS = "heads_weighted_rope_and_weighted_rope_append_and_append"
DELTA = (
    "delta_causal_conv_silu_l2norm_and_causal_conv_silu_l2norm_and_causal_conv_silu_and_sigmoid_and_decay"
)
SPREAD = ("Let p be x plus a.", "Let q be p hadamard a.", "Let y be q plus b.")

SPECS: tuple[Spec, ...] = (
    Spec("chain of functions", ("chain_silu_gelu_sigmoid_swiglu",), chain(*FUNCTIONS)),
    Spec("chain of seconds", ("chain_gelu_plus_second_hadamard_second_swiglu_second",), chain(*SECOND)),
    Spec("chain by rows", ("chain_plus_row_hadamard_row_plus",), chain(*SPREAD, spread="row")),
    Spec("chain by one", ("chain_plus_scalar_hadamard_scalar_plus",), chain(*SPREAD, spread="scalar")),
    Spec("add norm narrow", ("add_rmsnorm_narrow",), add_norm(False)),
    Spec("add norm wide", ("add_rmsnorm_wide",), add_norm(True)),
    Spec("parts by warps", ("matvec_parts_3_by_warps",), parts("warps", 3)),
    Spec("parts by blocks", ("matvec_parts_2_by_blocks",), parts("blocks", 2)),
    Spec("parts mixed", ("matvec_parts_8_by_mixed",), parts("mixed", 8)),
    Spec("residual by warps", ("matvec_plus_by_warps",), residual("warps")),
    Spec("residual by blocks", ("matvec_plus_by_blocks",), residual("blocks")),
    Spec("gate up by warps", ("gate_up_by_warps",), gate_up("warps", False)),
    Spec("heads narrow", (f"{HEADS}_narrow",), heads(False, True)),
    Spec("heads wide", (f"{HEADS}_wide",), heads(True, True)),
    Spec("heads at", (f"{HEADS}_narrow_at",), heads(False, True, True)),
    Spec("heads without weights", (f"{HEADS}_narrow".replace("weighted", "norm"),), heads(False, False)),
    Spec("heads turned", ("heads_rope_and_rope_append_and_append_narrow",), turned),
    Spec("delta inputs narrow", (f"{DELTA}_narrow",), delta_inputs(False)),
    Spec("delta inputs wide", (f"{DELTA}_wide",), delta_inputs(True)),
    Spec("gate up by blocks", ("gate_up_silu_by_blocks",), gate_up("blocks", True)),
)
