"""Programs of random sentences: refused in words, or run with the shapes and types that the checks promised."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from logos import OPS, Graph, Leaf, Machine, Refused, Source, print_program
from logos.check import read_program
from logos.grammar import make_grammar
from logos.op import Hole, Word
from logos.reference import Array, initial
from logos.weights.fill import fill

GRAMMAR = make_grammar(OPS)
SHAPES = ("1 by 1 tensor of Int", "1 by 4 tensor of Real", "4 by 4 tensor of Real", "4 by 4 tensor of Int",
          "1 by 2 tensor of Real", "1 by 12 tensor of Real", "3 by 4 tensor of Real")  # fmt: skip
VALUES = ("1", "-3", "0.5", "1e308", "-0", "9223372036854775807", "-9223372036854775808", "1e-320")


def random_program(random: Random) -> str:
    names = [f"v{i}" for i in range(random.randint(2, 7))]
    lines = [f"Let {name} be a {random.choice(SHAPES)}." for name in names]
    for _ in range(random.randrange(3)):
        lines.append(f"Set item {random.randint(1, 4)} of {random.choice(names)} to {random.choice(VALUES)}.")
    for step in range(random.randint(1, 3)):
        op = random.choice(OPS)
        out = random.choice([f"o{step}", f"o{step}", random.choice(names)])
        words = [random_word(word, names, out, random) for word in random.choice(op.pattern.variants)]
        lines.append(" ".join(words) + ".")
        names += [] if op.statement else [out]
        lines += [f"Show {random.choice(names)}."] if random.random() < 0.2 else []
    return "\n".join(lines)


def random_word(word: Word, names: list[str], out: str, random: Random) -> str:
    choices = {
        None: [word.text],
        Hole.NEW: [out],
        Hole.TENSOR: names,
        Hole.INDEX: [*names, "0", "3"],
        Hole.COUNT: ["1", "1", "2", "3", "4"],
        Hole.VALUE: ["0", "1e-6", "-1", "1e300"],
    }
    return random.choice(choices[word.hole])


def start(graph: Graph, leaf: Leaf) -> Array:
    return initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")


def two_steps(graph: Graph) -> object:
    """Every value of the second step as text, or the code it is refused with."""
    machine = Machine(graph, {leaf.name: start(graph, leaf) for leaf in graph.leaves if not leaf.state})
    try:
        machine.step()
        now = machine.step()
    except Refused as refused:
        return [refusal.code for refusal in refused.refusals]
    for value, array in now.items():
        assert array.shape == value.shape
        assert array.dtype == (np.float64 if value.real else np.int64)
    return [repr(array.tolist()) for array in now.values()]


@given(st.integers(0, 2**32))
def test_what_the_checks_accept_runs_and_prints_back(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        try:
            graph = read_program(Source("p.lg", random_program(random)), GRAMMAR)
        except Refused:
            continue
        printed = read_program(Source("p.lg", print_program(graph)), GRAMMAR)
        assert printed == graph
        assert two_steps(printed) == two_steps(graph)
