"""Recognition: a loop is an op's whatever its names and free order are, and no op's when anything else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
from loop_cases import arguments, graphs, the_loop

from logos import OPS, Op
from logos.loops.recognize import recognize_loop
from logos.loops.records import (
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
    expressions,
    walk,
)
from logos.loops.uses import outputs

Rewrite = Callable[[Expression], Expression]


def rebuilt(statement: Statement, rewrite: Rewrite) -> Statement:
    """The statement, each of its line's expressions rewritten; bodies stay."""
    if isinstance(statement, (LetScalar, SetScalar)):
        return replace(statement, value=rewrite(statement.value))
    if isinstance(statement, LetTensor):
        return statement
    if isinstance(statement, SetItem):
        item = Item(statement.item.tensor, tuple(map(rewrite, statement.item.indexes)))
        return SetItem(item, rewrite(statement.value))
    if isinstance(statement, Repeat):
        return replace(statement, first=rewrite(statement.first), last=rewrite(statement.last))
    return replace(statement, left=rewrite(statement.left), right=rewrite(statement.right))


def everywhere(expression: Expression, rewrite: Rewrite) -> Expression:
    """An expression, each of its parts rewritten, the inner ones first."""
    def inner(one: Expression) -> Expression:
        return everywhere(one, rewrite)

    if isinstance(expression, Item):
        expression = Item(expression.tensor, tuple(map(inner, expression.indexes)))
    elif isinstance(expression, Binary):
        expression = Binary(expression.sign, inner(expression.left), inner(expression.right))
    elif isinstance(expression, Negative):
        expression = Negative(inner(expression.inner))
    elif isinstance(expression, Call):
        expression = Call(expression.function, tuple(map(inner, expression.arguments)))
    return rewrite(expression)


def in_all(statements: tuple[Statement, ...], change: Callable[[Statement], Statement]) -> tuple[Statement, ...]:
    found = []
    for statement in map(change, statements):
        if isinstance(statement, (Repeat, If)):
            statement = replace(statement, body=in_all(statement.body, change))
        found.append(statement)
    return tuple(found)


# The same loop in other words.


