"""The graph of many steps: what becomes of each node, and what is named as needing single steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from many_steps import HEAD, farthest, graph, noise

from logos import OPS, Graph, Op, Refused, Rows, Shapes, Source, print_program, read_program, unroll
from logos.grammar import make_grammar
from logos.passes.checked import checked

DECODER = """
Let E be a 8 by 4 tensor of Real.
Let RC be a 16 by 1 tensor of Real.
Let RS be a 16 by 1 tensor of Real.
Let W be a 4 by 4 tensor of Real.
Let n be a 1 by 4 tensor of Real.
Let K be a 16 by 4 tensor of Real.
Let O be a 4 by 8 tensor of Real.
Let x be row tok of E.
Let c be row pos of RC.
Let s be row pos of RS.
Let n2 be n plus n.
Let h be rmsnorm of x with weight n2.
Let k be h matmul W.
Let k be rope of k with cos c and sin s across 2 heads.
Set row pos of K to k.
Let a be attention of k over K and K with 2 heads 2 groups up to pos.
Let y be x plus a.
Let logits be y matmul O.
Let next be argmax of logits.
"""


def spelled(made: Graph) -> list[str]:
    return [node.op.name for node in made.nodes]


def refusals(text: str, rows: tuple[str, ...] = (), last: tuple[str, ...] = ()) -> list[str]:
    """The codes, lines below the head, and words that a program is refused with for many steps at once."""
    made = graph(text)
    with pytest.raises(Refused) as refused:
        unroll(made, 3, [made.taps[name] for name in rows], [made.taps[name] for name in last])
    found = []
    for refusal in refused.value.refusals:
        places = [where.label().split(":")[1:2] for where in (refusal.where, *refusal.also) if where is not None]
        lines = ",".join(str(int(place[0]) - 2) for place in places if place)
        found.append(f"{refusal.code} {lines}: {refusal.what}")
        assert refusal.next == "run it one step at a time (`--prefill off`)"
    return found


def test_the_head_is_made_for_the_last_step_alone() -> None:
    made = unroll(graph(DECODER), 5)
    assert print_program(made.graph).splitlines()[9:] == [
        "Let x be row tok of E.",
        "Let c be row pos of RC.",
        "Let s be row pos of RS.",
        "Let n2 be n plus n.",
        "Let h be rmsnorm of x with weight n2.",
        "Let k be h matmul W.",
        "Let k be rope of k with cos c and sin s across 2 heads.",
        "Set row pos of K to k.",
        "Let k_last be row 4 of k.",
        "Let pos_last be row 4 of pos.",
        "Let a be attention of k_last over K and K with 2 heads 2 groups up to pos_last.",
        "Let x_last be row 4 of x.",
        "Let y be x_last plus a.",
        "Let logits be y matmul O.",
        "Let next be argmax of logits.",
    ]
    assert spelled(made.graph)[:9] == [
        "embedding rows", "embedding rows", "embedding rows", "plus", "rmsnorm", "matmul", "rope rows", "set row rows",
        "embedding",
    ]  # fmt: skip
    assert made.graph.output.shape == (1, 1)
    assert (made.steps, made.graph.steps) == (5, 5)


def test_rows_that_are_asked_for_are_made_for_every_step() -> None:
    single = graph(DECODER)
    made = unroll(single, 5, [single.taps["logits"], single.taps["n2"]])
    assert spelled(made.graph)[8:] == ["attention rows", "plus", "matmul", "embedding", "argmax"]
    newest = made.graph.newest()
    assert (newest["logits"].shape, newest["n2"].shape, newest["K"].shape) == ((5, 8), (1, 4), (16, 4))
    assert made.rows(single.taps["logits"]) == newest["logits"]
    assert single.taps["n2"] not in made.stepwise
    assert [leaf.value.shape for leaf in made.graph.leaves[:2]] == [(5, 1), (5, 1)]


def test_a_node_of_many_steps_says_how_many_and_its_shapes() -> None:
    made = unroll(graph(DECODER), 5)
    node = next(node for node in made.graph.nodes if node.op.name == "rope rows")
    assert node.operands["STEPS"] == node.sizes["STEPS"] == 5
    rule = node.op.shapes[1].text
    assert rule == "Q (STEPS, H*hd), RC (STEPS, half), RS (STEPS, half) -> (STEPS, H*hd)"


def test_a_broken_graph_is_a_fault_of_its_pass() -> None:
    made = unroll(graph(DECODER), 5).graph
    first, second, *rest = made.nodes
    (norm,) = (node for node in rest if node.op.name == "rmsnorm")
    for nodes, fault in (
        ((second, first, *rest), "embedding rows is numbered 1 and stands at 0"),
        ((replace(norm, index=0),), "reads"),
        ((first, replace(first, index=1)), "a second time"),
    ):
        with pytest.raises(ValueError, match=fault):
            checked(replace(made, nodes=nodes))
    with pytest.raises(ValueError, match="shapes of embedding rows"):
        checked(replace(made, nodes=(replace(first, sizes={}), second, *rest)))
    with pytest.raises(ValueError, match="made by no node"):
        checked(replace(made, output=replace(made.output, version=9)))


# What only single steps can give


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Let T be a 9 by 1 tensor of Int.\nLet a be row pos of T.\nSet row pos of T to tok.\nLet y be a plus a.",
            ["steps-not-at-once 2: T is read above the sentence that writes it"],
        ),
        (
            "Let T be a 9 by 1 tensor of Int.\nSet row pos of T to tok.\nSet row 3 of T to tok.\nLet y be row 1 of T.",
            ["steps-not-at-once 3: T is written a second time in a step"],
        ),
        (
            "Let T be a 9 by 1 tensor of Int.\nSet row tok of T to pos.\nLet y be tok plus pos.",
            ["steps-not-at-once 2: set row writes row tok of T; pos alone counts up step by step"],
        ),
        (
            "Let T be a 9 by 1 tensor of Int.\nLet p be tok plus pos.\nSet row p of T to pos.\nLet y be p plus p.",
            ["steps-not-at-once 3: set row writes row p of T; pos alone counts up step by step"],
        ),
        (
            "Let T be a 9 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\n"
            "Set row pos of T to x.\nLet a be attention of x over T and T with 1 heads 1 groups.\n"
            "Let U be a 9 by 2 tensor of Real.\nSet row pos of U to a.",
            ["steps-not-at-once 5: attention reads of T what each step alone has of it"] * 2,
        ),
        (
            "Let T be a 8 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\n"
            "Set row pos of T to x.\nLet a be attention of x over E and T with 1 heads 1 groups up to tok.\n"
            "Let U be a 9 by 2 tensor of Real.\nSet row pos of U to a.",
            ["steps-not-at-once 5: attention reads of T what each step alone has of it"],
        ),
        (
            "Let T be a 8 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\n"
            "Let w be a 1 by 1 tensor of Int.\nSet row w of T to x.\n"
            "Let a be attention of x over T and E with 1 heads 1 groups up to w.\n"
            "Let U be a 9 by 2 tensor of Real.\nSet row pos of U to a.",
            ["steps-not-at-once 6: attention reads of T what each step alone has of it"],
        ),
        (
            "Let T be a 8 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\n"
            "Set row 3 of T to x.\nLet y be row 3 of T.\nLet U be a 9 by 2 tensor of Real.\nSet row pos of U to y.",
            ["steps-not-at-once 5: embedding reads of T what each step alone has of it"],
        ),
        (
            "Let E be a 8 by 1 tensor of Real.\nLet x be row tok of E.\nLet y be x matmul x.\n"
            "Let U be a 9 by 1 tensor of Real.\nSet row pos of U to y.",
            ["steps-not-at-once 3: matmul takes one B for all steps, and x differs from step to step"],
        ),
        (
            "Let E be a 8 by 2 tensor of Real.\nLet A be a 3 by 1 tensor of Real.\nLet x be row tok of E.\n"
            "Let y be transpose of x.\nLet z be transpose of y.\nLet U be a 9 by 2 tensor of Real.\n"
            "Set row pos of U to z.\nLet w be transpose of z.",
            ["no-row-rule 4,5: the op transpose has no rule for many steps at once",
             "steps-not-at-once 4: y has 2 rows at every step"],
        ),
        (
            "Let C be a 3 by 2 tensor of Real.\nLet W be a 3 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\n"
            "Let x be row tok of E.\nLet y be causal conv of x with weight W state C over 3 taps.\n"
            "Let c be row 1 of C.\nLet U be a 9 by 2 tensor of Real.\nSet row pos of U to c.",
            ["steps-not-at-once 6: embedding reads of C what each step alone has of it"],
        ),
        (
            "Let T be a 9 by 1 tensor of Int.\nShow T.\nSet row pos of T to tok.\nLet y be tok plus tok.",
            ["steps-not-at-once 2: what T was before the last step is asked for"],
        ),
    ],
)  # fmt: skip
def test_what_single_steps_alone_give_is_named(text: str, expected: list[str]) -> None:
    assert refusals(text) == expected


def test_what_is_asked_of_a_state_at_every_step_or_before_the_last_is_named() -> None:
    text = "Let T be a 9 by 1 tensor of Int.\nSet row pos of T to tok.\nLet y be tok plus pos."
    assert refusals(text, rows=("T",)) == ["steps-not-at-once : the state T is asked for at every step"]
    assert refusals(text, last=("T@0",)) == ["steps-not-at-once : what T was before the last step is asked for"]


def test_the_refusal_shows_every_place_of_an_op_without_a_rule() -> None:
    relu = Op("relu", "relu of X", (Shapes("X (r, c) -> (r, c)"),), lambda X: np.maximum(X, 0.0))
    text = "Let E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\nLet y be relu of x.\nLet z be relu of y.\n"
    text += "Let K be a 9 by 2 tensor of Real.\nSet row pos of K to z.\nLet v be relu of z.\n"
    made = read_program(Source("p.lg", HEAD + text), make_grammar([*OPS, relu]))
    with pytest.raises(Refused) as refused:
        unroll(made, 4)
    assert str(refused.value) == (
        "p.lg:5:1: the op relu has no rule for many steps at once [no-row-rule]\n"
        "    Let y be relu of x.\n    ^^^^^^^^^^^^^^^^^^\n  also p.lg:6:1\n"
        "    Let z be relu of y.\n    ^^^^^^^^^^^^^^^^^^\n"
        "  next: run it one step at a time (`--prefill off`)"
    )


# What is equal all the same


@pytest.mark.parametrize(
    "text",
    [
        # Sets one row alike at every step: the state does not differ from step to step and may be read by anything.
        "Let T be a 4 by 2 tensor of Real.\nLet r be a 1 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\n"
        "Set row 1 of T to r.\nLet a be row 1 of T.\nLet x be row tok of E.\nLet y be x plus a.\n"
        "Let U be a 12 by 2 tensor of Real.\nSet row pos of U to y.\nLet z be y plus y.",
        # Sets one row to what differs: the last step's is what stays, and what is made of it at the last step alone.
        "Let T be a 4 by 2 tensor of Real.\nLet E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\n"
        "Set row 3 of T to x.\nLet z be transpose of T.",
        # The whole of a state, read by the head.
        DECODER + "Let t be transpose of K.\nLet last be next plus next.",
        # A state that moves by itself, all else the same at every step.
        "Let C be a 3 by 2 tensor of Real.\nLet W be a 3 by 2 tensor of Real.\nLet x be a 1 by 2 tensor of Real.\n"
        "Let y be causal conv of x with weight W state C over 3 taps.\nLet T be a 12 by 2 tensor of Real.\n"
        "Set row pos of T to y.\nLet z be y plus x.",
        # Attention whose query is the same at every step; a table that is not written, up to any row.
        "Let T be a 12 by 2 tensor of Real.\nLet q be a 1 by 2 tensor of Real.\nLet E be a 12 by 2 tensor of Real.\n"
        "Let x be row tok of E.\nSet row pos of T to x.\n"
        "Let a be attention of q over T and E with 2 heads 1 groups up to pos.\n"
        "Let b be attention of x over E and E with 1 heads 1 groups up to tok.\nLet c be a plus b.\n"
        "Let U be a 12 by 2 tensor of Real.\nSet row pos of U to c.\nLet y be c plus a.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("steps", [2, 5, 12])
def test_programs_that_look_otherwise_equal_single_steps(text: str, steps: int) -> None:
    made = graph(text.replace("with 2 heads 1 groups", "with 1 heads 1 groups"))
    assert farthest(made, noise(made), steps, ()) <= 1e-12


def test_an_op_may_bring_its_rule_or_have_its_own_value_run_step_after_step() -> None:
    def total(X: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return S + X, {"S": S + X}

    shapes = (Shapes("X (1, c), S (1, c) -> (1, c)"),)
    step = Op("total", "total of X in S", shapes, total, writes=("S",), rows=Rows(("X",)))
    quick = replace(step, rows=Rows(("X",), value=lambda X, S: (s := S + X.cumsum(axis=0), {"S": s[-1:]})))
    text = "Let E be a 8 by 2 tensor of Real.\nLet S be a 1 by 2 tensor of Real.\nLet x be row tok of E.\n"
    text += "Let y be total of x in S.\nLet T be a 12 by 2 tensor of Real.\nSet row pos of T to y.\n"
    for op in (step, quick):
        made = read_program(Source("p.lg", HEAD + text), make_grammar([*OPS, op]))
        assert spelled(unroll(made, 4).graph)[1] == "total rows"
        assert farthest(made, noise(made), 5, ("y",)) <= 1e-12


def test_an_op_is_its_own_rule_only_where_it_gives_a_row_a_step() -> None:
    mean = Op("mean", "mean of X", (Shapes("X (r, c) -> (1, c)"),), lambda X: X.mean(axis=0, keepdims=True),
              rows=Rows(("X",), rowwise=True))  # fmt: skip
    text = "Let E be a 8 by 2 tensor of Real.\nLet x be row tok of E.\nLet y be mean of x.\n"
    text += "Let T be a 12 by 2 tensor of Real.\nSet row pos of T to y.\n"
    made = read_program(Source("p.lg", HEAD + text), make_grammar([*OPS, mean]))
    assert spelled(unroll(made, 4).graph)[1] == "mean rows"
    assert farthest(made, noise(made), 5, ("y",)) == 0.0
