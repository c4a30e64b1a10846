"""The public functions that say which op a block of loops is."""

from __future__ import annotations

import pytest

import logos_cuda
from logos import AttentionBlock, MoeSpec, Refused, Source, recognize, recognize_attention, recognize_moe
from logos.check import read_program
from logos.desugar import desugar
from logos.grammar import make_grammar
from logos.ops import OPS

GRAMMAR = make_grammar(OPS)


def block(shapes: dict[str, tuple[int, int]], sentence: str) -> str:
    """The declarations and the loop of a sentence, in text."""
    declared = "".join(f"Let {name} be a {rows} by {columns} tensor of {'Int' if name == 'pos' else 'Real'}.\n"
                       for name, (rows, columns) in shapes.items())  # fmt: skip
    return desugar(read_program(Source("p.lg", f"{declared}{sentence}\n"), GRAMMAR))


ATTENTION = {"q": (1, 24), "k": (10, 12), "v": (10, 12), "pos": (1, 1)}
MOE = {"x": (2, 4), "r": (5, 4), "g": (15, 4), "u": (15, 4), "d": (20, 3)}


def test_an_attention_with_its_sizes_and_its_bound() -> None:
    up_to = block(ATTENTION, "Let a be attention of q over k and v with 6 heads 3 groups up to pos.")
    assert recognize_attention(up_to) == AttentionBlock("q", "k", "v", "a", 6, 3, 4, 10, "pos")
    shapes = {name: shape for name, shape in ATTENTION.items() if name != "pos"}
    every = block(shapes, "Let a be attention of q over k and v with 2 heads 1 groups.")
    assert recognize_attention(every) == AttentionBlock("q", "k", "v", "a", 2, 1, 12, 10, None)
    assert recognize_attention(every.replace("sqrt(12)", "sqrt(11)")) is None
    assert recognize_moe(every) is None


def test_a_moe_with_its_spec() -> None:
    text = block(MOE, "Let y be moe of x with router r gate g up u down d top 2 of 5 experts.")
    assert recognize_moe(text) == MoeSpec(d=4, f=3, E=5, K=2)
    assert recognize_attention(text) is None
    found = recognize(text)
    assert found is not None
    assert (found.name, found.inputs) == ("moe", ("x", "r", "g", "u", "d"))
    assert recognize(text.replace("Let most be -1.", "Let most be 0.")) is None


def test_the_cuda_target_offers_the_same_functions() -> None:
    assert logos_cuda.recognize_attention is recognize_attention
    assert logos_cuda.recognize_moe is recognize_moe


def test_a_write_alone_and_what_is_not_one_loop() -> None:
    text = "Let t be a 3 by 2 tensor of Real.\nLet x be a 1 by 2 tensor of Real.\n"
    loop = "Repeat for i from 1 to 2:\n  Set item 3, i of t to item 1, i of x.\n"
    found = recognize(text + loop)
    assert found is not None
    assert (found.name, dict(found.operands)) == ("set row", {"P": 2, "T": "t", "R": "x"})
    assert recognize(text + loop + loop) is None
    assert recognize(text + "Let y be silu of x.\n") is None
    assert recognize(text) is None
    assert recognize(text + loop, ops=OPS[:1]) is None


def test_everything_wrong_in_a_block_is_said() -> None:
    text = "Let t be a 3 by 2 tensor of Real.\nRepeat for i from 1 to 2:\n  Set item 4, i of t to item 1, i of x + y.\n"
    with pytest.raises(Refused) as refused:
        recognize(text)
    assert [one.code for one in refused.value.refusals] == ["undeclared-name", "loop-index", "loop-name"]
    with pytest.raises(Refused) as refused:
        recognize("Repeat for i from 1 to 2\n")
    assert [one.code for one in refused.value.refusals] == ["loop-misread"]
