"""The sample's own op: in programs, on the reference machine, many steps at once, in onnx; refused by the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from places import Place

from logos import Machine, Refused, Request, Source, make_job, make_manager, print_program, read_program, unroll

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


@pytest.mark.usefixtures("in_process")
def test_a_word_that_does_not_fit_is_refused_as_in_any_op() -> None:
    text = "Let x be a 1 by 2 tensor of Real.\nLet y be squared relo of x.\n"
    with pytest.raises(Refused) as refused:
        read_program(Source("p.lg", text), make_manager().grammar)
    (refusal,) = refused.value.refusals
    assert "relu" in refusal.text()
    assert refusal.where is not None
    assert refusal.where.label().startswith("p.lg:2:")


@pytest.mark.usefixtures("in_process")
def test_the_others_refuse_it_by_name_with_every_place() -> None:
    manager, source = make_manager(), Source("p.lg", PROGRAM)
    for target in ("cuda", "rdu-sambaflow"):
        with pytest.raises(Refused) as refused:
            make_job(manager, Request(Path("p.lg"), source=source), target)
        (refusal,) = (one for one in refused.value.refusals if one.code == "op-not-spelled")
        what = f"target {target} does not spell the op squared relu (spelled by the installed target onnx)"
        assert (refusal.what, refusal.where.label() if refusal.where else None) == (what, "p.lg:7:1")
        assert [place.label() for place in refusal.also] == ["p.lg:8:1"]
        assert refusal.next.startswith("build for onnx, or use what")
    make_job(manager, Request(Path("p.lg"), source=source), "onnx")


@pytest.mark.slow
def test_onnx_verifies_it(place: Place) -> None:
    (place.folder / "p.lg").write_text(PROGRAM, "utf-8")
    assert "float32   both  " in place.logos("verify", "p.lg", "--target", "onnx").stdout


def test_without_the_plugin_its_sentence_is_unknown() -> None:
    with pytest.raises(Refused) as refused:
        read_program(Source("p.lg", PROGRAM), make_manager().grammar)
    places = [one.where.label() for one in refused.value.refusals if one.where and one.code == "unknown-sentence"]
    assert [place.split(":")[1] for place in places] == ["7", "8"]
