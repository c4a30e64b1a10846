"""The verification rule and its edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import Graph, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.verification import Verdict, bound_of, compared, difference, judge

INF, NAN = math.inf, math.nan


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), make_grammar(OPS))


def array(*rows: list[float]) -> NDArray[Any]:
    return np.array([[row] for row in rows])


@pytest.mark.parametrize(
    ("reference", "found", "due"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0.0),
        ([1.0, -4.0], [1.5, -4.0], 0.125),
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([0.0, 0.0], [0.0, -0.0], 0.0),
        ([0.0, 0.0], [0.0, 1e-300], INF),
        ([1e-300, 0.0], [0.0, 0.0], 1.0),
        ([1.0, 2.0], [NAN, 2.0], INF),
        ([NAN, 2.0], [1.0, 2.0], INF),
        ([NAN, 2.0], [NAN, 2.0], INF),
        ([NAN, NAN], [NAN, NAN], INF),
        ([INF, INF], [INF, INF], 0.0),
        ([INF, 2.0], [INF, 2.5], 0.25),
        ([-INF, 2.0], [INF, 2.0], INF),
        ([1.0, 2.0], [1.0, INF], INF),
        ([INF, 1.0], [1e308, 1.0], INF),
        ([1e308, 0.0], [-1e308, 0.0], INF),
        ([1.0, 2.0], [1.0], INF),
    ],
)
def test_difference(reference: list[float], found: list[float], due: float) -> None:
    assert difference(array(reference), array(found)) == due


def test_the_largest_of_all_positions_is_the_scale() -> None:
    """A step of small values is not held to its own size."""
    reference, found = array([1e-6, 0.0], [100.0, 1.0]), array([2e-6, 0.0], [100.0, 1.0])
    assert difference(reference, found) == pytest.approx(1e-8)


def test_bounds_of_one_op_and_of_a_model() -> None:
    one = graph("Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.")
    two = graph("Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.\nLet z be silu of y.")
    assert [bound_of(one, dtype) for dtype in ("float64", "float32", "bfloat16")] == [1e-9, 1e-4, 2e-2]
    assert [bound_of(two, dtype) for dtype in ("float64", "float32", "bfloat16")] == [1e-9, 1e-4, 2e-1]


PROGRAM = """
Let x be a 1 by 3 tensor of Real.
Let n be a 1 by 3 tensor of Int.
Let S be a 2 by 3 tensor of Real.
Let C be a 2 by 3 tensor of Int.
Set row 0 of S to x.
Set row 0 of C to n.
Let logits be silu of x.
Let next be argmax of logits.
"""


def test_compared_are_outputs_an_argmaxs_operand_and_states() -> None:
    made = graph(PROGRAM)
    assert compared(made) == ("next", "logits", "S", "C")
    assert compared(made, ["logits"]) == ("logits", "S", "C")
    assert compared(made, ["x", "next"]) == ("x", "next", "logits", "S", "C")


def verdict(dtype: str, logits: list[float], found: float, name: str = "next") -> Verdict:
    made = graph(PROGRAM)
    reference = {"logits": array(logits), "next": np.array([[[int(np.argmax(logits))]]])}
    (one,) = judge(made, dtype, reference, {name: np.array([[[found]]])})
    return one


def test_an_argmax_may_choose_what_lies_within_the_bound_of_the_largest() -> None:
    assert verdict("float32", [1.0, 2.0, 2.0 - 1e-4], 1) == Verdict("next", 0.0, 0.0)
    tie = verdict("float32", [1.0, 2.0, 2.0 - 1.5e-4], 2)
    assert (tie.holds, tie.ties) == (True, 1)
    assert not verdict("float32", [1.0, 2.0, 2.0 - 3e-4], 2).holds
    assert not verdict("float64", [1.0, 2.0, 2.0 - 1e-4], 2).holds
    assert verdict("float32", [2.0, 2.0, 0.0], 1).holds
    assert not verdict("float32", [-4.0, -3.0, -5.0], 0).holds


@pytest.mark.parametrize("index", [-1, 3, 2**40])
def test_an_argmax_outside_its_operand_never_holds(index: int) -> None:
    assert verdict("bfloat16", [2.0, 2.0, 2.0], index) == Verdict("next", INF, 0.0)


@pytest.mark.parametrize("index", [np.nan, np.inf, 1e300])
@pytest.mark.filterwarnings("error")
def test_an_argmax_that_is_no_number_never_holds_and_warns_of_nothing(index: float) -> None:
    assert verdict("float32", [1.0, 4.0, 3.0], index) == Verdict("next", INF, 0.0)


def test_every_step_of_an_argmax_is_judged() -> None:
    made = graph(PROGRAM)
    logits = array([1.0, 2.0, 2.0], [3.0, 0.0, 0.0])
    reference = {"logits": logits, "next": np.array([[[1]], [[0]]])}
    (one,) = judge(made, "float32", reference, {"next": np.array([[[2]], [[0]]])})
    assert (one.holds, one.ties) == (True, 1)
    (one,) = judge(made, "float32", reference, {"next": np.array([[[2]], [[1]]])})
    assert not one.holds
    (one,) = judge(made, "float32", reference, {"next": np.array([[[2]]])})
    assert not one.holds


def test_an_argmax_of_a_name_produced_again_is_compared_exactly() -> None:
    made = graph("Let x be a 1 by 2 tensor of Real.\nLet a be silu of x.\nLet n be argmax of a.\nLet a be row 0 of x.\n"
                 "Let n2 be argmax of a.")  # fmt: skip
    assert compared(made, ["n"]) == ("n",)
    reference = {"n": np.array([[[0]]]), "a": array([9.0, 9.0])}
    (one,) = judge(made, "float32", reference, {"n": np.array([[[1]]])})
    assert not one.holds


def test_int_is_compared_exactly() -> None:
    made = graph(PROGRAM)
    reference = {"C": np.array([[[2**53, 0, 0], [0, 0, 0]]])}
    (same,) = judge(made, "bfloat16", reference, {"C": reference["C"].copy()})
    (other,) = judge(made, "bfloat16", reference, {"C": reference["C"] + np.array([1, 0, 0])})
    assert (same.holds, other.holds) == (True, False)


def test_real_is_held_to_the_bound() -> None:
    made = graph(PROGRAM)
    reference = {"logits": array([1.0, 2.0, -4.0])}
    for far, holds in ((3.9e-4, True), (4.1e-4, False)):
        (one,) = judge(made, "float32", reference, {"logits": reference["logits"] + [0.0, far, 0.0]})
        assert (one.holds, one.bound) == (holds, 1e-4)
        assert one.difference == pytest.approx(far / 4)
