"""Programs of several steps at once for the kernels that take a row for each, as kernel_cases.py has for one step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from kernel_bench import Array, Case
from kernel_cases import EDGES, Generator, Make, Spec, few, reals

from logos_cuda.storage import Storage

STEPS = (2, 3, 7, 12, 33)


def case(steps: int, rows: Mapping[str, Array], values: Mapping[str, Array], i: int, *sentences: str) -> Case:
    """Steps from position 5 on, each with its own row of `rows`, which sentences call by their names; a step reads the
    rows of a table in an order of its own."""
    tables = {f"{name}_of": array for name, array in rows.items()}
    order = np.random.default_rng(i).permutation(steps).astype(np.int64).reshape(steps, 1)
    given = {**tables, **values, "tok": order, "pos": np.arange(5, 5 + steps).reshape(steps, 1)}
    declared = [
        f"Let {name} be a {1 if name in ('tok', 'pos') else array.shape[0]} by {array.shape[1]} tensor of "
        f"{'Int' if array.dtype == np.int64 else 'Real'}."
        for name, array in given.items()
    ]
    read = [f"Let {name} be row tok of {name}_of." for name in rows]
    return Case("\n".join([*declared, *read, *sentences]) + "\n", given, few(i), steps=steps)


def tables(random: Generator, i: int) -> Case:
    steps, c = STEPS[i % 5], EDGES[i]
    values = {"t": reals(random, steps + 5, c), "n": random.integers(-9, 9, (steps + 6, c), dtype=np.int64)}
    whole = random.integers(-9, 9, (steps, c), dtype=np.int64)
    sets = ("Set row pos of t to x.", "Set row pos of n to m.")
    return case(steps, {"x": reals(random, steps, c), "m": whole}, values, i, *sets)


def quantized_table(random: Generator, i: int) -> Case:
    steps, c = STEPS[i % 5], 32 * (1 + i % 9)
    made = case(steps, {"x": reals(random, steps, c)}, {}, i, "Let y be x plus x.")
    return Case(made.text, made.values, made.blocks, storage=Storage(q8=frozenset({"x_of"})), steps=steps)


def heads(op: str, wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        steps, count = STEPS[i % 5], (1, 2, 3, 8)[i % 4]
        width = (257, 300)[i % 2] if wide else (1, 2, 5, 32, 64, 128)[i % 6]
        weight = {"w": reals(random, 1, width)} if op == "rmsnorm" else {}
        said = f"Let y be {op} of x{' with weight w' if weight else ''} with eps 1e-5 across {count} heads."
        return case(steps, {"x": reals(random, steps, count * width)}, weight, i, said)

    return make


def rope(random: Generator, i: int) -> Case:
    steps, count, half = STEPS[i % 5], (1, 2, 3, 8)[i % 4], (1, 2, 5, 16, 32, 64)[i % 6]
    width = 2 * half + (0, 3)[i % 2]
    rows = {"x": reals(random, steps, count * width), "c": reals(random, steps, half), "s": reals(random, steps, half)}
    return case(steps, rows, {}, i, f"Let y be rope of x with cos c and sin s across {count} heads.")


def attention(span: int, half: bool = False) -> Make:
    def make(random: Generator, i: int) -> Case:
        steps, least = STEPS[i % 5], {64: 1, 128: 65, 256: 129, 512: 257}[span]
        width = (span, least, least + 2, span - 1, (span + least) // 2, span - 4)[i % 6] or 1
        groups, each, length = (1, 2, 3)[i % 3], (1, 3, 4, 5)[i % 4], steps + (5, 40, 70)[i % 3]
        rows = {"q": reals(random, steps, groups * each * width), "k": reals(random, steps, groups * width),
                "v": reals(random, steps, groups * width)}  # fmt: skip
        kept = {name: reals(random, length, groups * width) for name in ("tk", "tv")}
        said = f"attention of q over tk and tv with {groups * each} heads {groups} groups up to pos"
        made = case(steps, rows, kept, i, "Set row pos of tk to k.", "Set row pos of tv to v.", f"Let y be {said}.")
        # Attention takes its blocks as they are.
        storage, bound = (Storage(half=True), 2e-3) if half else (Storage(), None)
        return Case(made.text, made.values, storage=storage, bound=bound, steps=steps)

    return make


def scans(random: Generator, i: int) -> Case:
    steps, taps, c = STEPS[i % 5], (1, 2, 3, 4)[i % 4], EDGES[i]
    values = {"w": reals(random, taps, c), "ring": reals(random, taps, c)}
    said = f"Let y be causal conv of x with weight w state ring over {taps} taps."
    return case(steps, {"x": reals(random, steps, c)}, values, i, said)


def delta(random: Generator, i: int) -> Case:
    groups, times, steps = (1, 2, 3)[i % 3], (1, 2)[i // 3 % 2], STEPS[i % 5]
    hv, d = groups * times, (1, 2, 5, 31, 32, 33, 64, 100, 128)[i % 9]
    rows = {
        "q": reals(random, steps, groups * d), "k": reals(random, steps, groups * d) / np.float32(2 * np.sqrt(d)),
        "v": reals(random, steps, hv * d), "z": reals(random, steps, hv * d),
        "b": random.random((steps, hv), np.float32), "ar": reals(random, steps, hv),
    }  # fmt: skip
    values = {"dt": reals(random, 1, hv), "al": -np.abs(reals(random, 1, hv)), "mem": reals(random, hv * d, d),
              "n": reals(random, 1, d)}  # fmt: skip
    said = f"gated delta of q over k and v with gate z beta b decay a state mem norm n with {hv} heads {groups} groups"
    return case(steps, rows, values, i, "Let a be decay of ar with bias dt rate al.", f"Let y be {said}.")


def pairs(op: str) -> Make:
    def make(random: Generator, i: int) -> Case:
        steps, c = STEPS[i % 5], EDGES[i % 24] + 1
        rows = {"a": reals(random, steps, c), "b": reals(random, steps, 1)}
        return case(steps, rows, {}, i, f"Let y be a {op} b.")

    return make


def constants(random: Generator, i: int) -> Case:
    """Operands that are the same at every step beside some that are not. Attention takes its blocks as they are."""
    steps, c = STEPS[i % 5], 2 * (1 + i)
    rows = {"x": reals(random, steps, c), "z": reals(random, steps, c)}
    values = {"k": reals(random, 1, c), "co": reals(random, 1, c // 2), "si": reals(random, 1, c // 2),
              "n": random.integers(-9, 9, (steps + 6, c), dtype=np.int64), "t": reals(random, steps + 5, c),
              "m": random.integers(-9, 9, (1, c), dtype=np.int64)}  # fmt: skip
    made = case(
        steps, rows, values, i, "Let a be rope of x with cos co and sin si across 1 heads.",
        "Let b be rmsnorm of k plus x with weight k.", "Let d be swiglu of x and k.", "Let e be swiglu of k and x.",
        "Let f be full attention of x over z and a with 2 heads.",
        "Let g be full attention of x over k and z with 1 heads.", "Set row pos of n to m.", "Set row pos of t to k.",
    )  # fmt: skip
    return Case(made.text, made.values, steps=steps)


def integers(random: Generator, i: int) -> Case:
    steps, c = STEPS[i % 5], EDGES[i]
    shapes = {"a": (steps, c), "b": (steps, 1), "k": (1, c)}
    rows = {name: random.integers(-9, 9, shape, dtype=np.int64) for name, shape in shapes.items()}
    values = {"k": rows.pop("k")}
    said = ("Let s be a plus b.", "Let p be a hadamard b.", "Let q be k plus a.", "Let r be k hadamard b.")
    return case(steps, rows, values, i, *said)


def choices(real: bool) -> Make:
    """Few values, so that a row's largest stands at several places. The kernel takes its blocks as they are."""

    def make(random: Generator, i: int) -> Case:
        steps, x = STEPS[i % 5], random.integers(-3, 3, (STEPS[i % 5], EDGES[i]), dtype=np.int64)
        made = case(steps, {"x": x.astype(np.float32) if real else x}, {}, i, "Let y be argmax of x.")
        return Case(made.text, made.values, steps=steps)

    return make


