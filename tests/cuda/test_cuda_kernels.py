"""Every kernel against the reference machine, on the host stand-in: sanitized, poisoned, threads in several orders."""

from __future__ import annotations

from pathlib import Path
from random import Random

import kernel_cases
import narrow_cases
import numpy as np
import pytest
import state_cases
import steps_cases
from fiber_orders import ONE_FAST, ORDERS
from kernel_bench import Bench, Case, Result, differences, read, source_text
from kernel_cases import SHAPES, Spec, case

from logos import OPS
from logos.conformance import program, variants
from logos_cuda.fusing import FUSES
from logos_cuda.lower import forward_graph, forward_graph_holding
from logos_cuda.spelling.table import SPELLS

SPECS: tuple[Spec, ...] = (
    *kernel_cases.SPECS, *state_cases.SPECS, *narrow_cases.SPECS, *steps_cases.SPECS,
)  # fmt: skip
QUICK = range(3, 6)
"""Shapes of the fast tests: none of the large ones, one in three on a grid of two blocks."""


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Every kernel that any case uses, in one build with the address and undefined-behaviour sanitizers."""
    kernels = [kernel for spec in SPECS for one in spec.cases(QUICK) for kernel in one.graph.kernels]
    return Bench(tmp_path_factory.mktemp("bench"), kernels)


def faults(bench: Bench, chosen: list[tuple[Spec, range]], order: str = "forward") -> list[str]:
    """What is wrong with any case of some specs, with the spec's name and the shape's number."""
    named = [(f"{spec.name} {i}", one) for spec, numbers in chosen
             for i, one in zip(numbers, spec.cases(numbers), strict=True)]  # fmt: skip
    results = bench.run([one for _, one in named], LOGOS_HOST_ORDER=order)
    compared = zip(named, results, strict=True)
    return [f"{name}: {wrong}" for (name, one), result in compared for wrong in differences(one, result)]


@pytest.mark.parametrize("order", ONE_FAST)
def test_kernels_agree_with_the_reference_machine(bench: Bench, order: str) -> None:
    assert faults(bench, [(spec, QUICK) for spec in SPECS], order) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_thirty_shapes_of_each_kernel(bench: Bench, spec: Spec, order: str) -> None:
    assert faults(bench, [(spec, range(SHAPES))], order) == []


@pytest.mark.gpu
def test_thirty_shapes_of_each_kernel_on_a_gpu(tmp_path: Path) -> None:
    kernels = [kernel for spec in SPECS for one in spec.cases(QUICK) for kernel in one.graph.kernels]
    device = Bench(tmp_path, kernels, arch="native")
    assert [wrong for spec in SPECS for wrong in faults(device, [(spec, range(SHAPES))])] == []


def test_every_kernel_of_the_language_has_its_shapes(bench: Bench) -> None:
    """The kernels of programs of one op, as conformance draws them, are all among those that cases use."""
    used = set()
    for op in (op for op in OPS if op.name in SPELLS):
        for present, rule in variants(op):
            for real, seed in ((real, seed) for real in {True, not op.exact} for seed in range(8)):
                text = program(op, present, rule, Random(seed), (6, 40)[seed % 2], real)
                used |= {kernel.name for kernel in forward_graph_holding(read(text), held=FUSES).kernels}
    assert used - set(bench.numbers) == set()
    assert {op.name for op in OPS} - SPELLS == set()


def one(bench: Bench, made: Case) -> Result:
    return bench.run([made])[0]


@pytest.mark.parametrize("order", ONE_FAST)
def test_a_whole_llama_agrees_with_the_reference_machine(bench: Bench, order: str) -> None:
    """Every value of a step in the middle of a context, its tables full of noise."""
    text = (Path(__file__).parents[1] / "golden" / "families" / "llama.lg").read_text("utf-8")
    graph, random = read(text), np.random.default_rng(1)
    values = {leaf.name: (random.standard_normal(leaf.value.shape) / 8).astype(np.float32) for leaf in graph.leaves}
    values |= {"tok": np.array([[9]]), "pos": np.array([[700]])}
    made = Case(text, values)
    assert differences(made, bench.run([made], LOGOS_HOST_ORDER=order)[0], 1e-4) == []


ROW = np.array([[7]], dtype=np.int64)
TABLE = np.ones((7, 4), dtype=np.float32)


@pytest.mark.parametrize("row", [7, -1, 2**40, -(2**63)])
def test_a_row_outside_its_table_is_reported_and_nothing_is_written(bench: Bench, row: int) -> None:
    number = np.array([[row]], dtype=np.int64)
    read_ = case({"t": TABLE, "p": number}, "Let y be row p of t.")
    assert one(bench, read_).fault == (0, "row", row)
    written = case({"t": TABLE, "p": number, "r": TABLE[:1] + 1}, "Set row p of t to r.", "Let y be row 0 of t.")
    result = one(bench, written)
    assert result.fault == (0, "row", row)
    assert np.array_equal(result.arrays["t"], TABLE)
    attended = case({"q": TABLE[:1], "k": TABLE, "v": TABLE, "p": number},
                    "Let y be attention of q over k and v with 1 heads 1 groups up to p.")  # fmt: skip
    assert one(bench, attended).fault == (0, "row", row)


def test_the_first_stage_that_errs_is_reported(bench: Bench) -> None:
    text = ("Let z be t plus t.", "Let y be row p of z.", "Let w be row n of t.")
    values = {"t": np.ones((7, 3), dtype=np.int64), "p": ROW + 2, "n": ROW}
    assert one(bench, case(values, *text)).fault == (1, "row", 9)


@pytest.mark.parametrize("n", [1, 2, 33, 5000])
def test_a_nan_has_no_place_in_an_argmax(bench: Bench, n: int) -> None:
    x = np.zeros((1, n), dtype=np.float32)
    x[0, n - 1] = np.nan
    assert one(bench, case({"x": x}, "Let y be argmax of x.")).fault == (0, "nan", 0)


@pytest.mark.parametrize(
    ("a", "op", "b", "fits"),
    [
        (2**63 - 1, "plus", 1, False),
        (-(2**63), "plus", -1, False),
        (2**63 - 1, "plus", -1, True),
        (-(2**63), "plus", 2**63 - 1, True),
        (2**32, "hadamard", 2**31, False),
        (-(2**32), "hadamard", 2**31, True),
        (-(2**63), "hadamard", -1, False),
        (2**32, "matmul", 2**31, False),
        (-(2**32), "matmul", 2**31, True),
    ],
)
def test_int_that_does_not_fit_is_reported(bench: Bench, a: int, op: str, b: int, fits: bool) -> None:
    made = case({"a": np.array([[a]]), "b": np.array([[b]])}, f"Let y be a {op} b.")
    result = one(bench, made)
    assert result.fault == (None if fits else (0, "overflow", 0))
    assert not fits or differences(made, result) == []


@pytest.mark.parametrize("op", ["silu", "sigmoid", "gelu"])
def test_functions_do_not_overflow(bench: Bench, op: str) -> None:
    x = np.array([[-1e30, -200, -88.8, -0.0, 0, 1e-30, 88.8, 200, 1e30]], dtype=np.float32)
    made = case({"x": x}, f"Let y be {op} of x.")
    result = one(bench, made)
    assert np.isfinite(result.arrays["y"]).all()
    assert differences(made, result) == []


def test_what_has_no_value_is_nan_as_on_the_reference_machine(bench: Bench) -> None:
    nan, inf = np.nan, np.inf
    x = np.array([[nan, 1, 2], [inf, 1, 2], [-inf, -inf, -inf], [-inf, 1, 1], [1, 2, 3]], dtype=np.float32)
    made = case({"x": x}, "Let y be softmax of x.")
    assert np.allclose(one(bench, made).arrays["y"], made.expected()["y"], 1e-5, equal_nan=True)
    k = np.repeat(x[3:, :1], 3, axis=0)[[0, 3, 0, 4]] * np.ones((4, 4), dtype=np.float32)
    for rows in (k, k * np.float32(nan), np.full_like(k, inf), np.full_like(k, -inf)):
        made = case({"q": np.ones((1, 4), dtype=np.float32), "k": rows, "v": TABLE[:4]},
                    "Let y be attention of q over k and v with 1 heads 1 groups.")  # fmt: skip
        assert np.allclose(one(bench, made).arrays["y"], made.expected()["y"], 1e-5, equal_nan=True)


def test_a_row_of_zeros_stays_zero_under_an_eps_below_32_bits(bench: Bench) -> None:
    made = case({"x": np.zeros((2, 5), dtype=np.float32)}, "Let y be rmsnorm of x with eps 1e-60.")
    assert differences(made, one(bench, made)) == []


def test_tables_beyond_2_to_31_elements(bench: Bench) -> None:
    """Address space that is never touched stands for the rows before the last."""
    rows = 2**30 + 3
    last = np.arange(4, dtype=np.float32).reshape(1, 4) + 5
    number = np.array([[rows - 1]], dtype=np.int64)
    head = f"Let t be a {rows} by 4 tensor of Real.\nLet p be a 1 by 1 tensor of Int.\n"
    for row in ("p", str(rows - 1)):
        reading = Case(f"{head}Let y be row {row} of t.\n", {"p": number}, sparse={"t": last})
        assert np.array_equal(one(bench, reading).arrays["y"], last)
        text = f"{head}Let r be a 1 by 4 tensor of Real.\nSet row {row} of t to r.\nLet y be r plus r.\n"
        writing = Case(text, {"p": number, "r": last + 1}, sparse={"t": last})
        assert np.array_equal(one(bench, writing).arrays["t"], last + 1)


def test_what_is_compared_can_differ(bench: Bench) -> None:
    """The comparison itself: one element off by 1e-4 of the largest, one Int off by one, one that is not finite."""
    made = case({"x": TABLE}, "Let y be x plus x.")
    result = one(bench, made)
    assert differences(made, result) == []
    for wrong in (2.0003, np.nan, -2):
        got = result.arrays["y"].copy()
        got[3, 3] = wrong
        assert differences(made, Result({"y": got}, None)) != []
    whole = case({"x": np.ones((1, 2), dtype=np.int64)}, "Let y be x plus x.")
    assert differences(whole, Result({"y": np.array([[2, 3]])}, None)) == ["y: 1 of 2 Int differ"]


def test_a_kernel_is_emitted_once_for_all_its_launches() -> None:
    graph = forward_graph(read("Let x be a 2 by 4 tensor of Real.\nLet y be silu of x.\nLet z be silu of y.\n"))
    assert len(graph.kernels) == 1
    assert source_text(graph.kernels).count("__global__") == 1
