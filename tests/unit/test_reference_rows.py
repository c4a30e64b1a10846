"""Rows by number, states and experts on the reference machine against the loops of plain_ops, and its steps."""

from __future__ import annotations

import math
import re

import numpy as np
import plain_ops as plain
import pytest
from one_sentence import PRIMES, TOP, assert_close, assert_exactly, graph, real, refusal, run, whole

from logos import Machine, Op, Shapes, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS

# Rows by number


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 4)])
def test_argmax_is_the_first_largest_of_the_flattened_operand(
    random: np.random.Generator, shape: tuple[int, int]
) -> None:
    for x in (real(random, *shape), whole(random, *shape), whole(random, *shape) // 5):
        assert_exactly(run("Let y be argmax of x.", {"x": x})["y"], plain.argmax(x.tolist()))


def test_argmax_of_ties_infinities_and_large_int() -> None:
    assert run("Let y be argmax of x.", {"x": [[1.0, 3.0], [3.0, 3.0]]})["y"].tolist() == [[1]]
    assert run("Let y be argmax of x.", {"x": [[-math.inf, -math.inf]]})["y"].tolist() == [[0]]
    assert run("Let y be argmax of x.", {"x": [[0.0, math.inf]]})["y"].tolist() == [[1]]
    # As float64 the two would tie.
    assert run("Let y be argmax of x.", {"x": [[2**53, 2**53 + 1]]})["y"].tolist() == [[1]]


def test_argmax_of_a_nan_is_an_error_at_its_sentence() -> None:
    code, what, place = refusal("Let y be argmax of x.", {"x": [[1.0, math.nan]]})
    assert (code, place) == ("no-value", "p.lg:2:1")
    assert what == "argmax: the operand holds a NaN, so it has no largest element"


@pytest.mark.parametrize("rows", PRIMES)
def test_embedding_reads_one_row(random: np.random.Generator, rows: int) -> None:
    for table in (real(random, rows, 3), whole(random, rows, 3) + 2**60):
        for row in {0, rows // 2, rows - 1}:
            by_name = run("Let y be row t of e.", {"t": [[row]], "e": table})["y"]
            by_literal = run(f"Let y be row {row} of e.", {"e": table})["y"]
            assert by_name.dtype == table.dtype
            assert by_name.tolist() == by_literal.tolist() == [table[row].tolist()]


@pytest.mark.parametrize("rows", PRIMES)
def test_set_row_writes_one_row(random: np.random.Generator, rows: int) -> None:
    for make in (real, whole):
        table, r = make(random, rows, 3), make(random, 1, 3)
        for row in {0, rows // 2, rows - 1}:
            expected = [r[0].tolist() if i == row else line for i, line in enumerate(table.tolist())]
            assert run(f"Set row {row} of T to r.", {"T": table, "r": r}, ("T",))["T"].tolist() == expected
            by_name = run("Set row p of T to r.", {"T": table, "r": r, "p": [[row]]}, ("T",))["T"]
            assert by_name.tolist() == expected


def test_set_row_of_an_int_into_a_real_table_is_real() -> None:
    after = run("Set row 0 of T to r.", {"T": [[0.5, 1.5]], "r": [[2, 3]]}, ("T",))["T"]
    assert (after.dtype, after.tolist()) == (np.float64, [[2.0, 3.0]])


@pytest.mark.parametrize("row", [-1, 3, TOP, -TOP - 1])
@pytest.mark.parametrize(
    ("sentence", "table", "states"),
    [
        ("Let y be row p of T.", "T", ()),
        ("Set row p of T to r.", "T", ("T",)),
        ("Let y be attention of r over T and T with 1 heads 1 groups up to p.", "T", ()),
    ],
)
def test_a_row_outside_its_table_is_an_error_at_its_sentence(
    sentence: str, table: str, states: tuple[str, ...], row: int
) -> None:
    arrays = {"r": np.ones((1, 2)), "p": [[row]], "T": np.ones((3, 2))}
    code, what, place = refusal(sentence, arrays, states)
    line = 4 + (6 if states else 0)
    assert (code, place) == ("row-outside-table", f"p.lg:{line}:1")
    assert what == f"p is {row}, outside the rows 0 to 2 of {table}"


# Ops that carry a state


@pytest.mark.parametrize(("taps", "columns"), [(1, 1), (1, 5), (4, 3), (7, 2)])
def test_causal_conv_over_steps(random: np.random.Generator, taps: int, columns: int) -> None:
    text = (
        f"Let x be a 1 by {columns} tensor of Real.\nLet w be a {taps} by {columns} tensor of Real.\n"
        f"Let C be a {taps} by {columns} tensor of Real.\nSet item 1 of C to 0.75.\n"
        f"Let y be causal conv of x with weight w state C over {taps} taps."
    )
    w = real(random, taps, columns)
    machine = Machine(graph(text), {"w": w})
    ring = [[0.0] * columns for _ in range(taps)]
    ring[0][0] = 0.75
    for _ in range(taps + 2):
        x = real(random, 1, columns)
        y, ring = plain.causal_conv(x.tolist(), w.tolist(), ring, taps)
        assert_close(machine.step({"x": x})[machine.graph.output], y)
        assert_close(machine.states["C"], ring)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 4)])