SPECS = (
    Spec("steps_of_tables", ("embedding_steps", "embedding_steps_int", "set_row_steps", "set_row_steps_int"), tables),
    Spec("steps_of_a_table_in_q8", ("embedding_steps_q8",), quantized_table),
    *(Spec(f"{op}_across_heads_of_steps_{'wide' if wide else 'narrow'}", (), heads(op, wide))
      for op in ("rmsnorm", "l2norm") for wide in (False, True)),
    Spec("rope_of_steps", ("rope",), rope),
    *(Spec(f"attention_of_steps_{span}", (f"attention_up_to_{span}",), attention(span))
      for span in (64, 128, 256, 512)),
    Spec("attention_of_steps_half", ("set_row_steps_half", "attention_up_to_64_half"), attention(64, half=True)),
    Spec("causal_conv_of_steps", ("causal_conv",), scans),
    Spec("gated_delta_of_steps", ("decay", "delta_rows", "delta_norm"), delta),
    Spec("argmax_of_steps", ("argmax_rows",), choices(True)),
    Spec("argmax_of_steps_int", ("argmax_rows_int",), choices(False)),
    Spec("constants_beside_steps", ("repeat", "repeat_int"), constants),
    Spec("integers_of_steps", ("plus_steps_int", "hadamard_steps_int"), integers),
    Spec("plus_of_steps", ("plus_steps",), pairs("plus")),
    Spec("hadamard_of_steps", ("hadamard_steps",), pairs("hadamard")),
)  # fmt: skip