def in_other_words(loop: Repeat, random: Random) -> Repeat:
    """The loop with other scalars' names, commuted sums and products, turned comparisons, and a first body whose
    scalars are introduced in another order where they can be."""
    names = {one.name: f"v{random.randrange(10**6)}_{number}" for number, one in enumerate(walk((loop,)))
             if isinstance(one, (LetScalar, LetTensor, Repeat))}  # fmt: skip

    def commuted(one: Expression) -> Expression:
        if isinstance(one, Name):
            return Name(names[one.name])
        if isinstance(one, Item):
            return Item(names.get(one.tensor, one.tensor), one.indexes)
        if isinstance(one, Binary) and one.sign in "+*" and random.random() < 0.5:
            return Binary(one.sign, one.right, one.left)
        return one

    def change(statement: Statement) -> Statement:
        made = rebuilt(statement, lambda one: everywhere(one, commuted))
        if isinstance(made, SetItem):
            tensor = names.get(made.item.tensor, made.item.tensor)
            return replace(made, item=replace(made.item, tensor=tensor))
        if isinstance(made, If):
            flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(made.sign, made.sign)
            return If(flipped, made.right, made.left, reordered(made.body))
        made = replace(made, name=names[made.name])
        return replace(made, body=reordered(made.body)) if isinstance(made, Repeat) else made

    def reordered(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Two neighbours that only introduce scalars, neither from the other, change places."""
        found = list(body)
        for place in range(len(found) - 1):
            one, two = found[place : place + 2]
            both = isinstance(one, LetScalar) and isinstance(two, LetScalar)
            if both and not depends(one, two) and random.random() < 0.7:
                found[place : place + 2] = [two, one]
        return tuple(found)

    (made,) = in_all((loop,), change)
    assert isinstance(made, Repeat)
    return made


_EITHER_SIDE = ("plus", "hadamard", "rmsnorm", "decay")
"""Ops that add or multiply two operands: which one is called which is the loop's to choose."""


def check_same(op: Op, random: Random, number: int) -> int:
    seen = 0
    for graph in graphs(op, random, range(1, 6), number):
        loop, tensors, out = the_loop(graph.nodes[0])
        found = recognize_loop(in_other_words(loop, random), tensors, out, OPS)
        assert found is not None
        assert found[0] is op
        expected = arguments(graph.nodes[0])
        if op.name in _EITHER_SIDE:
            assert sorted(map(str, found[1].values())) == sorted(map(str, expected.values()))
        else:
            assert found[1] == expected
        seen += 1
    return seen


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_other_names_free_order_and_commuted_sides_are_the_same_op(op: Op) -> None:
    assert check_same(op, Random(3), 2) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_many_other_words_are_the_same_op(op: Op) -> None:
    assert check_same(op, Random(4), 60) >= 60


# Another loop in almost the same words.


def mutants(loop: Repeat) -> Iterator[tuple[str, Repeat]]:
    """Every loop that differs in one place: a bound, an index, a sign, a scale left out, a comparison, a function, two
    neighbours in the other order that act on each other, a line left out or done twice."""
    statements = list(walk((loop,)))
    for number, statement in enumerate(statements):
        for place in range(len(expressions(statement))):
            for what, made in changed(statement, place):
                yield what, put(loop, number, made)
        if isinstance(statement, If):
            for sign in {">": "<>", "<": "><", ">=": "<", "<=": ">", "=": ">"}[statement.sign]:
                if sign != statement.sign:
                    yield "comparison", put(loop, number, replace(statement, sign=sign))
        if isinstance(statement, (Repeat, If)):
            body = statement.body
            for place in range(len(body)):
                if len(body) > 1:
                    yield "left out", put(loop, number, replace(statement, body=body[:place] + body[place + 1 :]))
                if not isinstance(body[place], (LetScalar, LetTensor)):
                    yield "twice", put(loop, number, replace(statement, body=(*body[: place + 1], *body[place:])))
            for place in range(len(body) - 1):
                if depends(body[place], body[place + 1]):
                    swapped = (*body[:place], body[place + 1], body[place], *body[place + 2 :])
                    yield "order", put(loop, number, replace(statement, body=swapped))


def depends(one: Statement, two: Statement) -> bool:
    """Whether the second uses by name what the first sets."""
    made = one.item.tensor if isinstance(one, SetItem) else getattr(one, "name", None)
    texts = [str(expression) for inner in walk((two,)) for expression in expressions(inner)]
    return made is not None and not isinstance(one, Repeat) and any(f"'{made}'" in text for text in texts)


def put(loop: Repeat, number: int, made: Statement) -> Repeat:
    """The loop with another statement at a place, counted line by line."""
    left = number

    def body(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal left
        found = []
        for statement in statements:
            here, left = left == 0, left - 1
            if here:
                found.append(made)
                left -= sum(1 for _ in walk((statement,))) - 1
            elif isinstance(statement, (Repeat, If)):
                found.append(replace(statement, body=body(statement.body)))
            else:
                found.append(statement)
        return tuple(found)

    (whole,) = body((loop,))
    assert isinstance(whole, Repeat)
    return whole


def changed(statement: Statement, place: int) -> Iterator[tuple[str, Statement]]:
    """The statement with one place of one of its expressions changed, for each place and change."""
    count = 0

    def visit(target: int, change: Rewrite) -> Statement:
        nonlocal count
        number, seen = -1, -1

        def at(one: Expression) -> Expression:
            nonlocal seen
            seen += 1
            return change(one) if seen == target else one

        def rewrite(whole: Expression) -> Expression:
            nonlocal number
            number += 1
            return everywhere(whole, at) if number == place else whole

        made = rebuilt(statement, rewrite)
        count = seen + 1
        return made

    if isinstance(statement, LetTensor):
        return
    visit(-1, lambda one: one)
    for target in range(count):
        for what, change in _CHANGES:
            made = visit(target, change)
            if made != statement:
                yield what, made


def _more(one: Expression) -> Expression:
    return Binary("+", one, Number(1)) if isinstance(one, (Name, Number, Item)) else one


def _sign(one: Expression) -> Expression:
    signs = {"+": "-", "-": "+", "*": "/", "/": "*"}
    return Binary(signs[one.sign], one.left, one.right) if isinstance(one, Binary) else one


def _unscaled(one: Expression) -> Expression:
    """Without its factor; one of 1 is none."""
    return one.left if isinstance(one, Binary) and one.sign in "*/" and one.right != Number(1) else one


def _negated(one: Expression) -> Expression:
    return Negative(one) if isinstance(one, (Name, Item)) else one


def _swapped(one: Expression) -> Expression:
    return Item(one.tensor, one.indexes[::-1]) if isinstance(one, Item) else one


def _function(one: Expression) -> Expression:
    if isinstance(one, Call) and len(one.arguments) == 1:
        return Call("sqrt" if one.function == "exp" else "exp", one.arguments)
    return one


_CHANGES = (
    ("one more", _more),
    ("sign", _sign),
    ("missing scale", _unscaled),
    ("negated", _negated),
    ("index", _swapped),
    ("function", _function),
)


def check_mutants(op: Op, random: Random, most: int) -> int:
    """How many mutants of an op were held against it. No size is 1 and no two are the same where they can differ, so
    that a mutant says something else."""
    count = 0
    for graph in graphs(op, random, range(2, 6)):
        node = graph.nodes[0]
        loop, tensors, _ = the_loop(node)
        found = [one for one in mutants(loop) if one[1] != loop]
        for what, mutant in random.sample(found, min(most, len(found))):
            shapes = {name: (tensor.rows, tensor.columns) for name, tensor in tensors.items()}
            made = outputs(mutant, shapes)
            recognized = recognize_loop(mutant, tensors, made[0] if made else None, OPS)
            same = recognized is not None and recognized[0] is op and recognized[1] == arguments(node)
            assert not same, (what, mutant)
            count += 1
    return count


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_changed_loop_is_not_the_op(op: Op) -> None:
    assert check_mutants(op, Random(5), 12) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_changed_loop_is_not_the_op(op: Op) -> None:
    """Every mutant of every form: thousands in all."""
    assert check_mutants(op, Random(6), 10**6) >= 30
