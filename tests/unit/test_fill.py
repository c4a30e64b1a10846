"""Fills: the published generators, then the rules that choose among them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from logos import Graph, Leaf, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.source import fnv1a
from logos.weights.fill import FillKind, fill, splitmix64, uniform

MASK = 2**64 - 1


def mixed(state: int, count: int) -> list[int]:
    """splitmix64 with Python integers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(z ^ (z >> 31))
    return found


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), make_grammar(OPS))


def leaf(made: Graph, name: str) -> Leaf:
    return next(leaf for leaf in made.leaves if leaf.name == name)


def test_the_generator_gives_the_published_sequence() -> None:
    assert mixed(1234567, 5) == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821
    ]  # fmt: skip


def test_the_hash_gives_the_published_values() -> None:
    assert [fnv1a(text) for text in ("", "a", "foobar")] == [
        0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8
    ]  # fmt: skip
    assert Source("p.lg", "foobar").fnv1a() == "85944171f73967e8"


@pytest.mark.parametrize("name", ["x", "Wq0", "_" * 100])
def test_noise_is_the_generator_seeded_by_the_variables_name(name: str) -> None:
    due = mixed(fnv1a(name), 50)
    assert splitmix64(name, 50).tolist() == due
    assert uniform(name, 50).tolist() == [(z >> 11) / 2**52 - 1 for z in due]


def test_real_noise_is_uniform_over_the_root_of_the_rows() -> None:
    made = graph("Let W be a 400 by 100 tensor of Real.\nLet y be silu of W.")
    noise = fill(made, leaf(made, "W"), "noise")
    assert (noise.shape, noise.dtype) == ((400, 100), np.float64)
    assert noise.ravel().tolist() == (uniform("W", 40000) / 20).tolist()
    assert -1 / 20 <= noise.min() < -0.049
    assert 0.049 < noise.max() < 1 / 20
    assert abs(noise.mean()) < 1e-3


def test_int_noise_is_from_minus_three_to_three() -> None:
    made = graph("Let n be a 70 by 10 tensor of Int.\nLet y be transpose of n.")
    noise = fill(made, leaf(made, "n"), "noise")
    assert noise.dtype == np.int64
    assert noise.ravel().tolist() == [z % 7 - 3 for z in mixed(fnv1a("n"), 700)]
    assert set(noise.ravel().tolist()) == set(range(-3, 4))


DECAY = "".join(f"Let {name} be a 4 by 5 tensor of Real.\n" for name in ("a", "d", "r"))


def test_the_rate_of_a_decay_is_negative_under_noise_alone() -> None:
    made = graph(f"{DECAY}Let y be decay of a with bias d rate r.")
    u = uniform("r", 20).reshape(4, 5) / 2
    assert fill(made, leaf(made, "r"), "noise").tolist() == (-abs(u)).tolist()
    assert fill(made, leaf(made, "d"), "noise").tolist() == (uniform("d", 20).reshape(4, 5) / 2).tolist()
    assert fill(made, leaf(made, "r"), "ramp").max() > 0


def test_ramp_counts_elements_from_zero_modulo_seven() -> None:
    made = graph("Let x be a 3 by 5 tensor of Real.\nLet n be a 3 by 5 tensor of Int.\nLet y be x plus n.")
    due = [[(5 * row + column) % 7 - 3 for column in range(5)] for row in range(3)]
    assert fill(made, leaf(made, "n"), "ramp").tolist() == due
    assert fill(made, leaf(made, "x"), "ramp").tolist() == [[value / 2 for value in row] for row in due]


def test_zero_keeps_the_type() -> None:
    made = graph("Let x be a 1 by 2 tensor of Real.\nLet n be a 1 by 2 tensor of Int.\nLet y be x plus n.")
    for name, dtype in (("x", np.float64), ("n", np.int64)):
        zero = fill(made, leaf(made, name), "zero")
        assert (zero.dtype, zero.tolist()) == (dtype, [[0, 0]])


ROWS = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let at be a 1 by 1 tensor of Int.
Let n be a 1 by 1 tensor of Int.
Let T be a 9 by 2 tensor of Real.
Let x be row tok of T.
Set row at of T to x.
Let y be attention of x over T and T with 1 heads 1 groups up to pos.
Let z be y plus n.
"""


@pytest.mark.parametrize("kind", ["zero", "ramp", "noise"])
def test_an_input_used_as_a_row_is_zero_and_pos_the_steps_number(kind: FillKind) -> None:
    made = graph(ROWS)
    for name, row in (("tok", 0), ("at", 0), ("pos", 4)):
        assert fill(made, leaf(made, name), kind, step=4).tolist() == [[row]]
    due = {"zero": 0, "ramp": -3, "noise": mixed(fnv1a("n"), 1)[0] % 7 - 3}[kind]
    assert fill(made, leaf(made, "n"), kind, step=4).tolist() == [[due]]


def test_noise_depends_on_the_name_and_the_place_alone() -> None:
    one = graph("Let x be a 4 by 3 tensor of Real.\nLet y be silu of x.")
    two = graph("Let w be a 1 by 3 tensor of Real.\nLet x be a 4 by 6 tensor of Real.\nLet y be silu of x.")
    small, large = fill(one, leaf(one, "x"), "noise"), fill(two, leaf(two, "x"), "noise")
    assert small.ravel().tolist() == large.ravel()[:12].tolist()
    assert math.isclose(small[0, 0] * 2, uniform("x", 1)[0])
