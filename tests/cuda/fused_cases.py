"""Programs for the kernels of fused operations, as kernel_cases.py has for those of one."""

from __future__ import annotations

from kernel_bench import Array, Case
from kernel_cases import EDGES, MANY, Generator, Make, Spec, case, few, reals, width_of

WIDE = (513, 514, 516, 521, 640, 1021, 1023, 1024, 1025, 2039, 2048, 2049, 4096, 4099, 516)
"""Elements of a row of which a block of threads takes one."""


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
    return WIDE[i % 15], [2051, *few_rows[1:]] if by == "mixed" else few_rows


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
        values = {"x": reals(random, 1, k), "wg": reals(random, k, n), "wu": reals(random, k, n)}
        products = ["Let u be x matmul wu.", "Let g be x matmul wg."]
        if i % 2:
            products.reverse()
        joined = ["Let s be silu of g.", f"Let y be {'s hadamard u' if i % 3 else 'u hadamard s'}."]
        return case(values, *products, *(joined if silu else ["Let y be swiglu of g and u."]), blocks=few(i))

    return make


FUNCTIONS = ("Let p be silu of x.", "Let q be gelu of p.", "Let r be sigmoid of q.", "Let y be swiglu of r and b.")
SECOND = ("Let p be gelu of x.", "Let q be b plus p.", "Let r be a hadamard q.", "Let y be swiglu of b and r.")
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
    Spec("gate up by blocks", ("gate_up_silu_by_blocks",), gate_up("blocks", True)),
)
