"""Text and loops: what is printed reads back the same, and no text does anything but be read or refused."""

from __future__ import annotations

import time
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


def refused(loop: str) -> list[tuple[str, str]]:
    with pytest.raises(Refused) as found:
        read_program(Source("p.lg", f"Let y be a 1 by 4 tensor of Real.\n{loop}"), GRAMMAR)
    return [(one.code, one.next) for one in found.value.refusals]


def test_a_line_without_its_mark_is_told_which_one() -> None:
    assert refused("Repeat for i from 1 to 4\n  If i > 1\n    Set item i of y to 1\n") == [
        ("loop-misread", "end it with a colon"),
        ("loop-misread", "end it with a colon"),
        ("loop-misread", "end it with a period"),
    ]


def test_a_loop_that_is_refused_is_not_said_to_make_no_output() -> None:
    loop = "Repeat for i from 1 to 4:\n  Let k be 1.\n  Set k to k + 0.5.\n  Set item k of y to 1.\n"
    assert [code for code, _ in refused(loop)] == ["loop-type"]
    assert [code for code, _ in refused(loop.replace("item k of", "item i of").replace("4:", "3:"))] == ["no-output"]


def test_a_scalar_with_a_tensors_name_is_told_to_take_another() -> None:
    found = refused("Repeat for y from 1 to 4:\n  Set item y of y to 1.\nLet z be silu of y.\n")
    assert ("loop-name", "write y alone; where a tensor y is meant, give the scalar another name") in found


def run(loop: str) -> list[float]:
    graph = read_program(Source("p.lg", f"Let y be a 1 by 4 tensor of Real.\n{loop}"), GRAMMAR)
    found: list[float] = Machine(graph, {}).step()[graph.output].reshape(-1).tolist()
    return found


def test_ints_beyond_floats_have_their_exponential() -> None:
    loop = "Repeat for i from 1 to 4:\n  Let s be 3.\n  Repeat for j from 1 to 12:\n    Set s to s * s.\n"
    assert run(f"{loop}  Set item i of y to exp(-s) + i.\n") == [1.0, 2.0, 3.0, 4.0]
    assert run(f"{loop}  Set item i of y to exp(s).\n") == [float("inf")] * 4


def test_the_range_of_a_product_of_products_has_few_digits() -> None:
    """Without an end to what is kept of a range, 2^40 digits would be."""
    squares = "".join(f"  Let a{number + 1} be a{number} * a{number}.\n" for number in range(40))
    loop = f"Repeat for i from 1 to 4:\n  Let a0 be i.\n{squares}  Set item a40 of y to 1.\n  Set item i of y to 2.\n"
    start = time.process_time()
    read_program(Source("p.lg", f"Let y be a 1 by 4 tensor of Real.\n{loop}Let z be silu of y.\n"), GRAMMAR)
    assert time.process_time() - start < 2.0
    far = "Let s be i.\n  Set s to s + i.\n  Set item s - 9223372036854775806 + i of y to 1.\n"
    far = f"Repeat for i from 1 to 4:\n  {far}"
    read_program(Source("p.lg", f"Let y be a 1 by 4 tensor of Real.\n{far}Let z be silu of y.\n"), GRAMMAR)


def test_types_that_follow_from_the_last_line_are_found_in_time_that_grows_with_the_lines() -> None:
    """Each scalar is Real because the next one is; the first one's type is known when the last one's is."""

    def chain(count: int) -> str:
        lets = "".join(f"  Let v{number} be 0.\n" for number in range(count))
        sets = "".join(f"  Set v{number} to -(v{number + 1} + 1).\n" for number in range(count - 1))
        return f"Repeat for i from 1 to 4:\n{lets}{sets}  Set v{count - 1} to 0.5.\n  Set item 1 of n to v0.\n"

    declared = "Let n be a 1 by 2 tensor of Int.\nLet z be transpose of n.\n"
    seconds = []
    for count in (250, 1000):
        start = time.process_time()
        with pytest.raises(Refused) as found:
            read_program(Source("p.lg", declared + chain(count)), GRAMMAR)
        seconds.append(time.process_time() - start)
        assert [one.code for one in found.value.refusals] == ["loop-type"]
    assert seconds[1] <= 16.0 * seconds[0]
    assert seconds[1] <= 4.0


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
