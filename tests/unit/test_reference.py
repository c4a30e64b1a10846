"""Every op of the reference machine against the loops of plain_ops, over random shapes and the edges of each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import plain_ops as plain
import pytest
from numpy.typing import NDArray

from logos import Graph, Machine, Op, Refused, Shapes, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS

GRAMMAR = make_grammar(OPS)
Array = NDArray[Any]
PRIMES = (1, 2, 3, 5, 7, 13)


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def run(sentence: str, arrays: Mapping[str, Any], states: tuple[str, ...] = ()) -> dict[str, Array]:
    """One step of a sentence over arrays by name; a state's array comes in by fills. Every name's newest value."""
    values = {name: np.asarray(array) for name, array in arrays.items()}
    lines = []
    for name, array in values.items():
        kind = "Real" if array.dtype.kind == "f" else "Int"
        lines.append(f"Let {name} be a {array.shape[0]} by {array.shape[1]} tensor of {kind}.")
        if name in states:
            lines += [f"Set item {i} of {name} to {value!r}." for i, value in enumerate(array.ravel().tolist(), 1)]
    if sentence.startswith("Set"):
        sentence += f"\nLet out be transpose of {states[0]}."
    made = graph("\n".join([*lines, sentence]))
    assert tuple(leaf.name for leaf in made.states) == states
    before = {name: array.copy() for name, array in values.items()}
    machine = Machine(made, {name: array for name, array in values.items() if name not in states})
    now = machine.step()
    for name, array in values.items():
        assert np.array_equal(array, before[name], equal_nan=True), f"{name} was changed in place"
    return {name: now[value] for name, value in made.newest().items()}


def real(random: np.random.Generator, rows: int, columns: int) -> Array:
    return random.uniform(-2, 2, (rows, columns))


def whole(random: np.random.Generator, rows: int, columns: int) -> Array:
    return random.integers(-9, 10, (rows, columns))


def assert_close(found: Array, expected: list[list[float]], tolerance: float = 1e-12) -> None:
    assert found.shape == (len(expected), len(expected[0]))
    for row, due in zip(found.tolist(), expected, strict=True):
        for x, y in zip(row, due, strict=True):
            assert math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance), (x, y)


def assert_exactly(found: Array, expected: list[list[int]]) -> None:
    assert found.dtype == np.int64
    assert found.tolist() == expected


def refusal(sentence: str, arrays: Mapping[str, Any], states: tuple[str, ...] = ()) -> tuple[str, str, str]:
    with pytest.raises(Refused) as refused:
        run(sentence, arrays, states)
    (one,) = refused.value.refusals
    assert one.where is not None
    return one.code, one.what, one.where.label()


@pytest.fixture(params=range(3))
def random(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


# Arithmetic


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 7, 5), (3, 1, 2), (5, 13, 1), (2, 3, 4)])
def test_matmul(random: np.random.Generator, m: int, k: int, n: int) -> None:
    a, b = real(random, m, k), real(random, k, n)
    assert_close(run("Let y be a matmul b.", {"a": a, "b": b})["y"], plain.matmul(a.tolist(), b.tolist()))
    a, b = whole(random, m, k), whole(random, k, n)
    assert_exactly(run("Let y be a matmul b.", {"a": a, "b": b})["y"], plain.matmul(a.tolist(), b.tolist()))


@pytest.mark.parametrize("op", ["plus", "hadamard"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 4)])
@pytest.mark.parametrize("beside", ["same", "row", "one"])
def test_plus_and_hadamard(random: np.random.Generator, op: str, shape: tuple[int, int], beside: str) -> None:
    other = {"same": shape, "row": (1, shape[1]), "one": (1, 1)}[beside]
    formula = getattr(plain, op)
    a, b = real(random, *shape), real(random, *other)
    assert_close(run(f"Let y be a {op} b.", {"a": a, "b": b})["y"], formula(a.tolist(), b.tolist()))
    a, b = whole(random, *shape), whole(random, *other)
    assert_exactly(run(f"Let y be a {op} b.", {"a": a, "b": b})["y"], formula(a.tolist(), b.tolist()))


def test_an_operand_may_stand_twice() -> None:
    assert run("Let y be a plus a.", {"a": [[1.5, 2.0]]})["y"].tolist() == [[3.0, 4.0]]
    assert run("Let y be a matmul a.", {"a": [[1, 2], [3, 4]]})["y"].tolist() == [[7, 10], [15, 22]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 3)])
def test_transpose(random: np.random.Generator, shape: tuple[int, int]) -> None:
    for x in (real(random, *shape), whole(random, *shape)):
        y = run("Let y be transpose of x.", {"x": x})["y"]
        assert y.dtype == x.dtype
        assert y.tolist() == plain.transpose(x.tolist())


TOP = 2**63 - 1


def test_int_is_exact_up_to_the_last_bit() -> None:
    assert_exactly(run("Let y be a plus b.", {"a": [[TOP - 1]], "b": [[1]]})["y"], [[TOP]])
    assert_exactly(run("Let y be a plus b.", {"a": [[-TOP]], "b": [[-1]]})["y"], [[-TOP - 1]])
    assert_exactly(run("Let y be a hadamard b.", {"a": [[3037000499, -(2**62)]], "b": [[3037000499, 2]]})["y"],
                   [[3037000499**2, -(2**63)]])  # fmt: skip
    # The partial sums leave 64 bits on the way and the result comes back.
    assert_exactly(run("Let y be a matmul b.", {"a": [[TOP, TOP, -TOP]], "b": [[1], [1], [1]]})["y"], [[TOP]])
    assert_exactly(run("Let y be a matmul b.", {"a": [[2**53 + 1]], "b": [[1]]})["y"], [[2**53 + 1]])


@pytest.mark.parametrize(
    ("sentence", "a", "b"),
    [
        ("a plus b", [[0, TOP]], [[0, 1]]),
        ("a plus b", [[-TOP - 1]], [[-1]]),
        ("a hadamard b", [[2**32]], [[2**31]]),
        ("a hadamard b", [[-TOP - 1]], [[-1]]),
        ("a matmul b", [[TOP, 1]], [[1], [1]]),
    ],
)
def test_int_overflow_is_an_error_at_its_sentence(sentence: str, a: list[list[int]], b: list[list[int]]) -> None:
    code, what, place = refusal(f"Let y be {sentence}.", {"a": a, "b": b})
    assert (code, place) == ("no-value", "p.lg:3:1")
    assert "does not fit 64 bits" in what


@pytest.mark.parametrize("op", ["plus", "hadamard", "matmul"])
def test_an_int_beside_a_real_counts_as_real(op: str) -> None:
    large = [[2**62, 3], [5, 7]]
    for a, b in ((large, [[0.5, 2.0], [4.0, 0.25]]), ([[0.5, 2.0], [4.0, 0.25]], large)):
        y = run(f"Let y be a {op} b.", {"a": a, "b": b})["y"]
        assert y.dtype == np.float64
        assert_close(y, getattr(plain, op)(a, b))


def test_a_function_of_reals_takes_int_as_real(random: np.random.Generator) -> None:
    x = whole(random, 3, 5)
    y = run("Let y be softmax of x.", {"x": x})["y"]
    assert y.dtype == np.float64
    assert_close(y, plain.softmax(x.tolist()))
    moe = {"x": (2, 3), "r": (4, 3), "g": (8, 3), "u": (8, 3), "d": (12, 2)}
    ints = {name: whole(random, *shape) for name, shape in moe.items()}
    sentence = "Let y be moe of x with router r gate g up u down d top 2 of 4 experts."
    assert_close(run(sentence, ints)["y"], plain.moe(*(array.tolist() for array in ints.values()), 2, 4))


# Norms


@pytest.mark.parametrize("shape", [(1, 1), (1, 13), (3, 7), (5, 1)])
@pytest.mark.parametrize("eps", [None, "1e-5", "0.5", "2"])
def test_norms_by_row(random: np.random.Generator, shape: tuple[int, int], eps: str | None) -> None:
    x, r, w, b = real(random, *shape), real(random, *shape), real(random, 1, shape[1]), real(random, 1, shape[1])
    X, R, W, B = x.tolist(), r.tolist(), w.tolist(), b.tolist()
    end, e = ("", 1e-6) if eps is None else (f" with eps {eps}", float(eps))
    assert_close(run(f"Let y be rmsnorm of x{end}.", {"x": x})["y"], plain.rmsnorm(X, None, None, e, None))
    y = run(f"Let y be rmsnorm of x with weight w{end}.", {"x": x, "w": w})["y"]
    assert_close(y, plain.rmsnorm(X, None, W, e, None))
    y = run(f"Let y be rmsnorm of x plus r with weight w{end}.", {"x": x, "r": r, "w": w})["y"]
    assert_close(y, plain.rmsnorm(X, R, W, e, None))
    y = run(f"Let y be layernorm of x with weight w and bias b{end}.", {"x": x, "w": w, "b": b})["y"]
    assert_close(y, plain.layernorm(X, W, B, e))
    assert_close(run(f"Let y be l2norm of x{end}.", {"x": x})["y"], plain.l2norm(X, e, None))


@pytest.mark.parametrize(("heads", "width"), [(1, 1), (1, 7), (5, 1), (3, 4)])
def test_norms_across_heads(random: np.random.Generator, heads: int, width: int) -> None:
    x, r, w = real(random, 1, heads * width), real(random, 1, heads * width), real(random, 1, width)
    X, R, W = x.tolist(), r.tolist(), w.tolist()
    end = f"across {heads} heads"
    assert_close(run(f"Let y be rmsnorm of x {end}.", {"x": x})["y"], plain.rmsnorm(X, None, None, 1e-6, heads))
    y = run(f"Let y be rmsnorm of x plus r with weight w with eps 1e-3 {end}.", {"x": x, "r": r, "w": w})["y"]
    assert_close(y, plain.rmsnorm(X, R, W, 1e-3, heads))
    y = run(f"Let y be l2norm of x with eps 1e-3 {end}.", {"x": x})["y"]
    assert_close(y, plain.l2norm(X, 1e-3, heads))


def test_a_row_of_zeros_norms_to_zeros() -> None:
    zeros = np.zeros((2, 3))
    for words in ("rmsnorm of x", "l2norm of x"):
        assert run(f"Let y be {words}.", {"x": zeros})["y"].tolist() == zeros.tolist()


# Rope and attention


@pytest.mark.parametrize(("heads", "half", "rest"), [(1, 1, 0), (1, 2, 3), (3, 1, 1), (4, 4, 0), (5, 3, 2)])
def test_rope_across_heads(random: np.random.Generator, heads: int, half: int, rest: int) -> None:
    q = real(random, 1, heads * (2 * half + rest))
    angle = random.uniform(-3, 3, (1, half))
    c, s = np.cos(angle), np.sin(angle)
    y = run(f"Let y be rope of q with cos c and sin s across {heads} heads.", {"q": q, "c": c, "s": s})["y"]
    assert_close(y, plain.rope(q.tolist(), c.tolist(), s.tolist(), heads))
    if rest:
        passed = y.reshape(heads, -1)[:, 2 * half :]
        assert np.array_equal(passed, q.reshape(heads, -1)[:, 2 * half :])


@pytest.mark.parametrize(("heads", "half"), [(1, 1), (1, 5), (3, 2)])
def test_rope_without_heads_turns_runs_of_twice_half(random: np.random.Generator, heads: int, half: int) -> None:
    q, c, s = real(random, 1, heads * 2 * half), real(random, 1, half), real(random, 1, half)
    y = run("Let y be rope of q with cos c and sin s.", {"q": q, "c": c, "s": s})["y"]
    assert_close(y, plain.rope(q.tolist(), c.tolist(), s.tolist(), None))


@pytest.mark.parametrize(
    ("heads", "groups", "width", "rows"), [(1, 1, 1, 1), (4, 4, 3, 5), (6, 2, 2, 7), (5, 1, 1, 2), (9, 3, 5, 13)]
)
def test_attention_over_groups(random: np.random.Generator, heads: int, groups: int, width: int, rows: int) -> None:
    q = real(random, 1, heads * width)
    k, v = real(random, rows, groups * width), real(random, rows, groups * width)
    sentence = f"Let y be attention of q over k and v with {heads} heads {groups} groups"
    lists = q.tolist(), k.tolist(), v.tolist()
    y = run(f"{sentence}.", {"q": q, "k": k, "v": v})["y"]
    assert_close(y, plain.attention(*lists, heads, groups, None))
    for p in {0, rows // 2, rows - 1}:
        k[p + 1 :], v[p + 1 :] = math.nan, math.nan  # rows past P are never read
        y = run(f"{sentence} up to p.", {"q": q, "k": k, "v": v, "p": [[p]]})["y"]
        assert_close(y, plain.attention(*lists, heads, groups, p))
        k, v = np.array(lists[1]), np.array(lists[2])


def test_attention_does_not_overflow_on_large_scores() -> None:
    y = run("Let y be attention of q over k and v with 1 heads 1 groups.",
            {"q": [[1e4]], "k": [[1e4], [-1e4]], "v": [[3.0], [5.0]]})["y"]  # fmt: skip
    assert y.tolist() == [[3.0]]


@pytest.mark.parametrize(("rows", "heads", "width"), [(1, 1, 1), (3, 1, 5), (2, 3, 1), (5, 2, 3)])
def test_full_attention(random: np.random.Generator, rows: int, heads: int, width: int) -> None:
    q, k, v = (real(random, rows, heads * width) for _ in range(3))
    y = run(f"Let y be full attention of q over k and v with {heads} heads.", {"q": q, "k": k, "v": v})["y"]
    assert_close(y, plain.full_attention(q.tolist(), k.tolist(), v.tolist(), heads))


# Functions of each element


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 4)])
@pytest.mark.parametrize("op", ["softmax", "sigmoid", "silu", "gelu"])
def test_functions_of_one_operand(random: np.random.Generator, op: str, shape: tuple[int, int]) -> None:
    x = real(random, *shape) * 3
    assert_close(run(f"Let y be {op} of x.", {"x": x})["y"], getattr(plain, op)(x.tolist()))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("sigmoid", [0.0, 0.5, 1.0]),
        ("silu", [0.0, 0.0, 1e4]),
        ("gelu", [0.0, 0.0, 1e4]),
        ("softmax", [0.0, 0.0, 1.0]),
    ],
)
def test_far_values_neither_overflow_nor_lose_their_limit(op: str, expected: list[float]) -> None:
    assert run(f"Let y be {op} of x.", {"x": [[-1e4, 0.0, 1e4]]})["y"].tolist() == [expected]


def test_softmax_is_shifted_by_each_rows_own_maximum() -> None:
    y = run("Let y be softmax of x.", {"x": [[-1e4, -1e4], [1e4, 1e4]]})["y"]
    assert y.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 4)])
def test_swiglu(random: np.random.Generator, shape: tuple[int, int]) -> None:
    g, u = real(random, *shape), real(random, *shape)
    assert_close(run("Let y be swiglu of g and u.", {"g": g, "u": u})["y"], plain.swiglu(g.tolist(), u.tolist()))


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
