"""Programs for the kernels of fused operations over weights in Q8_0, and of ops that join their parts in one launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import fused_cases
import kernel_cases
import narrow_cases
import numpy as np
import state_cases
from kernel_bench import Array, Case
from kernel_cases import EDGES, Generator, Make, Spec, few, reals

from logos_cuda.storage import Storage

BLOCKS = (1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 48, 63, 64)
"""Blocks of 32 in a row that a warp takes."""

LONG = (65, 66, 96, 127, 128, 129, 160)
"""The same of a row that a block of threads takes, where there are few rows."""

BOUND = 2e-1
"""How far what several products by 8 bits make may be off: a model's bound. narrow_cases.py has each alone."""


def case(values: Mapping[str, Array], sentences: Sequence[str], q8: Sequence[str], blocks: int | None = None) -> Case:
    """A case in which every step acts, these weights being in Q8_0."""
    made = fused_cases.case(values, *sentences, blocks=blocks)
    return replace(made, storage=Storage(frozenset(q8), half=True), bound=BOUND)


def _columns(by: str, i: int) -> int:
    return 32 * (BLOCKS[i % 13] if by == "warps" else LONG[i % 7])


def parts(by: str, count: int) -> Make:
    """Products of a normed row."""

    def make(random: Generator, i: int) -> Case:
        k, rows = _columns(by, i), [int(random.choice(EDGES[:20])) for _ in range(count)]
        if by == "mixed":
            rows[i % count] = 2051
        values: dict[str, Array] = {"x": reals(random, 1, k), "n": reals(random, 1, k)}
        weights = [f"w{number}" for number in range(count)]
        values |= {name: reals(random, k, n) for name, n in zip(weights, rows, strict=True)}
        if i % 3 == 0:
            values["x"].reshape(-1, 32)[0] = 0
        plus = " plus n" if i % 2 else ""
        sentences = [f"Let h be rmsnorm of x{plus} with weight n."]
        # A single product whose terms cancel would be rounding alone: these weights lean the way that h does.
        lean = np.sign((values["x"] + values["n"] if plus else values["x"]) * values["n"]).T / 2
        values |= {name: values[name] + lean for name in weights}
        return case(values, [*sentences, *(f"Let y{name} be h matmul {name}." for name in weights)], weights)

    return make


def norm(wide: bool, added: bool) -> Make:
    """A norm that goes on in Q8_0; of a sum, of several rows, of runs of a row."""

    def make(random: Generator, i: int) -> Case:
        k, rows = 32 * ((9, 10, 17, 64, 128) if wide else (1, 2, 4, 7, 8))[i % 5], (1, 3, 8, 13)[i % 4]
        heads = not added and i % 3 == 1
        shape = (1, rows * k) if heads else (rows, k)
        values = {"a": reals(random, *shape), "b": reals(random, *shape), "n": reals(random, 1, k)}
        values["w"] = reals(random, shape[1], 5)
        start = ["Let s be a plus b."] if added else []
        words = f"rmsnorm of {'s' if added else 'a'}{'' if i % 4 == 2 and not added else ' with weight n'}"
        words += f" across {rows} heads" if heads else ""
        also = ["Let z be h plus b."] if i % 2 else []
        return case(values, [*start, f"Let h be {words}.", "Let y be h matmul w.", *also], ["w"], few(i))

    return make


