"""Loops by hand: which op they are, and which is nearest where they are none."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from loop_cases import GRAMMAR, graphs, the_loop

from logos import OPS, Graph, Refused, Request, Source, make_job, make_manager, recognize
from logos.check import read_program
from logos.loops.check import Tensor, check_loop
from logos.loops.recognize import nearest_op
from logos.loops.records import expressions, items, walk

BY_HAND = """
Let A be a 2 by 3 tensor of Real.
Let B be a 3 by 2 tensor of Real.
Let C be a 2 by 2 tensor of Real.
Let soft be a 2 by 2 tensor of Real.
Repeat for i from 1 to 2:
  Repeat for j from 1 to 2:
    Let s be 0.0.
    # the products
    Repeat for k from 1 to 3:
      Set s to item k, j of B * item i, k of A + s.

    Set item i, j of C to s.
Repeat for i from 1 to 2:
  Let total be 0.
  Let m be item i, 1 of C.
  Repeat for j from 1 to 2:
    If m < item i, j of C:
      Set m to item i, j of C.
  Repeat for j from 1 to 2:
    Set item i, j of soft to exp(item i, j of C - m).
    Set total to total + item i, j of soft.
  Repeat for j from 1 to 2:
    Set item i, j of soft to item i, j of soft / total.
"""

NOVEL = """Let C be a 2 by 3 tensor of Real.
Let sums be a 2 by 3 tensor of Real.
Repeat for i from 1 to 2:
  Let s be 0.
  Repeat for j from 1 to 3:
    Set s to s + item i, j of C.
    Set item i, j of sums to s.
