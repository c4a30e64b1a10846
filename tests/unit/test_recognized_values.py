"""Whatever loop is read as an op computes what the op computes: loops changed at random, and the ways of hands."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loop_cases import GRAMMAR, graphs, the_loop
from test_recognition import everywhere, in_all, in_other_words, mutants, rebuilt

from logos import OPS, Graph, Machine, Op, Refused, Source
from logos.check import read_program
from logos.desugar import desugar
from logos.loops.check import Tensor
from logos.loops.records import Expression, Item, Repeat, SetItem, Statement, lines
from logos.weights.fill import fill


def program(loop: Repeat, tensors: dict[str, Tensor]) -> str:
    declared = (f"Let {name} be a {one.rows} by {one.columns} tensor of {'Real' if one.real else 'Int'}."
                for name, one in tensors.items())  # fmt: skip
    return "\n".join((*declared, "Let unused be a 1 by 1 tensor of Int.", "Let last be transpose of unused.",
                      *lines((loop,)), ""))  # fmt: skip


def in_place_of(loop: Repeat, old: str, new: str) -> Repeat:
    """The loop with one tensor for another everywhere."""

    def named(one: Expression) -> Expression:
        return Item(new, one.indexes) if isinstance(one, Item) and one.tensor == old else one

    def change(statement: Statement) -> Statement:
        made = rebuilt(statement, lambda one: everywhere(one, named))
        if isinstance(made, SetItem) and made.item.tensor == old:
            return SetItem(Item(new, made.item.indexes), made.value)
        return made

    (made,) = in_all((loop,), change)
    assert isinstance(made, Repeat)
    return made


def held(text: str, random: Random) -> bool:
    """Whether a program's loop is read as an op; then it gives the loop's values."""
    try:
        graph = read_program(Source("p.lg", text), GRAMMAR)
    except Refused:
        return False
    if graph.nodes[-1].op.name == "loop":
        return False
    loops = read_program(Source("p.lg", text), GRAMMAR, recognize=False)
    given = {}
    for leaf in graph.leaves:
        given[leaf.name] = fill(graph, leaf, "noise")
        if not leaf.value.real and leaf.value.size == 1:
            given[leaf.name][:] = random.randrange(2)
    assert same(graph, loops, given), text
    return True


def same(graph: Graph, loops: Graph, given: dict[str, np.ndarray]) -> bool:
    machines = Machine(graph, given), Machine(loops, given)
    for _ in range(2):
        ends = []
        for machine in machines:
            try:
                made = machine.step()
            except Refused:
                ends.append(None)
            else:
                ends.append([made[machine.graph.output], *(machine.states[name] for name in sorted(machine.states))])
        if None in ends:
            return ends == [None, None]
        if not all(np.allclose(one, other, rtol=1e-9, atol=1e-12) for one, other in zip(*ends, strict=True)):
            return False
    return True


def check_changed(op: Op, seed: int, most: int) -> int:
    """How many loops near an op's, the same in other words among them, were read as some op."""
    random, count = Random(seed), 0
    for graph in graphs(op, random, range(1, 4)):
        loop, tensors, _ = the_loop(graph.nodes[0])
        pairs = [(old, new) for old in tensors for new in tensors if old != new]
        made = [in_place_of(loop, *pair) for pair in pairs] + [mutant for _, mutant in mutants(loop)]
        for changed in (in_other_words(loop, random), *random.sample(made, min(most, len(made)))):
            count += held(program(changed, tensors), random)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_what_is_read_as_an_op_computes_what_the_op_computes(op: Op) -> None:
    assert check_changed(op, 7, 150) > 0


def test_loops_near_a_product_that_are_read_as_ops_compute_what_these_compute() -> None:
    ops = [op for op in OPS if op.name in ("matmul", "plus", "set row")]
    assert sum(check_changed(op, 8, 8) for op in ops) > 0


MOE = """\
Let x be a 4 by 3 tensor of Real.
Let r be a 2 by 3 tensor of Real.
Let y be a 4 by 3 tensor of Real.
Let g be a 4 by 3 tensor of Real.
Let u be a 4 by 3 tensor of Real.
Let d be a 6 by 2 tensor of Real.
"""


def test_a_loop_that_reads_what_it_makes_is_no_op() -> None:
    """The gate of these experts is what the loop makes; a sentence would read what y was above."""
    whole = MOE.replace("Let y be a 4 by 3 tensor of Real.\n", "")
    whole += "Let y be moe of x with router r gate g up u down d top 1 of 2 experts.\n"
    loops = desugar(read_program(Source("p.lg", whole), GRAMMAR))
    head, body = loops[: loops.index("Repeat")], loops[loops.index("Repeat") :]
    for hole in "gu":
        text = f"{head}Let y be x plus x.\n{body.replace(f'of {hole}.', 'of y.')}"
        assert text.count("of y") > loops.count("of y")
        graph = read_program(Source("p.lg", text), GRAMMAR)
        assert [node.op.name for node in graph.nodes] == ["plus", "loop"]
        given = {leaf.name: fill(graph, leaf, "noise") for leaf in graph.leaves}
        assert same(graph, read_program(Source("p.lg", text), GRAMMAR, recognize=False), given)


