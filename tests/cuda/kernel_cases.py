"""Programs for every kernel: 30 shapes each, of 1, primes, odd numbers, and beyond a block and a grid's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from kernel_bench import Array, Case

EDGES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 61, 64, 65, 67, 100, 127, 128, 129, 131, 200, 255, 256, 257, 509,
         512, 513, 1021)  # fmt: skip
SHAPES = len(EDGES)
MANY = 70_001
"""Rows beyond what a grid holds in y or z, and beyond the blocks that most kernels are given."""

Generator = np.random.Generator
Make = Callable[[Generator, int], Case]


@dataclass(frozen=True)
class Spec:
    """`make(random, i)` is the case of shape i, of SHAPES; every kernel of `kernels` is in each of its launches."""

    name: str
    kernels: tuple[str, ...]
    make: Make

    def cases(self, numbers: range = range(SHAPES)) -> Iterator[Case]:
        for number in numbers:
            case = self.make(np.random.default_rng([number, *self.name.encode()]), number)
            there = {kernel.name for kernel in case.graph.kernels}
            missing = {f"{kernel}_kernel" for kernel in self.kernels} - there
            assert not missing, f"{self.name}, shape {number}: {missing} not in {there}"
            yield case


def reals(random: Generator, rows: int, columns: int) -> Array:
    return random.standard_normal((rows, columns)).astype(np.float32)


def ints(random: Generator, rows: int, columns: int, largest: int = 2**31) -> Array:
    return random.integers(-largest, largest, (rows, columns), dtype=np.int64)


def case(values: Mapping[str, Array], *sentences: str, blocks: int | None = None) -> Case:
    """A case whose leaves are the values."""
    declared = []
    for name, value in values.items():
        rows, columns = value.shape
        declared.append(
            f"Let {name} be a {rows} by {columns} tensor of {'Int' if value.dtype == np.int64 else 'Real'}."
        )
    return Case("\n".join([*declared, *sentences]) + "\n", values, blocks)


def few(i: int) -> int | None:
    """Every third shape on a grid of two blocks, so that each of them strides."""
    return 2 if i % 3 == 2 else None


def matmul(m: int, k: int, n: int, random: Generator, also: str = "", blocks: int | None = None) -> Case:
    return case({"a": reals(random, m, k), "b": reals(random, k, n)}, *([also] if also else []),
                "Let y be a matmul b.", blocks=blocks)  # fmt: skip


def by_warps(random: Generator, i: int) -> Case:
    if i in (0, 1):
        return matmul(1, 3 + i, MANY, random)
    n = int(random.choice(EDGES)) if EDGES[i] <= 512 else 2053
    return matmul(1, EDGES[i], n, random, blocks=few(i))


def by_blocks(random: Generator, i: int) -> Case:
    k = (513, 514, 516, 521, 640, 1021, 1023, 1024, 1025, 2039, 2048, 2049, 4096, 4099, 11008)[i % 15]
    return matmul(1, k, EDGES[i], random, blocks=few(i))


READ_TWICE = "Let turned be transpose of b."


def columns(width: int) -> Make:
    def make(random: Generator, i: int) -> Case:
        n = EDGES[i] * 4 if width == 4 else EDGES[i] | 1
        k = int(random.choice(EDGES))
        if i == 0:
            k, n = 5, MANY + 3 if width == 4 else MANY
        return matmul(1, k, n, random, READ_TWICE, few(i))

    return make


def tiles(transposed: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        m, k, n = EDGES[i] + 1, int(random.choice(EDGES)), int(random.choice(EDGES[:20]))
        if i in (0, 1):
            m, k, n = (MANY, 2, 3) if i == 0 else (2, 3, MANY)
        if i == 2:
            m, k, n = 65, 5003, 66
        return matmul(m, k, n, random, "" if transposed else READ_TWICE, few(i))

    return make


def matmul_int(random: Generator, i: int) -> Case:
    m, k, n = int(random.choice(EDGES[:20])), EDGES[i], int(random.choice(EDGES[:20]))
    if i == 0:
        m, k, n = MANY, 2, 1
    values = {"a": ints(random, m, k, 2**26), "b": ints(random, k, n, 2**26)}
    if i == 1:
        # The sum passes 64 bits on its way to a result that fits.
        values = {"a": np.full((1, 4), 2**62), "b": np.array([[3], [3], [-3], [-3]])}
    if i == 2:
        # And past 128 bits.
        values = {"a": np.full((1, 5), -(2**63)), "b": np.array([[-(2**63)]] * 2 + [[2**63 - 1]] * 2 + [[2]])}
    return case(values, "Let y be a matmul b.", blocks=few(i))


def pairwise(op: str, spread: str, real: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        r, c = int(random.choice(EDGES)), EDGES[i]
        if i in (0, 1):
            r, c = (MANY, 3) if i == 0 else (2, MANY)
        if spread == "row":
            r, c = max(r, 2), max(c, 2)
        shape = {"same": (r, c), "row": (1, c), "scalar": (1, 1)}[spread]
        if spread == "scalar" and (r, c) == (1, 1):
            c = 2
        made = reals if real else ints
        return case({"a": made(random, r, c), "b": made(random, *shape)}, f"Let y be a {op} b.", blocks=few(i))

    return make


def transpose(real: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        r, c = int(random.choice(EDGES)), EDGES[i]
        if i in (0, 1):
            r, c = (MANY, 3) if i == 0 else (3, MANY)
        return case({"x": (reals if real else ints)(random, r, c)}, "Let y be transpose of x.", blocks=few(i))

    return make


NARROW, WIDE = tuple(edge for edge in EDGES if edge <= 256), (257, 258, 259, 260, 509, 512, 513, 1021, 1024, 1025, 4099)


def width_of(wide: bool, random: Generator, i: int) -> int:
    chosen = WIDE if wide else NARROW
    return chosen[i % len(chosen)] + (30 if wide and i >= len(chosen) else 0)


def rmsnorm(plus: bool, weight: bool, wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        c, r, heads = width_of(wide, random, i), int(random.choice(EDGES[:16])), i % 2 == 1
        if i == 0:
            r, c = (MANY, 3) if not wide else (4100, 257)
        values = {"x": reals(random, 1, r * c) if heads else reals(random, r, c)}
        words = "rmsnorm of x"
        if plus:
            values["res"] = reals(random, *values["x"].shape)
            words += " plus res"
        if weight:
            values["w"] = reals(random, 1, c)
            words += " with weight w"
        words += f" with eps {random.choice(['1e-5', '1e-6', '0.5'])}" + (f" across {r} heads" if heads else "")
        return case(values, f"Let y be {words}.", blocks=few(i))

    return make


def softmax(wide: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        c, r = width_of(wide, random, i), int(random.choice(EDGES[:16]))
        if i in (0, 1):
            r, c = ((4100, 257), (1, MANY))[i] if wide else ((MANY, 3), (1, 1))[i]
        x = reals(random, r, c) * np.float32(random.choice([1, 10, 60]))
        return case({"x": x}, "Let y be softmax of x.", blocks=few(i))

    return make


def argmax(real: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        n = (*EDGES[:15], 2047, 2048, 2049, 4095, 4096, 4097, 6151, 8192, MANY, 151_936, 300_007, 509, 1021, 3, 1)[i]
        x = (reals if real else ints)(random, 1, n)
        x[0, random.integers(n, size=max(1, n // 3))] = 4 if real else 2**40  # Ties: the first is due.
        if i == 3:
            x[...] = -np.inf if real else -(2**63)
        if n > 2 and i % 4 == 1:
            x[0, : n // 2] = -5
        return case({"x": x.reshape(n, 1) if i % 2 else x}, "Let y be argmax of x.")

    return make


def rope(random: Generator, i: int) -> Case:
    half, heads, extra = int(random.choice(EDGES[:21])), EDGES[i], int(random.choice([0, 0, 1, 5, 32]))
    if i == 0:
        half, heads, extra = 2, MANY, 1
    said = f" across {heads} heads" if extra or i % 2 else ""
    angles = random.uniform(-3, 3, (1, half))
    values = {"q": reals(random, 1, heads * (2 * half + extra)), "c": np.cos(angles).astype(np.float32),
              "s": np.sin(angles).astype(np.float32)}  # fmt: skip
    return case(values, f"Let y be rope of q with cos c and sin s{said}.", blocks=few(i))


def attention(span: int, bounded: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        least = {64: 1, 128: 65, 256: 129, 512: 257}[span]
        width = (span, least, least + 2, span - 1, (span + least) // 2, span - 4)[i % 6] or 1
        groups = (1, 2, 3, 8)[i % 4]
        heads = groups * (1, 2, 3, 4, 5, 8, 9)[i % 7]
        rows = (1, 2, 3, 31, 32, 33, 64, 65, 100, 129, 257, 401)[i % 12]
        if i == 0:
            width, groups, heads, rows = least, 1, 2, MANY if span == 64 else 2053
        values: dict[str, Array] = {"q": reals(random, 1, heads * width) * np.float32(random.choice([1, 4]))}
        values["k"], values["v"] = (reals(random, rows, groups * width) for _ in range(2))
        words = f"attention of q over k and v with {heads} heads {groups} groups"
        if bounded:
            values["p"] = np.array([[(rows - 1, 0, rows // 2)[i % 3]]], dtype=np.int64)
            words += " up to p"
        return case(values, f"Let y be {words}.")

    return make


def function(op: str) -> Make:
    def make(random: Generator, i: int) -> Case:
        r, c = int(random.choice(EDGES)), EDGES[i]
        if i in (0, 1):
            r, c = (MANY, 3) if i == 0 else (1, 1)
        x = reals(random, r, c) * np.float32((1, 5, 40)[i % 3])
        return case({"x": x}, f"Let y be {op} of x.", blocks=few(i // 3))

    return make


def swiglu(random: Generator, i: int) -> Case:
    r, c = int(random.choice(EDGES)), MANY if i == 0 else EDGES[i]
    values = {"g": reals(random, r, c) * np.float32((1, 5, 40)[i % 3]), "u": reals(random, r, c)}
    return case(values, "Let y be swiglu of g and u.", blocks=few(i // 3))


def converted(random: Generator, i: int) -> Case:
    r, c = (MANY, 2) if i == 0 else (3, EDGES[i])
    return case({"x": ints(random, r, c, 9), "w": reals(random, 1, c)}, "Let y be x hadamard w.")


def embedding(literal: bool, real: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        n, c = (MANY, 3) if i == 0 else (int(random.choice(EDGES)), EDGES[i])
        c = 5003 if i == 1 else c
        row = (n - 1, 0, n // 2)[i % 3]
        values: dict[str, Array] = {"t": (reals if real else ints)(random, n, c)}
        if not literal:
            values["p"] = np.array([[row]], dtype=np.int64)
        return case(values, f"Let y be row {row if literal else 'p'} of t.", blocks=few(i))

    return make


def set_row(literal: bool, real: bool) -> Make:
    def make(random: Generator, i: int) -> Case:
        n, c = (MANY, 3) if i == 0 else (int(random.choice(EDGES)), EDGES[i])
        row = (n - 1, 0, n // 2)[i % 3]
        made = reals if real else ints
        values: dict[str, Array] = {"t": made(random, n, c), "r": made(random, 1, c)}
        if not literal:
            values["p"] = np.array([[row]], dtype=np.int64)
        # A program needs an output; the state is what is looked at.
        return case(values, f"Set row {row if literal else 'p'} of t to r.", "Let y be row 0 of t.", blocks=few(i))

    return make


def _pairwise() -> Iterator[Spec]:
    for op in ("plus", "hadamard"):
        for spread in ("same", "row", "scalar"):
            for real in (True, False):
                name = f"{op}_{spread}" + ("" if real else "_int")
                yield Spec(name, (name,), pairwise(op, spread, real))


def _norms() -> Iterator[Spec]:
    for wide in (False, True):
        ending = "wide" if wide else "narrow"
        for plus, weight in ((False, False), (False, True), (True, True)):
            name = "_".join(["rmsnorm", *(["plus"] if plus else []), *(["weight"] if weight else []), ending])
            yield Spec(name, (name,), rmsnorm(plus, weight, wide))
        yield Spec(f"softmax_{ending}", (f"softmax_{ending}",), softmax(wide))


def _attention() -> Iterator[Spec]:
    for span in (64, 128, 256, 512):
        for bounded in (False, True):
            name = f"attention_up_to_{span}" if bounded else f"attention_{span}"
            yield Spec(name, (name, "attention_join"), attention(span, bounded))


def _tables() -> Iterator[Spec]:
    for literal in (False, True):
        for real in (True, False):
            ending = ("_at" if literal else "") + ("" if real else "_int")
            yield Spec(f"embedding{ending}", (f"embedding{ending}",), embedding(literal, real))
            yield Spec(f"set_row{ending}", (f"set_row{ending}",), set_row(literal, real))


SPECS = (
    Spec("matvec_by_warps", ("matvec_by_warps",), by_warps),
    Spec("matvec_by_blocks", ("matvec_by_blocks",), by_blocks),
    Spec("matvec_columns_1", ("matvec_columns_1",), columns(1)),
    Spec("matvec_columns_4", ("matvec_columns_4",), columns(4)),
    Spec("gemm_transposed", ("gemm_transposed",), tiles(True)),
    Spec("gemm", ("gemm",), tiles(False)),
    Spec("matmul_int", ("matmul_int",), matmul_int),
    *_pairwise(),
    Spec("transpose", ("transpose",), transpose(True)),
    Spec("transpose_int", ("transpose_int",), transpose(False)),
    *_norms(),
    Spec("argmax", ("argmax_parts", "argmax_whole"), argmax(True)),
    Spec("argmax_int", ("argmax_parts_int", "argmax_whole_int"), argmax(False)),
    Spec("rope", ("rope",), rope),
    *_attention(),
    *(Spec(op, (op,), function(op)) for op in ("sigmoid", "silu", "gelu")),
    Spec("swiglu", ("swiglu",), swiglu),
    Spec("convert", ("convert",), converted),
    *_tables(),
)
