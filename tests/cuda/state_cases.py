"""Programs for the kernels that a llama does not need, as kernel_cases.py has for those that it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from kernel_bench import Array, Case
from kernel_cases import EDGES, MANY, Generator, Make, Spec, case, few, reals, width_of


def norm(op: str, wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        c, r = width_of(wide, random, i), int(random.choice(EDGES[:16]))
        if i == 0:
            r, c = (MANY, 3) if not wide else (4100, 257)
        eps = random.choice(["1e-5", "1e-6", "0.5"])
        values = {"x": reals(random, r, c) + np.float32((0, 3)[i % 2])}
        if op == "layernorm":
            values |= {"w": reals(random, 1, c), "b": reals(random, 1, c)}
            return case(values, f"Let y be layernorm of x with weight w and bias b with eps {eps}.", blocks=few(i))
        heads = f" across {r} heads" if i % 2 else ""
        values["x"] = values["x"].reshape(1, r * c) if heads else values["x"]
        return case(values, f"Let y be l2norm of x with eps {eps}{heads}.", blocks=few(i))

    return make


def full_attention(span: int) -> Make:
    def make(random: Generator, i: int) -> Case:
        least = {64: 1, 128: 65, 256: 129, 512: 257}[span]
        width = (span, least, least + 2, span - 1, (span + least) // 2, span - 4)[i % 6] or 1
        heads, rows = (1, 2, 3, 8)[i % 4], (1, 2, 3, 4, 5, 31, 32, 33, 65, 100)[i % 10]
        if i == 0:
            width, heads, rows = (1, 2, 1009) if span == 64 else (least, 1, 257)
        values = {name: reals(random, rows, heads * width) for name in ("q", "k", "v")}
        return case(values, f"Let y be full attention of q over k and v with {heads} heads.")

    return make


def causal_conv(random: Generator, i: int) -> Case:
    taps, c = (1, 2, 3, 4, 5, 7)[i % 6], MANY if i == 0 else EDGES[i]
    values = {"x": reals(random, 1, c), "w": reals(random, taps, c), "s": reals(random, taps, c)}
    return case(values, f"Let y be causal conv of x with weight w state s over {taps} taps.", blocks=few(i))


def weighed_by_its_ring(random: Generator, i: int) -> Case:
    taps, c = (1, 2, 3, 4, 5, 7)[i % 6], MANY if i == 0 else EDGES[i]
    values = {"x": reals(random, 1, c), "s": reals(random, taps, c)}
    return case(values, f"Let y be causal conv of x with weight s state s over {taps} taps.", blocks=few(i))


def delta_of_its_memory(random: Generator, i: int) -> Case:
    said = "gated delta of s over s and s with gate s beta s decay s state s norm s with 1 heads 1 groups"
    return case({"s": reals(random, 1, 1)}, f"Let y be {said}.")


def decay(random: Generator, i: int) -> Case:
    r, c = (MANY, 2) if i == 0 else (int(random.choice(EDGES[:12])), EDGES[i])
    size = np.float32((1, 8, 60)[i % 3])
    values = {"a": reals(random, r, c) * size, "d": reals(random, r, c), "l": -np.abs(reals(random, r, c))}
    return case(values, "Let y be decay of a with bias d rate l.", blocks=few(i))


def gated_delta(random: Generator, i: int) -> Case:
    groups, times = (1, 2, 3)[i % 3], (1, 2, 3)[i // 3 % 3]
    heads, d = groups * times, (1, 2, 3, 5, 7, 31, 32, 33, 64, 100, 127, 128, 129, 200, 256)[i % 15]
    if i == 0:
        heads, groups, d = 3 * 1000, 1000, 5
    values: dict[str, Array] = {
        "q": reals(random, 1, groups * d), "k": reals(random, 1, groups * d) / np.float32(np.sqrt(d)),
        "v": reals(random, 1, heads * d), "z": reals(random, 1, heads * d),
        "b": random.random((1, heads), np.float32), "a": random.random((1, heads), np.float32),
        "s": reals(random, heads * d, d), "n": reals(random, 1, d),
    }  # fmt: skip
    eps = "" if i % 2 else " with eps 1e-5"
    words = "gated delta of q over k and v with gate z beta b decay a state s norm n"
    return case(values, f"Let y be {words}{eps} with {heads} heads {groups} groups.", blocks=few(i))


def moe(one_row: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        t = 1 if one_row else (2, 3, 5, 17)[i % 4]
        experts = (1, 2, 3, 4, 7, 8, 16, 31, 64, 128)[i % 10]
        top = (experts, 1, max(1, experts // 2), min(8, experts))[i % 4]
        d, f = EDGES[(7 * i + 3) % 24], (1, 2, 3, 5, 8, 13, 16, 32, 48)[i % 9]
        if i == 0:
            experts, top, d, f = 300, 300, 16, 3
        values = {
            "x": reals(random, t, d), "r": reals(random, experts, d) / np.float32(np.sqrt(d)),
            "g": reals(random, experts * f, d), "u": reals(random, experts * f, d),
            "w": reals(random, experts * d, f),
        }  # fmt: skip
        if i % 5 == 1:
            values["r"][:] = values["r"][0]  # Ties everywhere: the lowest numbers are due.
        said = f"moe of x with router r gate g up u down w top {top} of {experts} experts"
        return case(values, f"Let y be {said}.", blocks=few(i))

    return make


def _norms() -> Iterator[Spec]:
    for op in ("layernorm", "l2norm"):
        for wide in (False, True):
            name = f"{op}_{'wide' if wide else 'narrow'}"
            yield Spec(name, (name,), norm(op, wide))


SPECS = (
    *_norms(),
    *(Spec(f"full_attention_{span}", (f"full_attention_{span}", "attention_join"), full_attention(span))
      for span in (64, 128, 256, 512)),
    Spec("causal_conv", ("causal_conv",), causal_conv),
    Spec("weighed_by_its_ring", ("copy", "causal_conv"), weighed_by_its_ring),
    Spec("delta_of_its_memory", ("copy", "delta_rows", "delta_norm"), delta_of_its_memory),
    Spec("decay", ("decay",), decay),
    Spec("gated_delta", ("delta_rows", "delta_norm"), gated_delta),
    Spec("moe_of_a_row", ("choose_experts", "experts_hidden", "experts_down"), moe(True)),
    Spec("moe_of_rows", ("choose_experts", "experts_hidden", "experts_down"), moe(False)),
)  # fmt: skip