def test_decay(random: np.random.Generator, shape: tuple[int, int]) -> None:
    a, d, r = (real(random, *shape) for _ in range(3))
    y = run("Let y be decay of a with bias d rate r.", {"a": a, "d": d, "r": r})["y"]
    assert_close(y, plain.decay(a.tolist(), d.tolist(), r.tolist()))


def test_decay_does_not_overflow() -> None:
    # (1 + e^1000)^-0.5 is e^-500, and (1 + e^-1000)^-3 is 1.
    y = run("Let y be decay of a with bias d rate r.",
            {"a": [[900.0, -900.0]], "d": [[100.0, -100.0]], "r": [[-0.5, -3.0]]})["y"]  # fmt: skip
    assert_close(y, [[math.exp(-500), 1.0]])


@pytest.mark.parametrize(("values", "keys", "d"), [(1, 1, 1), (2, 2, 3), (6, 2, 2), (3, 1, 5), (9, 3, 4)])
def test_gated_delta_over_steps(random: np.random.Generator, values: int, keys: int, d: int) -> None:
    shapes = {
        "q": (1, keys * d), "k": (1, keys * d), "v": (1, values * d), "z": (1, values * d), "b": (1, values),
        "a": (1, values), "S": (values * d, d), "g": (1, d),
    }  # fmt: skip
    lines = [f"Let {name} be a {rows} by {columns} tensor of Real." for name, (rows, columns) in shapes.items()]
    first = real(random, *shapes["S"])
    lines += [f"Set item {i} of S to {value!r}." for i, value in enumerate(first.ravel().tolist(), 1)]
    lines.append("Let y be gated delta of q over k and v with gate z beta b decay a state S norm g with eps 1e-4 "
                 f"with {values} heads {keys} groups.")  # fmt: skip
    machine = Machine(graph("\n".join(lines)), {})
    state = first.tolist()
    for _ in range(3):
        given = {name: real(random, *shape) for name, shape in shapes.items() if name != "S"}
        lists = {name: array.tolist() for name, array in given.items()}
        operands = (lists["q"], lists["k"], lists["v"], lists["z"], lists["b"], lists["a"], state, lists["g"])
        y, state = plain.gated_delta(*operands, 1e-4, values, keys)
        assert_close(machine.step(given)[machine.graph.output], y, 1e-10)
        assert_close(machine.states["S"], state, 1e-10)


def test_gated_delta_takes_eps_1e_6_unless_it_says_otherwise() -> None:
    one = {name: np.full((1, 1), 0.5) for name in "qkvzbaSg"}
    y = run("Let y be gated delta of q over k and v with gate z beta b decay a state S norm g with 1 heads 1 groups.",
            one, ("S",))["y"]  # fmt: skip
    expected, _ = plain.gated_delta(*[[[0.5]]] * 8, 1e-6, 1, 1)
    assert_close(y, expected)


