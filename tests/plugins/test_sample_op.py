"""The sample's own op: in programs, on the reference machine, many steps at once, in onnx; refused by the others."""

from __future__ import annotations

import re

import numpy as np
import pytest
from places import Place

from logos import Machine, Source, make_manager, print_program, read_program, unroll

PROGRAM = """\
## A feed-forward network as Nemotron has it
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 3 tensor of Real.
Let up be a 3 by 4 tensor of Real.
Let x be row tok of emb.
Let h be x matmul up.
Let h be squared relu of h.
Let both be squared relu of h.
"""


@pytest.mark.usefixtures("in_process")
def test_the_op_is_parsed_checked_printed_and_computed() -> None:
    grammar = make_manager().grammar
    graph = read_program(Source("p.lg", PROGRAM), grammar)
    assert [node.op.name for node in graph.nodes] == ["embedding", "matmul", "squared relu", "squared relu"]
    assert read_program(Source("p.lg", print_program(graph)), grammar) == graph
    values = {"tok": np.array([[2]]), "emb": np.arange(15.0).reshape(5, 3) - 7, "up": np.eye(3, 4)}
    made = Machine(graph, values).step()
    assert made[graph.output].tolist() == [[0.0, 0.0, 1.0, 0.0]]


@pytest.mark.usefixtures("in_process")
def test_the_op_makes_many_steps_at_once() -> None:
    graph = read_program(Source("p.lg", PROGRAM), make_manager().grammar)
    random = np.random.default_rng(0)
    values = {"emb": random.normal(size=(5, 3)), "up": random.normal(size=(3, 4))}
    many = unroll(graph, 3, rows=(graph.output,)).graph
    tokens = np.array([[4], [0], [2]])
    found = Machine(many, {**values, "tok": tokens}).step()[many.newest()["both"]]
    each = [Machine(graph, {**values, "tok": tokens[t : t + 1]}).step()[graph.output] for t in range(3)]
    np.testing.assert_allclose(found, np.concatenate(each), rtol=1e-12)


def test_a_shape_or_word_that_does_not_fit_is_refused_as_in_any_op(place: Place) -> None:
    (place.folder / "p.lg").write_text("Let x be a 1 by 2 tensor of Real.\nLet y be squared relo of x.\n", "utf-8")
    said = place.logos("check", "p.lg", code=1).stderr
    assert "p.lg:2:18: " in said
    assert "did you mean relu?" in said


def test_onnx_spells_it_and_the_others_refuse_it_by_name(place: Place) -> None:
    (place.folder / "p.lg").write_text(PROGRAM, "utf-8")
    verify = ("verify", "p.lg", "--target", "onnx")
    assert "float32   both  " in place.logos(*verify).stdout
    for target in ("cuda", "rdu-sambaflow"):
        said = place.logos("build", "p.lg", "--target", target, "--out", "made", code=1).stderr
        refused = f"p.lg:7:1: target {target} does not spell the op squared relu (spelled by the installed target onnx)"
        assert f"{refused} [op-not-spelled]" in said
        assert re.findall(r"also (p\.lg:\d+)", said) == ["p.lg:8"]
        assert "next: build for onnx, or use what" in said
    assert not (place.folder / "made").exists()


def test_without_the_plugin_its_sentence_is_unknown(bare: Place) -> None:
    (bare.folder / "p.lg").write_text(PROGRAM, "utf-8")
    said = bare.logos("check", "p.lg", code=1).stderr
    assert re.findall(r"p\.lg:(\d+):\d+: .* \[unknown-sentence\]", said) == ["7", "8"]
