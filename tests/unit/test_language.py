"""The language: sentences are read by position, printed back, and checked."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logos import Declaration, Fill, Op, Operation, Refused, Show, Source, print_program, read_tensor_sentences
from logos.check import read_program
from logos.conformance import program, variants
from logos.grammar import Grammar, make_grammar
from logos.graph import Graph
from logos.op import Shapes, collisions
from logos.ops import OPS

GRAMMAR = make_grammar(OPS)


def graph(text: str, grammar: Grammar = GRAMMAR) -> Graph:
    return read_program(Source("p.lg", text), grammar)


def codes(text: str) -> list[str]:
    with pytest.raises(Refused) as refused:
        graph(text)
    return [refusal.code for refusal in refused.value.refusals]


def test_sentences_come_back_in_order() -> None:
    text = (
        "\ufeff# heading\r\n"
        "Let T be a 3 by 2 tensor of Real.\r\n"
        "\tLet  p be a 1 by 1\ttensor of Int . \n"
        "Set item 2 of T to -1.5e-3.\n"
        "Let y be row p of T.\n"
        "Set row 2 of T to y.\n"
        "Show item 1 of y."
    )
    assert read_tensor_sentences(text)[:3] == (
        Declaration("T", 3, 2, True),
        Declaration("p", 1, 1, False),
        Fill("T", 2, -0.0015),
    )
    read, write, show = read_tensor_sentences(text)[3:]
    assert isinstance(read, Operation)
    assert isinstance(write, Operation)
    assert (read.out, read.op.name, read.op.inputs, read.op.writes) == ("y", "embedding", ("p", "T"), ())
    assert (write.out, write.op.name, write.op.inputs, write.op.writes) == ("T", "set row", ("T", "y"), ("T",))
    assert show == Show("y", item=1)


def test_inputs_and_writes_follow_the_sentence() -> None:
    (sentence,) = read_tensor_sentences("Let o be gated delta of q over k and v with gate z beta b decay a state s "
                                        "norm g with 4 heads 2 groups.")  # fmt: skip
    assert isinstance(sentence, Operation)
    assert sentence.op.inputs == ("q", "k", "v", "z", "b", "a", "s", "g")
    assert sentence.op.writes == ("s",)


def test_no_word_is_reserved() -> None:
    words = ("of", "with", "be", "plus", "Let", "tensor", "matmul", "row", "state", "Real", "item", "rmsnorm")
    text = "".join(f"Let {word} be a 2 by 2 tensor of Real.\n" for word in words)
    text += "Let of be plus plus plus.\nLet be be rmsnorm of rmsnorm plus plus with weight with across 2 heads.\n"
    with pytest.raises(Refused):
        graph(text)
    text = text.replace(" across 2 heads", "").replace("with be a 2 by 2", "with be a 1 by 2")
    made = graph(text)
    assert [node.op.name for node in made.nodes] == ["plus", "rmsnorm"]
    assert graph(print_program(made)) == made


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_what_is_printed_parses_to_the_same_graph(op: Op, seed: int) -> None:
    for present, rule in variants(op):
        made = graph(program(op, present, rule, Random(seed)))
        assert graph(print_program(made)) == made
        assert made.nodes[0].op is op


def test_every_op_is_read_with_int_operands_where_it_is_exact() -> None:
    for op in OPS:
        if op.exact:
            for present, rule in variants(op):
                made = graph(program(op, present, rule, Random(1), real=False))
                assert not any(value.real for node in made.nodes for value in node.results)


def test_a_name_may_be_produced_again_with_another_shape() -> None:
    made = graph(
        "Let x be a 2 by 3 tensor of Real.\nLet y be silu of x.\nLet y be transpose of y.\nLet z be silu of y."
    )
    assert [(node.out.name, node.out.version, node.out.shape) for node in made.nodes if node.out] == [
        ("y", 1, (2, 3)),
        ("y", 2, (3, 2)),
        ("z", 1, (3, 2)),
    ]


def test_a_state_read_above_its_write_is_last_steps() -> None:
    made = graph("Let T be a 3 by 2 tensor of Real.\nLet a be row 0 of T.\nSet row 0 of T to a.\nLet b be row 0 of T.")
    assert [leaf.state for leaf in made.leaves] == [True]
    first, _, last = made.nodes
    assert (first.inputs[0].version, last.inputs[0].version) == (0, 1)


def test_a_later_fill_of_the_same_item_wins() -> None:
    fills = "Set item 2 of x to 1.\nSet item 2 of x to -0.\n"
    made = graph(f"Let x be a 1 by 2 tensor of Real.\n{fills}Let y be silu of x.")
    assert [(index, str(value)) for index, value in made.leaves[0].fills] == [(1, "-0.0")]


def test_literals_are_read_to_their_limits() -> None:
    limit = 2**63
    text = (
        f"Let x be a 1 by 2 tensor of Int.\nSet item 1 of x to {-limit}.\nSet item 2 of x to +{limit - 1}.\n"
        "Let y be transpose of x."
    )
    assert graph(text).leaves[0].fills == ((0, -limit), (1, limit - 1))
    assert codes(text.replace(f"{-limit}", f"{-limit - 1}")) == ["int-out-of-range"]
    assert codes("Let x be a 1 by 1 tensor of Real.\nSet item 1 of x to 1e999.\nLet y be silu of x.") == [
        "value-not-finite"
    ]
    assert codes(f"Let x be a 1 by {'1' * 41} tensor of Real.\nLet y be silu of x.") == ["literal-too-long"]
    assert codes(f"Let x be a {2**24} by {2**24} tensor of Real.\nLet y be silu of x.") == ["tensor-too-large"]


def test_lines_end_at_lf_or_crlf_and_nowhere_else() -> None:
    for other in ("\r", "\x0b", "\x0c", "\x85", "\u2028"):
        assert codes(f"Let x be a 1 by 2 tensor of Real.{other}Let y be silu of x.") == ["unknown-sentence"]


def test_patterns_that_could_match_one_sentence_are_refused_naming_both() -> None:
    twin = Op("twin", "X matmul Y", (Shapes("X (m, k), Y (k, n) -> (m, n)"),), lambda X, Y: X)
    with pytest.raises(Refused) as refused:
        make_grammar((*OPS, twin))
    (refusal,) = refused.value.refusals
    assert refusal.code == "ambiguous-ops"
    assert "matmul and twin could both be meant by `Let x be x matmul x.`" in refusal.what
    again = Op("matmul", "product of X and Y", (Shapes("X (m, k), Y (k, n) -> (m, n)"),), lambda X, Y: X)
    with pytest.raises(Refused) as refused:
        make_grammar((*OPS, again))
    (refusal,) = refused.value.refusals
    assert (refusal.code, refusal.what) == ("op-declared-twice", "two ops are named matmul")


def test_an_op_whose_own_variants_collide_is_refused() -> None:
    odd = Op("odd", "odd X [with Y] [with Z]", (Shapes("X (r, c) -> (r, c)"),), lambda X, Y, Z: X)
    assert list(collisions({"odd": odd.pattern}))


_LONG = 10_000


@pytest.mark.parametrize("line", ["Let y{i} be silu of x{i}.", "Let y{i} be slu of x{i}.", "Let y{i} be silu of y{j}.",
                                  "Let y be silu of x", "Show x{i}.", "Let x be a 1 by 1 tensor of Int."])  # fmt: skip
def test_ten_thousand_faults_take_seconds(line: str) -> None:
    """Comparing each fault with every name or every pattern would take minutes."""
    start = time.process_time()
    with pytest.raises(Refused):
        graph("\n".join(line.format(i=i, j=i + 1) for i in range(_LONG)))
    assert time.process_time() - start < 20


def test_a_long_program_is_read_and_printed_in_seconds() -> None:
    lines = ["Let x0 be a 1 by 4 tensor of Real.", "Let W be a 4 by 4 tensor of Real."]
    lines += [f"Let x{i + 1} be x{i} matmul W.\nShow x{i}." for i in range(_LONG)]
    start = time.process_time()
    made = graph("\n".join(lines))
    assert graph(print_program(made)) == made
    assert time.process_time() - start < 20


def test_very_long_words_are_cut_in_messages() -> None:
    long, digits = "x" * 100_000, "1" * 100_000
    for text in (f"Let y be silu of {long}.", f"Let y be slu of {long}.", f"Let y be row {digits} of y.",
                 f"Let {long} be a 99999999 by 99999999 tensor of Real.", f"Let y be {'a ' * 100_000}."):  # fmt: skip
        with pytest.raises(Refused) as refused:
            graph(text)
        assert all(len(one.text()) < 1000 for one in refused.value.refusals)


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_is_a_refusal_or_a_graph(text: str) -> None:
    try:
        graph(text)
    except Refused as refused:
        for refusal in refused.refusals:
            assert refusal.text()
            assert refusal.next


_LINES = [
    "Let x be a 1 by 4 tensor of Real.", "Let W be a 4 by 4 tensor of Real.", "Let S be a 4 by 4 tensor of Real.",
    "Let y be x matmul W.", "Let y be rmsnorm of x plus y with weight x.", "Set row 1 of S to y.", "Show y.",
    "Let z be attention of y over S and S with 2 heads 2 groups.", "Let t be argmax of z.", "Let e be row t of S.",
]  # fmt: skip


@given(st.lists(st.sampled_from(_LINES), min_size=1, max_size=12), st.randoms(use_true_random=False), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_shuffled_and_mutated_programs_never_crash(lines: list[str], random: Random, mutations: int) -> None:
    text = list("\n".join(lines))
    for _ in range(mutations):
        place = random.randrange(len(text) + 1)
        text[place : place + random.randrange(3)] = random.choice(["", ".", " ", "9", "x", "\n", "é", "-", "0"])
    with suppress(Refused):
        made = graph("".join(text))
        assert graph(print_program(made)) == made