@pytest.mark.parametrize(
    ("rows", "d", "f", "top", "experts"), [(1, 1, 1, 1, 1), (2, 3, 5, 2, 4), (3, 2, 1, 4, 4), (1, 5, 3, 1, 7)]
)
def test_moe(random: np.random.Generator, rows: int, d: int, f: int, top: int, experts: int) -> None:
    arrays = {
        "x": real(random, rows, d), "r": real(random, experts, d), "g": real(random, experts * f, d),
        "u": real(random, experts * f, d), "w": real(random, experts * d, f),
    }  # fmt: skip
    sentence = f"Let y be moe of x with router r gate g up u down w top {top} of {experts} experts."
    lists = (array.tolist() for array in arrays.values())
    assert_close(run(sentence, arrays)["y"], plain.moe(*lists, top, experts))


def test_moe_takes_the_lowest_experts_of_a_tie(random: np.random.Generator) -> None:
    arrays = {
        "x": np.full((2, 3), 0.5), "r": np.arange(50)[:, None] % 2 * np.ones(3), "g": real(random, 100, 3),
        "u": real(random, 100, 3),
        "w": real(random, 150, 2),
    }  # fmt: skip
    sentence = "Let y be moe of x with router r gate g up u down w top 2 of 50 experts."
    y = run(sentence, arrays)["y"]
    for name, size in (("g", 2), ("u", 2), ("w", 3)):
        rows = np.arange(len(arrays[name])) // size
        arrays[name][(rows != 1) & (rows != 3)] = math.nan  # of the odd experts, which tie, the first two are read
    assert np.array_equal(run(sentence, arrays)["y"], y)


# Steps


def test_every_op_was_held_to_its_loops() -> None:
    functions = {re.sub("_", " ", name) for name in vars(plain) if not name.startswith("_")}
    assert {op.name for op in OPS} - functions == {"embedding", "set row"}


def test_an_op_that_breaks_its_own_shape_rule_is_named() -> None:
    wide = Op("wide", "wide X", (Shapes("X (r, c) -> (r, c)"),), lambda X: np.zeros((1, 7)))
    made = read_program(Source("p.lg", "Let x be a 1 by 2 tensor of Real.\nLet y be wide x."), make_grammar([wide]))
    with pytest.raises(TypeError, match=r"the op wide gave \(1, 7\) where its shape rule gives \(1, 2\)"):
        Machine(made, {"x": np.zeros((1, 2))}).step()


def test_a_state_read_above_its_write_holds_the_last_steps_value() -> None:
    machine = Machine(graph(
        "Let S be a 1 by 1 tensor of Int.\nSet item 1 of S to 10.\nLet x be a 1 by 1 tensor of Int.\n"
        "Let before be row 0 of S.\nLet next be before plus x.\nSet row 0 of S to next.\nLet after be row 0 of S."
    ), {"x": np.array([[3]])})  # fmt: skip
    newest = machine.graph.newest()
    seen = []
    for _ in range(3):
        now = machine.step()
        seen.append(tuple(int(now[newest[name]][0, 0]) for name in ("before", "after")))
    assert seen == [(10, 13), (13, 16), (16, 19)]


def test_a_state_written_twice_in_a_step_keeps_both_writes() -> None:
    machine = Machine(graph(
        "Let T be a 2 by 1 tensor of Real.\nLet x be a 1 by 1 tensor of Real.\n"
        "Set row 0 of T to x.\nLet a be row 0 of T.\nLet b be a plus a.\nSet row 1 of T to b.\nLet y be transpose of T."
    ), {"x": np.array([[1.5]])})  # fmt: skip
    assert machine.step()[machine.graph.output].tolist() == [[1.5, 3.0]]
    assert machine.states["T"].tolist() == [[1.5], [3.0]]