def residual(by: str, scaled: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        k, n = _columns(by, i), EDGES[(3 * i) % 24] + 1
        values: dict[str, Array] = {"x": reals(random, 1, k), "w": reals(random, k, n)}
        values |= {"r": reals(random, 1, n), "t": reals(random, 1, n), "g": reals(random, 1, 1)}
        sentences = ["Let p be x matmul w.", f"Let y be {'p plus r' if i % 2 else 'r plus p'}."]
        if scaled:
            sentences = [sentences[0], "Let e be p hadamard g.", "Let m be t plus e.", "Let y be r plus m."]
        return case(values, sentences, ["w"], few(i))

    return make


def gate_up(by: str, silu: bool, quantized: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        k, n = _columns(by, i), 32 * (1, 2, 3, 5, 8)[i % 5]
        values = {"x": reals(random, 1, k), "wg": reals(random, k, n), "wu": reals(random, k, n)}
        values["wd"] = reals(random, n, 7)
        joined = ["Let s be silu of g.", f"Let h be {'s hadamard u' if i % 2 else 'u hadamard s'}."]
        sentences = ["Let u be x matmul wu.", "Let g be x matmul wg."]
        sentences += joined if silu else ["Let h be swiglu of g and u."]
        stored = ["wg", "wu", *(["wd"] if quantized else [])]
        return case(values, [*sentences, "Let y be h matmul wd."], stored, few(i))

    return make


def chain(kind: str) -> Make:
    """Elementwise ops that go on in Q8_0: several, or one."""

    def make(random: Generator, i: int) -> Case:
        r, c = (1, 2, 5)[i % 3], 32 * BLOCKS[i % 13]
        values = {"x": reals(random, r, c), "a": reals(random, r, c), "w": reals(random, c, 3)}
        sentences = {
            "gate": ["Let s be sigmoid of a.", "Let h be x hadamard s."],
            "swiglu": ["Let h be swiglu of x and a."],
            "hadamard": ["Let h be x hadamard a."],
        }[kind]
        return case(values, [*sentences, "Let y be h matmul w."], ["w"], few(i))

    return make


def attention(span: int, half: bool) -> Make:
    """Over tables of floats or of float16, up to a row; heads of whole blocks go on in Q8_0."""

    def make(random: Generator, i: int) -> Case:
        width = {64: (32, 64), 128: (96, 128), 256: (160, 256), 512: (288, 512)}[span][i % 2]
        groups, rows = (1, 2, 3)[i % 3], (1, 2, 31, 32, 33, 64, 65, 129, 257, 401)[i % 10]
        heads = groups * (1, 2, 4, 5, 9)[i % 5]
        values: dict[str, Array] = {"q": reals(random, 1, heads * width), "r": reals(random, 1, groups * width)}
        values |= {name: reals(random, rows, groups * width) for name in "kv"}
        values |= {"p": np.array([[(rows - 1, 0, rows // 2)[i % 3]]]), "w": reals(random, heads * width, 3)}
        made = case(
            values,
            ["Set row p of k to r.", "Set row p of v to r.",
             f"Let a be attention of q over k and v with {heads} heads {groups} groups up to p.",
             "Let y be a matmul w."],
            ["w"],
        )  # fmt: skip
        return replace(made, storage=replace(made.storage, half=half))

    return make


def delta(random: Generator, i: int) -> Case:
    """A gated delta rule that goes on in Q8_0."""
    groups, times = (1, 2, 3)[i % 3], (1, 2, 3)[i // 3 % 3]
    heads, d = groups * times, (32, 64, 96, 128, 256)[i % 5]
    values: dict[str, Array] = {
        "q": reals(random, 1, groups * d), "k": reals(random, 1, groups * d) / np.float32(np.sqrt(d)),
        "v": reals(random, 1, heads * d), "z": reals(random, 1, heads * d),
        "b": random.random((1, heads), np.float32), "a": random.random((1, heads), np.float32),
        "s": reals(random, heads * d, d), "n": reals(random, 1, d), "w": reals(random, heads * d, 3),
    }  # fmt: skip
    words = "gated delta of q over k and v with gate z beta b decay a state s norm n"
    said = f"Let o be {words} with {heads} heads {groups} groups."
    return case(values, [said, "Let y be o matmul w."], ["w"], few(i))


def experts(by: str, gate: bool, q8: bool) -> Make:
    """Routed experts of a normed row, with the gate of a shared one beside them."""

    def make(random: Generator, i: int) -> Case:
        count = (4, 8, 16, 31, 64, 128)[i % 6]
        top, d = (1, 2, 4, 3)[i % 4], 32 * ((1, 2, 3, 16) if by == "warps" else (17, 33, 40, 64))[i % 4]
        f = 32 * (1, 2, 3)[i % 3]
        values = {
            "x": reals(random, 1, d), "n": reals(random, 1, d), "r": reals(random, count, d) / np.float32(np.sqrt(d)),
            "g": reals(random, count * f, d), "u": reals(random, count * f, d), "w": reals(random, count * d, f),
            "s": reals(random, d, 1) / np.float32(np.sqrt(d)),  # so that no sigmoid is below the least float32
        }  # fmt: skip
        sentences = ["Let h be rmsnorm of x with weight n."]
        sentences.append(f"Let m be moe of h with router r gate g up u down w top {top} of {count} experts.")
        if gate:
            sentences += ["Let e be h matmul s.", "Let e be sigmoid of e.", "Let y be m hadamard e."]
        return case(values, sentences, ["g", "u", "w"] if q8 else [], few(i))

    return make


def combined(make: Make) -> Make:
    """A case of the kernels that are launched apart, in one launch."""
    return lambda random, i: replace(make(random, i), held=())


def _attention() -> Iterator[Spec]:
    for number, span in enumerate((64, 128, 256, 512)):
        for half in (False, True):
            name = f"attention_up_to_{span}{'_half' if half else ''}_combined_q8"
            yield Spec(name, (name,), attention(span, half))
        apart = combined(kernel_cases.attention(span, bool(number % 2)))
        name = f"attention{'_up_to' if number % 2 else ''}_{span}_combined"
        yield Spec(name, (name,), apart)


def _norms() -> Iterator[Spec]:
    for wide in (False, True):
        ending = f"{'wide' if wide else 'narrow'}_q8"
        yield Spec(f"norm_{ending}", (), norm(wide, False))
        yield Spec(f"add_rmsnorm_{ending}", (f"add_rmsnorm_{ending}",), norm(wide, True))


def _products() -> Iterator[Spec]:
    for by in ("warps", "blocks"):
        yield Spec(f"parts_by_{by}", (f"matvec_q8_parts_3_by_{by}",), parts(by, 3))
        yield Spec(f"residual_by_{by}", (f"matvec_q8_plus_by_{by}",), residual(by, False))
        yield Spec(f"scaled_by_{by}", (f"matvec_q8_hadamard_scalar_plus_plus_by_{by}",), residual(by, True))
        yield Spec(f"gate_up_by_{by}", (f"gate_up_q8_by_{by}",), gate_up(by, False, False))
        name = f"gate_up_q8_quantized_by_{by}"
        yield Spec(name, (name,), gate_up(by, False, True))
        name = f"router_gate_by_{by}"
        yield Spec(name, (name, "experts_hidden_quantized"), experts(by, True, True))
        yield Spec(f"router_by_{by}", (f"router_by_{by}",), experts(by, False, False))
    yield Spec("parts_mixed", ("matvec_q8_parts_8_by_mixed",), parts("mixed", 8))
    yield Spec("gate_up_silu", ("gate_up_q8_silu_quantized_by_warps",), gate_up("warps", True, True))


SPECS = (
    *_products(),
    *_norms(),
    Spec("chain_q8", ("chain_sigmoid_hadamard_second_q8",), chain("gate")),
    Spec("swiglu_q8", ("chain_swiglu_q8",), chain("swiglu")),
    Spec("hadamard_q8", ("chain_hadamard_q8",), chain("hadamard")),
    *_attention(),
    Spec("delta_q8", ("delta_combined_q8",), delta),
    Spec("delta", (), combined(state_cases.gated_delta)),
    Spec("argmax_combined", ("argmax_combined",), combined(kernel_cases.argmax(True))),
    Spec("argmax_combined_int", ("argmax_combined_int",), combined(kernel_cases.argmax(False))),
    Spec("moe_two_pass", (), combined(narrow_cases.moe("two passes"))),
)
