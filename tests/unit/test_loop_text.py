"""Text and loops: what is printed reads back the same, and no text does anything but be read or refused."""

from __future__ import annotations

from random import Random

import pytest

from logos import Refused, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.loops.records import (
    COMPARISONS,
    FUNCTIONS,
    Binary,
    Call,
    Expression,
    If,
    Item,
    LetScalar,
    LetTensor,
    Name,
    Negative,
    Number,
    Repeat,
    SetItem,
    SetScalar,
    Statement,
    lines,
)
from logos.loops.text import read_loops
from logos.ops import OPS
from logos.reference import Machine, initial

GRAMMAR = make_grammar(OPS)
NAMES = ("of", "to", "a", "by", "from", "Let", "Set", "If", "Repeat", "be", "exp", "sqrt", "pow", "x", "s_1")
NUMBERS = (0, 1, 7, 2**70, 0.0, 1.5, 1e-300, 1e300, 3e22)


def expression(random: Random, depth: int) -> Expression:
    kind = random.randrange(7) if depth else random.randrange(2)
    if kind == 0:
        return Number(random.choice(NUMBERS))
    if kind == 1:
        return Name(random.choice(NAMES))
    if kind == 2:
        indexes = tuple(expression(random, depth - 1) for _ in range(random.randint(1, 2)))
        return Item(random.choice((*NAMES, "item")), indexes)
    if kind == 3:
        inner = expression(random, depth - 1)
        return Number(-inner.value) if isinstance(inner, Number) else Negative(inner)
    if kind == 4:
        function = random.choice(tuple(FUNCTIONS))
        return Call(function, tuple(expression(random, depth - 1) for _ in range(FUNCTIONS[function])))
    return Binary(random.choice("+-*/"), expression(random, depth - 1), expression(random, depth - 1))


def statement(random: Random, depth: int) -> Statement:
    kind, name = random.randrange(6 if depth else 4), random.choice(NAMES)
    if kind == 0:
        return LetScalar(name, expression(random, 3))
    if kind == 1:
        return LetTensor(name, Number(random.randint(1, 9)), Name("x"), random.random() < 0.5)
    if kind == 2:
        return SetScalar(name, expression(random, 2))
    if kind == 3:
        indexes = tuple(expression(random, 1) for _ in range(random.randint(1, 2)))
        return SetItem(Item(name, indexes), expression(random, 2))
    body = tuple(statement(random, depth - 1) for _ in range(random.randint(1, 3)))
    if kind == 4:
        return Repeat(name, expression(random, 1), expression(random, 1), body)
    return If(random.choice(COMPARISONS), expression(random, 2), expression(random, 2), body)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_printed_reads_back_the_same(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        made = tuple(statement(random, 2) for _ in range(2))
        assert read_loops("\n".join(lines(made))) == made


def test_long_and_deep_text_is_refused_and_goes_no_deeper() -> None:
    line = "Let s be " + "(" * 5000 + "1" + ")" * 5000 + "."
    nested = "\n".join(" " * depth + "Repeat for i from 1 to 2:" for depth in range(500))
    for text in (line, "Let s be " + "-" * 5000 + "1.", "Let s be 1" + " + 1" * 5000 + ".", nested):
        with pytest.raises(Refused) as refused:
            read_loops(text)
        assert {one.code for one in refused.value.refusals} == {"loop-misread"}


_KINDS = (("x", "Real"), ("y", "Real"), ("n", "Int"))
DECLARED = "".join(f"Let {name} be a 2 by 3 tensor of {kind}.\n" for name, kind in _KINDS)
WORDS = (
    *("Let", "Set", "If", "Repeat", "for", "from", "to", "be", "item", "of", "a", "by", "tensor", "Real", "exp"),
    *("x", "y", "n", "i", "s", "1", "2", "0.5", "1e400", "é", "\x00", "9" * 50),
    *("(", ")", ",", "+", "-", "*", "/", "<", "=", ".", ":"),
)


def any_program(random: Random) -> str:
    """A loop of random lines, half of them nearly right."""
    found = ["Repeat for i from 1 to 2:"]
    for _ in range(random.randint(1, 4)):
        indent = " " * random.choice((2, 2, 2, 2, 2, 2, 4, 1))
        right = random.choice((
            "Let s be item i of x.", "Set item i, 1 of y to 2 * item i of n.", "Repeat for j from 1 to 3:", "If i > 1:",
            "Set item j of y to s / 0.", "Set s to s * 1e200 * s.", "Set item i of n to pow(i, 70) - 3.",
            "Set item i of n to 9223372036854775807 * i * s.", "Let t be a 1 by 2 tensor of Int.",
        ))  # fmt: skip
        words = right.split(" ") if random.random() < 0.9 else random.choices(WORDS, k=random.randint(1, 9))
        if random.random() < 0.2:
            words[random.randrange(len(words))] = random.choice(WORDS)
        found.append(indent + " ".join(words))
    return DECLARED + "\n".join(found) + "\nLet z be y plus x.\n"


@pytest.mark.parametrize("seed", range(4))
def test_any_text_is_read_and_runs_or_is_refused(seed: int) -> None:
    random = Random(seed)
    ends = [end(any_program(random)) for _ in range(150)]
    assert None in ends
    assert all(one.what.isprintable() and one.next for refused in ends if refused for one in refused.refusals)


def end(text: str) -> Refused | None:
    """What a program is refused with, if anything."""
    try:
        graph = read_program(Source("p.lg", text), GRAMMAR)
        Machine(graph, {leaf.name: initial(leaf.value, leaf.fills) for leaf in graph.leaves}).step()
    except Refused as refused:
        return refused
    return None
