"""Ops on rows of the reference machine against the loops of plain_ops, over random shapes and the edges of each."""

from __future__ import annotations

import math

import numpy as np
import plain_ops as plain
import pytest
from one_sentence import TOP, assert_close, assert_exactly, real, refusal, run, whole

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