"""


def read(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def test_a_product_and_a_softmax_by_hand_build_for_both_targets_as_these_ops() -> None:
    graph = read(BY_HAND)
    made = [(node.op.name, node.out and node.out.name) for node in graph.nodes]
    assert made == [("matmul", "C"), ("softmax", "soft")]
    manager = make_manager()
    for name in ("cuda", "rdu-sambaflow"):
        target, job = make_job(manager, Request(Path("p.lg"), source=Source("p.lg", BY_HAND)), name)
        assert target.emit(job)


def test_a_loop_that_no_op_computes_is_refused_by_targets_with_the_nearest_op() -> None:
    with pytest.raises(Refused) as refused:
        make_job(make_manager(), Request(Path("p.lg"), source=Source("p.lg", NOVEL)), "cuda")
    assert str(refused.value) == (
        "p.lg:3:1: target cuda does not take a loop that no op computes: the nearest op is layernorm, and line 7 is "
        "the first that differs [novel-loop]\n"
        "    Repeat for i from 1 to 2:\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: `logos explain layernorm` shows the loops of layernorm; or write what the loop computes as sentences; "
        "the reference machine runs it as it is"
    )


def test_lines_that_agree_with_shapes_that_do_not_and_ties_name_the_op_that_is_meant() -> None:
    part = BY_HAND.replace("from 1 to 3", "from 1 to 2").split("Repeat for i from 1 to 2:\n  Let total")[0]
    with pytest.raises(Refused, match="the nearest op is matmul, and its lines agree, but not the shapes or types"):
        make_job(make_manager(), Request(Path("p.lg"), source=Source("p.lg", part)), "cuda")
    scaled = (
        "Let a be a 2 by 4 tensor of Real.\nLet w be a 2 by 4 tensor of Real.\nLet y be a 2 by 4 tensor of Real.\n"
        "Repeat for i from 1 to 2:\n  Repeat for j from 1 to 4:\n"
        "    Set item i, j of y to item i, j of a * 2 + item i, j of w.\n"
    )
    with pytest.raises(Refused, match="the nearest op is plus, and line 6 is the first that differs"):
        make_job(make_manager(), Request(Path("p.lg"), source=Source("p.lg", scaled)), "cuda")


def test_the_search_ends_however_many_statements_are_alike() -> None:
    """Twenty statements that may stand in any order have more orders than can be tried; only the last line differs."""
    (silu,) = (op for op in OPS if op.name == "silu")
    alike = "".join(f"    Let v{number} be 0.\n" for number in range(20))

    def text(last: str) -> str:
        return (
            f"Repeat for row from 1 to r:\n  Repeat for column from 1 to c:\n{alike}"
            f"    Set item row, column of OUT to item row, column of X + {last}.\n"
        )

    op = replace(silu, name="many", pattern_text="many of X", loops=lambda form: text("v0"))
    declared = "Let X be a 2 by 3 tensor of Real.\nLet OUT be a 2 by 3 tensor of Real.\n"
    started = time.process_time()
    other = text("2").replace("to r", "to 2").replace("to c", "to 3")
    assert recognize(declared + other, ops=(op,)) is None
    assert time.process_time() - started < 2.0
    same = text("v0").replace("to r", "to 2").replace("to c", "to 3")
    found = recognize(declared + same, ops=(op,))
    assert found is not None
    assert found.name == "many"


def test_a_long_loop_names_no_nearest_op() -> None:
    long = "".join(f"    Set s to s + {number}.\n" for number in range(300))
    (node,) = read(NOVEL.replace("    Set s to s + item i, j of C.\n", long)).nodes
    assert node.op.block is not None
    values = {value.name: Tensor(value.rows, value.columns, value.real) for value in (*node.inputs, *node.results)}
    assert nearest_op(node.op.block, values, OPS) is None


def test_a_loop_that_is_like_none_names_no_op() -> None:
    text = NOVEL.replace("  Let s be 0.\n", "  Let s be 3 / 4.\n")
    (node,) = read(text).nodes
    assert node.op.block is not None
    assert nearest_op(node.op.block, {}, ()) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from 1 to 3", "from 1 to 2"),  # a product of a part of the tensors
        ("from 1 to 3", "from 2 to 3"),
        ("of A + s", "of A - s"),
        ("item k, j of B * item i, k of A", "item k, j of B * item j, k of A"),
        ("Let s be 0.0.", "Let s be 1."),
        ("Let C be a 2 by 2", "Let C be a 3 by 2"),
    ],
)
def test_almost_a_product_is_none(old: str, new: str) -> None:
    assert BY_HAND.count(old) >= 1
    with_other = BY_HAND.replace(old, new, 1)
    assert "matmul" not in [node.op.name for node in read(with_other + "Let last be silu of soft.\n").nodes]


def test_an_int_product_into_a_real_is_no_product() -> None:
    text = BY_HAND.split("Repeat for i from 1 to 2:\n  Let total")[0].replace("3 tensor of Real", "3 tensor of Int")
    graph = read(text.replace("3 by 2 tensor of Real", "3 by 2 tensor of Int"))
    assert [node.op.name for node in graph.nodes] == ["loop"]


def test_items_of_a_row_counted_by_one_index_are_the_same_items() -> None:
    text = (
        "Let x be a 1 by 3 tensor of Real.\nLet y be a 1 by 3 tensor of Real.\n"
        "Repeat for r from 1 to 1:\n  Repeat for c from 1 to 3:\n"
        "    Set item c of y to item 1, c of x + item c of x.\n"
    )
    assert [node.op.name for node in read(text).nodes] == ["loop"]  # plus goes over rows: `item r, c`
    half = text.replace("Repeat for r from 1 to 1:\n  Repeat for c", "Repeat for c").replace("    Set", "  Set")
    half = half.replace("+ item c of x", "").replace("1, c of x ", "p + 1, c of t")
    half = half.replace("p + 1", "item 1 of p + 1").replace("Let y", "Let t be a 4 by 3 tensor of Real.\nLet y")
    half = half.replace("Repeat", "Let p be a 1 by 1 tensor of Int.\nRepeat")
    assert [node.op.name for node in read(half).nodes] == ["embedding"]


def test_indexes_that_the_bounds_prove_are_not_checked_again() -> None:
    loop, tensors, _ = the_loop(next(iter(graphs(OPS[0], Random(0), range(2, 4)))).nodes[0])
    faults: list[object] = []
    proved = check_loop(loop, tensors, lambda *words: faults.append(words))
    count = sum(1 for one in walk((loop,)) for inner in expressions(one) for _ in items(inner)) + 1
    assert faults == []
    assert len(proved) == count
