"""The programs that conformance is tested on: which forms and sizes are among them, and that each stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest

from logos import OPS, Op, Shapes, Source
from logos.check import read_program
from logos.conformance import Case, Prepared, cases, variants
from logos.conformance.prepare import STEADY, prepare
from logos.conformance.shrink import smaller
from logos.conformance.sizes import awkward_pins, pinned_sizes
from logos.grammar import make_grammar
from logos.verification import difference

SPELLED = frozenset(op.name for op in OPS)
GRAMMAR = make_grammar(OPS)
BY_NAME = {op.name: op for op in OPS}


@cache
def drawn(name: str, seed: int = 0) -> tuple[Prepared, ...]:
    return tuple(cases(BY_NAME[name], SPELLED, 20, seed, GRAMMAR))


def sizes(name: str) -> Iterator[dict[str, int]]:
    return (dict(one.case.sizes) for one in drawn(name))


def is_prime(number: int) -> bool:
    return number > 1 and all(number % part for part in range(2, number))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_form_and_the_awkward_sizes_are_among_an_op_s_cases(op: Op) -> None:
    found = [one.case for one in drawn(op.name)]
    assert 20 <= len(found) <= 30
    assert {(case.form.present, case.form.rule) for case in found} == set(variants(op))
    assert {case.form.real for case in found} == ({True, False} if op.exact else {True})
    by_number = bool(op.indexes) and not op.variables
    assert {case.form.literal for case in found} == ({True, False} if by_number else {False})
    assert {case.form.stored for case in found} == {True, False}
    for rule in op.shapes:
        mine = [case for case in found if case.form.rule == rule]
        assert any(max(case.sizes.values()) == 1 for case in mine) or "half" in rule.text
        for symbol in mine[0].sizes:
            assert any(case.sizes[symbol] == 1 for case in mine) or (symbol == "hd" and "half" in rule.text)
            assert symbol in op.counts or any(case.sizes[symbol] == 257 for case in mine)
    widths = {case.shape(hole)[1] for case in found for hole in case.operands}
    assert any(width % 2 and is_prime(width) for width in widths)


def test_the_ratios_and_limits_of_counts_are_among_the_cases() -> None:
    assert any(one["HV"] == 3 * one["HK"] > 3 for one in sizes("gated delta"))
    assert any(one["HV"] == one["HK"] > 1 for one in sizes("gated delta"))
    assert {one["TAPS"] for one in sizes("causal conv")} >= {1, 2, 3, 4, 5}
    assert any(one["TOP"] == one["EXPERTS"] > 1 for one in sizes("moe"))
    assert any(one["TOP"] < one["EXPERTS"] for one in sizes("moe"))
    assert any(one["L"] == 1 for one in sizes("attention"))
    assert any(one["H"] == 3 * one["KV"] > 3 for one in sizes("attention"))
    assert any(2 * one["half"] == one["hd"] for one in sizes("rope") if "hd" in one)
    assert any(2 * one["half"] < one["hd"] for one in sizes("rope") if "hd" in one)


@pytest.mark.parametrize("seed", range(5))
def test_awkward_sizes_do_not_hang_on_luck(seed: int) -> None:
    def awkward(name: str, rule: int = 0) -> list[dict[str, int]]:
        op, random = BY_NAME[name], Random(seed)
        pins = awkward_pins(op, op.shapes[rule], random)
        return [pinned_sizes(op, op.shapes[rule], one, random) for one in pins]

    assert any((one["HK"], one["HV"]) == (2, 6) for one in awkward("gated delta"))
    assert any((one["HK"], one["HV"]) == (3, 3) for one in awkward("gated delta"))
    assert any(one["TOP"] == one["EXPERTS"] == 5 for one in awkward("moe"))
    assert any((one["half"], one["hd"]) == (5, 10) for one in awkward("rope", 1))
    assert {one["TAPS"] for one in awkward("causal conv")} >= {1, 2, 3, 4, 5}
    for name, op in BY_NAME.items():
        assert set(awkward(name)[0].values()) == {1}
        assert max(size for one in awkward(name) for size in one.values()) >= 257
        assert len(awkward(name)) > len(op.shapes[0].operands)


def test_operands_after_the_first_are_weights_in_every_other_round() -> None:
    weights = {name: {one.case.weights for one in drawn(name)} for name in ("matmul", "embedding", "causal conv")}
    assert {tuple(name.split("_")[0] for name in found) for found in weights["matmul"]} == {(), ("b",)}
    assert {tuple(name.split("_")[0] for name in found) for found in weights["embedding"]} == {(), ("table",)}
    assert {tuple(name.split("_")[0] for name in found) for found in weights["causal conv"]} == {(), ("wc",)}


def test_cases_are_the_same_again_and_other_ones_for_another_seed() -> None:
    again = [one.case.text for one in cases(BY_NAME["matmul"], SPELLED, 20, 0, GRAMMAR)]
    assert [one.case.text for one in drawn("matmul")] == again
    assert [one.case.text for one in drawn("matmul", 1)] != again


def test_more_shapes_are_as_many_and_fewer_keep_every_form_and_awkward_size() -> None:
    assert len(list(cases(BY_NAME["silu"], SPELLED, 33, 0, GRAMMAR))) == 33
    assert len(list(cases(BY_NAME["rmsnorm"], SPELLED, 1, 0, GRAMMAR))) >= len(list(variants(BY_NAME["rmsnorm"])))


def test_cases_side_by_side_are_each_what_it_is_alone() -> None:
    batch = [one for op in OPS for one in drawn(op.name)[:6]]
    graph = read_program(Source("p.lg", "".join(one.case.text for one in batch)), GRAMMAR)
    names = [leaf.name for leaf in graph.leaves]
    assert len(set(names)) == len(names) == sum(len(one.values) for one in batch)
    assert len(graph.nodes) == sum(len(one.graph.nodes) for one in batch)


def test_a_result_that_hangs_on_the_rounding_of_its_operands_is_not_drawn() -> None:
    """The sum of two near numbers of other signs has few right digits in bfloat16, whoever adds them."""
    ones = Case(drawn("plus")[0].case.form, 0, dict.fromkeys(("r", "c"), 1), {})
    assert ones.form.real
    passed = 0
    for start in range(0, 4000, 40):
        made = prepare(ones, GRAMMAR, count(start))
        a, b = (made.values[made.case.name(hole)] for hole in "AB")
        rounded = nearest_bfloat16(a) + nearest_bfloat16(b)
        assert abs(rounded - (a + b)) <= 1.4e-2 * abs(a + b)
        passed += made.case.number > start
    assert 2 <= passed <= 40


@pytest.mark.parametrize(
    ("rows", "unsteady"),
    [
        ([[0.5, -0.25]], False),
        ([[0.51, 0.5]], True),
        ([[0.51, 0.5, -0.5]], False),
        ([[0.5, 0.5 + 2**-8]], True),  # a mean that float16 holds and bfloat16 does not
        ([[0.5, 0.5 + 2**-7 + 2**-11]], True),  # one that bfloat16 holds, of operands as it rounds them
    ],
)
def test_a_mean_that_cancels_is_seen_though_no_operand_is_rounded(rows: list[list[float]], unsteady: bool) -> None:
    columns = len(rows[0])
    form = next(form for form in (one.case.form for one in drawn("layernorm")) if "EPS" not in form.present)
    made = prepare(Case(form, 0, {"r": 1, "c": columns}, {}), GRAMMAR, count(1))
    x, w, b = (made.case.name(hole) for hole in "XWB")
    values = {x: np.array(rows), w: np.ones((1, columns)), b: np.zeros((1, columns))}
    assert (replace(made, values=values).unsteadiness > STEADY) == unsteady


def test_experts_that_are_chosen_by_a_last_digit_are_unsteady() -> None:
    form = drawn("moe")[0].case.form
    sizes = {"TOP": 1, "EXPERTS": 2, "t": 1, "d": 2, "f": 2}
    made = prepare(Case(form, 0, sizes, {}), GRAMMAR, count(1))
    assert made.unsteadiness <= STEADY
    tied = {**made.values, made.case.name("WR"): np.array([[0.3, 0.1], [0.3, 0.10001]])}
    assert replace(made, values=tied).unsteadiness > 1


@pytest.mark.parametrize("op", [op for op in OPS if op.name != "moe"], ids=lambda op: op.name)
def test_what_is_drawn_is_steady(op: Op) -> None:
    """But for many rows of experts, of which some are always chosen by a last digit of bfloat16."""
    assert max(one.unsteadiness for seed in range(3) for one in drawn(op.name, seed)) <= STEADY


def nearest_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    mantissa, exponent = np.frexp(array)
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


def test_what_is_compared_is_the_output_the_states_and_what_an_argmax_chose_from() -> None:
    assert all(len(one.expected) == 2 for name in ("argmax", "gated delta", "set row") for one in drawn(name))
    for one in drawn("set row"):
        assert one.case.name("T") in one.expected
        before = one.values[one.case.name("T")]
        after = one.expected[one.case.name("T")][0]
        assert (before != after).any(axis=1).sum() <= 1


def test_states_hold_noise() -> None:
    assert all(np.any(one.values[one.case.name("S")]) for one in drawn("gated delta"))


def test_verdicts_are_held_to_the_bound_of_one_op_though_a_reader_makes_two() -> None:
    made = drawn("set row")[0]
    assert len(made.graph.nodes) == 2
    assert {verdict.bound for verdict in made.verdicts("bfloat16", made.expected)} <= {0.0, 2e-2}


def test_what_a_case_may_shrink_to_is_smaller_and_parses() -> None:
    for name in ("gated delta", "moe", "rmsnorm", "attention", "embedding"):
        for one in drawn(name):
            for case in smaller(one.case):
                assert case.size < one.case.size
                read_program(Source("p.lg", case.text), GRAMMAR)


def test_a_statement_s_reader_is_one_that_the_target_spells() -> None:
    (made, *_) = cases(BY_NAME["set row"], frozenset({"set row", "silu"}), 1, 0, GRAMMAR)
    assert "be silu of t_set_row_1." in made.case.text


def test_an_op_of_a_plugin_is_drawn_from_its_declaration_too() -> None:
    def half_sum(X: np.ndarray[Any, Any], Y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if X.dtype != np.float64:
            raise TypeError("it takes float64 alone")
        return (X + Y) / 2

    op = Op("half sum", "half sum of X and Y", (Shapes("X (r, c), Y (r, c) -> (r, c)"),), half_sum)
    grammar = make_grammar((*OPS, op))
    found = list(cases(op, SPELLED, 20, 0, grammar))
    assert len(found) == 20
    made = found[0]
    assert made.case.text.endswith("be half sum of x_half_sum_1 and y_half_sum_1.\n")
    x, y = (made.values[made.case.name(hole)] for hole in "XY")
    assert difference((x + y) / 2, made.expected[made.case.output][0]) == 0
