"""Each fusion step: what it takes, and what keeps it from acting."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos import FUSION_STEPS, OPS, Graph, Source, plan_fusion
from logos.check import read_program
from logos.grammar import make_grammar

GRAMMAR = make_grammar(OPS)
NAMES = tuple(step.name for step in FUSION_STEPS)
HEAD = """\
Let x be a 1 by 4 tensor of Real.
Let y be a 1 by 4 tensor of Real.
Let one be a 1 by 1 tensor of Real.
Let int be a 1 by 4 tensor of Int.
Let w be a 1 by 4 tensor of Real.
Let n be a 1 by 2 tensor of Real.
Let c be a 1 by 1 tensor of Real.
Let p be a 1 by 1 tensor of Int.
Let t be a 1 by 1 tensor of Int.
Let W1 be a 4 by 4 tensor of Real.
Let W2 be a 4 by 4 tensor of Real.
Let W3 be a 4 by 4 tensor of Real.
Let K be a 3 by 4 tensor of Real.
Let V be a 3 by 4 tensor of Real.
Let R be a 1 by 4 tensor of Real.
"""
FIRST = HEAD.count("\n") + 1


def graph_of(text: str) -> Graph:
    return read_program(Source("p.lg", HEAD + text), GRAMMAR)


def planned(text: str, *steps: str, q8: str = "", keep: str = "", held: tuple[str, ...] = ()) -> list[str]:
    """The groups of a program: the numbers of their sentences, then the steps."""
    storage = lambda variable: "q8_0" if variable in q8.split() else "float32"  # noqa: E731
    groups = plan_fusion(graph_of(text), steps or NAMES, held, storage, keep.split())
    return [" ".join([*(str(node.line - FIRST + 1) for node in group.nodes), *group.steps]) for group in groups]


def inner(text: str, *steps: str, keep: str = "") -> list[list[str]]:
    groups = plan_fusion(graph_of(text), steps or NAMES, keep=keep.split())
    return [[value.name for value in group.inner] for group in groups]


CHAIN = """\
Let a be x plus y.
Let b be silu of a.
Let d be b hadamard w.
Let e be w plus d.
Let f be e hadamard one.
"""


def test_a_chain_goes_on_as_long_as_each_is_read_by_the_next_alone() -> None:
    assert planned(CHAIN) == ["1 2 3 4 5 chain"]
    assert inner(CHAIN) == [["a", "b", "d", "e"]]
    assert planned(CHAIN, keep="d") == ["1 2 3 chain", "4 5 chain"]
    assert planned(CHAIN + "Let g be b plus f.\n") == ["1 2 chain", "3 4 5 6 chain"]
    assert planned(CHAIN + "Let g be transpose of e.\n") == ["1 2 3 4 chain", "5", "6"]
    assert planned(CHAIN, "residual") == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    "text",
    [
        "Let a be silu of x.\nLet b be a hadamard a.\n",
        "Let a be silu of one.\nLet b be x hadamard a.\n",
        "Let a be int plus int.\nLet b be a plus x.\n",
        "Let a be int plus int.\nLet b be silu of a.\n",
        "Let a be silu of x.\nLet b be softmax of a.\n",
        "Let a be x plus R.\nSet row 0 of R to y.\nLet b be a hadamard R.\n",
    ],
    ids=["read twice", "another shape", "another type", "made real", "not elementwise", "a state written between"],
)
def test_what_is_no_chain(text: str) -> None:
    assert planned(text) == [str(number + 1) for number in range(text.count("\n"))]


def test_chains_of_both_types_and_of_many_rows_act() -> None:
    assert planned("Let a be int plus int.\nLet b be a hadamard int.\n") == ["1 2 chain"]
    assert planned("Let a be K plus w.\nLet b be a hadamard V.\nLet d be gelu of b.\n") == ["1 2 3 chain"]


PARTED = """\
Let a be x plus R.
Let b be silu of a.
Set row 0 of R to y.
Let d be b hadamard R.
Let e be gelu of d.
"""


def test_a_state_written_between_parts_a_chain_where_it_must() -> None:
    assert planned(PARTED) == ["1", "3", "2 4 5 chain"]
    assert planned(PARTED, keep="b") == ["1 2 chain", "3", "4 5 chain"]


QKV = """\
Let h be rmsnorm of x with weight w.
Let q be h matmul W1.
Let k be h matmul W2.
Let s be softmax of k.
Let v be h matmul W3.
"""


def test_products_of_one_row_by_weights_of_one_storage_act_together() -> None:
    assert planned(QKV) == ["1", "2 3 5 qkv", "4"]
    assert planned(QKV, q8="W1 W3", keep="q k") == ["1 norm-quantize", "3", "4", "2 5 qkv"]
    assert planned(QKV, q8="W1") == ["1 norm-quantize", "2", "3 5 qkv", "4"]
    assert inner(QKV, keep="v") == [[], [], []]


@pytest.mark.parametrize(
    "text",
    [
        "Let a be K matmul W1.\nLet b be K matmul W2.\n",
        "Let a be x matmul W1.\nLet b be y matmul W2.\n",
        "Let m be transpose of W1.\nLet a be x matmul m.\nLet b be x matmul W2.\n",
    ],
    ids=["of several rows", "of two rows", "by no weight"],
)
def test_what_is_no_shared_row(text: str) -> None:
    assert planned(text, "qkv") == [str(number + 1) for number in range(text.count("\n"))]


GATE = "Let g be x matmul W1.\nLet u be x matmul W2.\nLet o be swiglu of g and u.\n"
SILU = "Let g be x matmul W1.\nLet g be silu of g.\nLet u be x matmul W2.\nLet o be {} hadamard {}.\n"


def test_gate_and_up_act_with_what_joins_them() -> None:
    assert planned(GATE) == ["1 2 3 gate-up"]
    assert inner(GATE) == [["g", "u"]]
    for operands in (("g", "u"), ("u", "g")):
        assert planned(SILU.format(*operands)) == ["1 2 3 4 gate-up"]
    assert planned(GATE, q8="W1", held=("residual",)) == ["1", "2", "3"]
    assert planned(GATE, q8="W1 W2") == ["1 2 3 gate-up"]
    assert planned(GATE, keep="u") == ["1 2 qkv", "3"]
    assert planned(GATE.replace("x matmul W2", "y matmul W2")) == ["1", "2", "3"]
    assert planned(GATE.replace("g and u", "u and u")) == ["1 2 qkv", "3"]


ATTENTION = """\
Let q be x matmul W1.
Let k be x matmul W2.
Let v be x matmul W3.
Let q be rmsnorm of q with weight n across 2 heads.
Let q be rope of q with cos c and sin c across 2 heads.
Let k be rmsnorm of k with weight n across 2 heads.
Let k be rope of k with cos c and sin c across 2 heads.
Set row p of K to k.
Set row p of V to v.
Let a be attention of q over K and V with 2 heads 2 groups up to p.
"""


def lines_without(text: str, *numbers: int) -> str:
    return "".join(line + "\n" for number, line in enumerate(text.splitlines(), 1) if number not in numbers)


def test_norms_ropes_and_appends_of_an_attention_act_as_one() -> None:
    assert planned(ATTENTION) == ["1 2 3 qkv", "4 5 6 7 8 9 norm-rope-append", "10 combine"]
    assert inner(ATTENTION) == [[], ["q", "k", "k"], []]
    assert planned(lines_without(ATTENTION, 4, 6)) == ["1 2 3 qkv", "4 5 6 7 norm-rope-append", "8 combine"]
    assert planned(lines_without(ATTENTION, 5, 7)) == ["1 2 3 qkv", "4 5 6 7 norm-rope-append", "8 combine"]
    assert planned(lines_without(ATTENTION, 8, 9)) == ["1 2 3 qkv", "4 5 norm-rope-append", "6", "7", "8 combine"]


def test_appends_of_other_rows_and_what_is_read_elsewhere_stay_apart() -> None:
    other = ATTENTION.replace("row p of V", "row t of V")
    assert planned(other) == ["1 2 3 qkv", "4 5 6 7 8 norm-rope-append", "9", "10 combine"]
    assert planned(ATTENTION, keep="k") == ["1 2 3 qkv", "6", "7", "4 5 8 9 norm-rope-append", "10 combine"]
    assert planned(ATTENTION, keep="q") == planned(ATTENTION)


def test_an_attention_between_the_appends_parts_them() -> None:
    text = """\