TENSORS = "Let a be a 2 by 3 tensor of Real.\nLet b be a 3 by 2 tensor of Real.\nLet y be a {} tensor of {}.\n"
LARGEST = """\
Repeat for i from 1 to 2:
  Let m be item i, 1 of a.
  Repeat for j from 1 to 3:
    If m < item i, j of a:
      Set m to item i, j of a.
"""
SHARES = (
    """\
  Let sum be 0.
  Repeat for j from 1 to 3:
    Set sum to exp(item i, j of a - m) + sum.
  Repeat for j from 1 to 3:
    Set item i, j of y to exp(item i, j of a - m) / sum.
""",
    """\
  Repeat for j from 1 to 3:
    Set item i, j of y to exp(item i, j of a - m).
  Let sum be 0.
  Repeat for j from 1 to 3:
    Set sum to sum + item i, j of y.
  Repeat for j from 1 to 3:
    Set item i, j of y to item i, j of y / sum.
""",
    """\
  Let sum be 0.
  Repeat for j from 1 to 3:
    Set item i, j of y to exp(item i, j of a - m).
    Set sum to sum + item i, j of y.
  Repeat for j from 1 to 3:
    Set item i, j of y to item i, j of y / sum.
""",
)
IN_PLACE = """\
Repeat for i from 1 to 2:
  Repeat for j from 1 to 2:
    Set item i, j of y to 0.
    Repeat for k from 1 to 3:
      Set item i, j of y to item i, j of y + item i, k of a * item k, j of b.
"""
ARGMAX = """\
Repeat for once from 1 to 1:
  Let m be item 1, 1 of a.
  Let at be 0.
  Repeat for i from 1 to 2:
    Repeat for j from 1 to 3:
      If item i, j of a > m:
        Set m to item i, j of a.
        Set at to (i - 1) * 3 + j - 1.
  Set item 1 of y to at.
"""
HANDS = {f"softmax {number}": ("softmax", "2 by 3", "Real", LARGEST + shares) for number, shares in enumerate(SHARES)}
HANDS["matmul"] = "matmul", "2 by 2", "Real", IN_PLACE
HANDS["argmax"] = "argmax", "1 by 1", "Int", ARGMAX


@pytest.mark.parametrize("seed", range(3))
def test_a_rope_whose_lines_stand_in_another_order_is_a_rope(seed: int) -> None:
    random = Random(seed)
    (rope,) = (op for op in OPS if op.name == "rope")
    for graph in graphs(rope, random, range(1, 5)):
        loop, tensors, _ = the_loop(graph.nodes[0])
        pairs, *rest = loop.body
        assert isinstance(pairs, Repeat)
        a, b, first, second = pairs.body
        other = replace(pairs, body=(b, a, second, first))
        for body in ((other, *rest), (*rest, other), (*rest, pairs)):
            text = program(replace(loop, body=body), tensors)
            assert read_program(Source("p.lg", text), GRAMMAR).nodes[-1].op is rope
            assert held(text, random)
        twice = program(replace(loop, body=(*rest, replace(pairs, body=(a, b, second, second)))), tensors)
        assert read_program(Source("p.lg", twice), GRAMMAR).nodes[-1].op.name == "loop"


ATTENTION = """\
Let q be a 1 by 4 tensor of Real.
Let k be a 3 by 2 tensor of Real.
Let v be a 3 by 2 tensor of Real.
Let pos be a 1 by 1 tensor of Int.
Let y be attention of q over k and v with 2 heads 1 groups up to pos.
"""


def test_rows_outside_a_table_are_errors_of_loops_as_they_are_of_ops() -> None:
    """From the first score a position of -1 would come to zeros; the loops of the op look at the last one first."""
    graph = read_program(Source("p.lg", ATTENTION), GRAMMAR)
    printed = desugar(graph)
    first = printed.replace("be item 1, item 1, 1 of pos + 1 of scores", "be item 1, 1 of scores")
    assert first != printed
    for text in (printed, first):
        assert [node.op.name for node in read_program(Source("p.lg", text), GRAMMAR).nodes] == ["attention"]
    loops = read_program(Source("p.lg", printed), GRAMMAR, recognize=False)
    given = {leaf.name: fill(graph, leaf, "noise") for leaf in graph.leaves}
    for position in (-1, 0, 2, 3):
        given["pos"] = np.full((1, 1), position)
        assert same(graph, loops, given)
    given["pos"] = np.full((1, 1), -1)
    with pytest.raises(Refused, match="column 0 of scores"):
        Machine(loops, given).step()


@pytest.mark.parametrize("way", HANDS)
def test_the_ways_that_hands_write_an_op_are_the_op(way: str) -> None:
    name, shape, kind, loop = HANDS[way]
    text = TENSORS.format(shape, kind) + loop
    graph = read_program(Source("p.lg", text), GRAMMAR)
    assert [node.op.name for node in graph.nodes] == [name]
    assert held(text, Random(1))
    for old, new in (("+ sum", "- sum"), ("sum +", "sum -"), ("a - m", "m - a"), ("> m", ">= m"),
                     ("< item", "<= item"), ("k of a", "k of y"), ("to 0.", "to 1."), ("Let sum be 0", "Let sum be 1"),
                     ("- 1) * 3", "- 1) * 2"), ("j - 1", "j"), ("from 1 to 3", "from 2 to 3")):  # fmt: skip
        changed = TENSORS.format(shape, kind) + loop.replace(old, new)
        if old in loop and kind in changed:
            try:
                made = read_program(Source("p.lg", changed), GRAMMAR)
            except Refused:
                continue
            assert made.nodes[-1].op.name == "loop" or held(changed, Random(2)), changed