Set row p of K to x.
Let m be attention of y over K and V with 2 heads 2 groups up to p.
Set row p of V to m.
Let a be attention of y over K and V with 2 heads 2 groups up to p.
"""
    assert planned(text) == ["1", "2 combine", "3", "4 combine"]


RESIDUAL = "Let o be x matmul W1.\nLet r be {} plus {}.\nLet h be rmsnorm of r with weight w.\nLet z be r plus h.\n"


def test_a_residual_is_added_where_the_product_is_read_by_the_sum_alone() -> None:
    for operands in (("y", "o"), ("o", "y")):
        assert planned(RESIDUAL.format(*operands)) == ["1 2 residual", "3", "4"]
    assert planned(RESIDUAL.format("o", "y"), keep="o") == ["1", "2 3 add-norm", "4"]
    assert planned(RESIDUAL.format("o", "one")) == ["1", "2", "3", "4"]
    assert planned("Let a be x matmul W1.\nLet b be y matmul W2.\nLet r be a plus b.\n") == ["1", "2 3 residual"]


def test_a_sum_and_its_norm_act_as_one_and_the_sum_is_stored_where_it_is_read() -> None:
    text = RESIDUAL.format("o", "y")
    assert planned(text, held=("residual",)) == ["1", "2 3 add-norm", "4"]
    assert inner(text, "add-norm") == [[], [], []]
    assert inner(text.replace("z be r plus", "z be y plus"), "add-norm") == [[], ["r"], []]
    assert planned(text.replace(" with weight w", ""), "add-norm") == ["1", "2", "3", "4"]
    assert planned(text.replace("of r with", "of r plus x with"), "add-norm") == ["1", "2", "3", "4"]
    assert planned(text.replace("with weight w", "with weight r"), "add-norm") == ["1", "2", "3", "4"]


def test_rows_for_products_in_q8_are_stored_so_by_what_makes_them() -> None:
    text = "Let h be rmsnorm of x with weight w.\n" + GATE.replace("x", "h") + "Let d be o matmul W3.\n"
    assert planned(text, q8="W1 W2 W3") == ["1 norm-quantize", "2 3 4 gate-up act-quantize", "5"]
    assert planned(text, q8="W3") == ["1", "2 3 4 gate-up act-quantize", "5"]
    assert planned(text, q8="W2") == ["1 norm-quantize", "2", "3", "4", "5"]
    assert planned(text, q8="W1 W2 W3", held=("norm-quantize", "act-quantize")) == ["1", "2 3 4 gate-up", "5"]
    added = "Let r be x plus y.\nLet h be rmsnorm of r with weight w.\nLet q be h matmul W1.\n"
    assert planned(added, q8="W1") == ["1 2 add-norm norm-quantize", "3"]
    whole = "Let i be a 1 by 4 tensor of Int.\nLet h be i hadamard i.\nLet q be h matmul W1.\n"
    assert planned(whole, q8="W1") == ["2", "3"]


DELTA = """\
Let CQ be a 2 by 4 tensor of Real.
Let S be a 4 by 2 tensor of Real.
Let few be a 1 by 2 tensor of Real.
Let T be a 2 by 4 tensor of Real.
Let q be causal conv of x with weight T state CQ over 2 taps.
Let q be silu of q.
Let q be l2norm of q across 2 heads.
Let k be l2norm of y across 2 heads.
Let v be silu of y.
Let b be sigmoid of few.
Let d be decay of few with bias few rate few.
Let o be gated delta of q over k and v with gate x beta b decay d state S norm n with 2 heads 2 groups.
"""


def test_what_stands_before_a_gated_delta_acts_as_one() -> None:
    assert planned(DELTA) == ["5 6 7 8 9 10 11 delta-inputs", "12 combine"]
    assert inner(DELTA) == [["q", "q"], []]
    again = DELTA.replace("Let k be", "Let early be transpose of q.\nLet k be")
    assert planned(again) == ["5 6 7 9 10 11 12 delta-inputs", "8", "13 combine"]
    apart = DELTA.replace("Let q be l2norm", "Let early be transpose of q.\nLet q be l2norm")
    assert planned(apart) == ["5", "6", "7", "8 9 10 11 12 delta-inputs", "13 combine"]


SCALED = """\
Let o be x matmul W1.
Let e be o hadamard one.
Let m be e plus y.
Let z be w plus m.
Let q be z matmul W2.
"""


def test_a_product_scaled_by_one_element_takes_the_sums_that_follow() -> None:
    assert planned(SCALED) == ["1 2 3 4 residual", "5"]
    assert inner(SCALED) == [["o", "e", "m"], []]
    assert planned(SCALED, keep="e") == ["1", "2", "3 4 chain", "5"]
    assert planned(SCALED.replace("hadamard one", "hadamard w"), "residual") == ["1", "2", "3", "4", "5"]
    assert planned(SCALED.replace("hadamard one", "hadamard o"), "residual") == ["1", "2", "3", "4", "5"]
    assert planned(SCALED.replace("w plus m", "q0 plus m").replace("Let z", "Let q0 be y matmul W3.\nLet z")) == [
        "1 2 3 residual", "4 5 residual", "6",
    ]  # fmt: skip


MOE = """\
Let R be a 2 by 4 tensor of Real.
Let E be a 8 by 4 tensor of Real.
Let S be a 4 by 1 tensor of Real.
Let m be moe of x with router R gate E up E down E top 1 of 2 experts.
Let g be x matmul S.
Let g be sigmoid of g.
Let m be m hadamard g.
"""


def test_a_router_takes_the_gate_of_a_shared_expert_beside_it() -> None:
    text = MOE.replace("Let R be", "Let P be").replace("router R", "router P")
    assert planned(text) == ["4 5 6 router", "7"]
    assert planned(text, q8="S") == ["4 router", "5", "6", "7"]
    assert planned(text, q8="E") == ["4 5 6 router act-quantize", "7"]
    assert planned(text, keep="m") == ["4 5 6 router", "7"]
    assert planned(text.replace("g be x matmul", "g be y matmul"), "router") == ["4 router", "5", "6", "7"]
    assert planned(text.replace("sigmoid", "silu"), "router") == ["4 router", "5", "6", "7"]
    rows = text.replace("moe of x", "moe of K").replace("Let m be m hadamard g.\n", "")
    assert planned(rows, "router") == ["4", "5", "6"]


def test_longer_matches_act_first() -> None:
    text = "Let o be x matmul W1.\nLet r be o plus y.\nLet a be silu of r.\nLet b be a hadamard w.\n"
    assert planned(text) == ["1", "2 3 4 chain"]
    assert planned(text, "residual") == ["1 2 residual", "3", "4"]
    assert planned(text, keep="a") == ["1 2 residual", "3", "4"]


def test_what_a_longer_match_took_leaves_the_rest_to_act() -> None:
    text = GATE + "Let k be x matmul W3.\nLet v be x matmul W1.\n"
    assert planned(text) == ["1 2 4 5 qkv", "3"]
    many = GATE.replace("swiglu of g and u", "g hadamard u").replace("Let u", "Let g be silu of g.\nLet u")
    assert planned(many + "Let k be x matmul W3.\nLet v be x matmul W1.\n") == ["1 2 3 4 gate-up", "5 6 qkv"]


def test_unknown_steps_and_variables_are_errors() -> None:
    graph = graph_of(GATE)
    for arguments in ((["glue"],), ([], ["glue"])):
        with pytest.raises(ValueError, match="no fusion step glue; there are gate-up, "):
            plan_fusion(graph, *arguments)
    with pytest.raises(KeyError, match="nowhere"):
        plan_fusion(graph, NAMES, keep=["nowhere"])


def test_every_step_says_what_it_sums_and_how_far_it_may_differ() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for step in FUSION_STEPS:
        assert step.becomes
        assert step.sums
        assert 0 <= step.bound <= 1e-6


def test_the_page_of_plugins_has_the_table_of_steps() -> None:
    page = (Path(__file__).parents[2] / "docs/plugins.md").read_text("utf-8")
    for step in FUSION_STEPS:
        assert f"| `{step.name}` | {step.becomes} | {step.sums} |\n" in page
