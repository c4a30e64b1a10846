"""Every op's loops: they compute what the op computes, and they are recognized as the op."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from loop_cases import GRAMMAR, arguments, graphs, the_loop
from numpy.typing import NDArray

from logos import OPS, Graph, Machine, Op, Refused, Request, Source, bind_request, make_manager, print_program
from logos.author import Author, author_program
from logos.check import read_program
from logos.desugar import desugar
from logos.loops.forms import distinct, forms_of, own_loop
from logos.loops.recognize import recognize_loop
from logos.loops.records import lines
from logos.loops.text import read_loops
from logos.reference import each_step, initial
from logos.values import run_values
from logos.weights.fill import fill

FEW, MANY = 2, 60


def values(graph: Graph) -> dict[str, NDArray[Any]]:
    return {leaf.name: initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")
            for leaf in graph.leaves}  # fmt: skip


def compare(graph: Graph, given: dict[str, NDArray[Any]], steps: int, bound: float) -> None:
    """The program's loops, run as they stand, give what its ops give: outputs and states after some steps."""
    loops = read_program(Source("loops.lg", desugar(graph)), GRAMMAR, recognize=False)
    assert {node.op.name for node in loops.nodes} == {"loop"}
    expected, found = Machine(graph, given), Machine(loops, given)
    for _ in range(steps):
        want, got = expected.step(), found.step()
    pairs = [(want[graph.output], got[loops.output])]
    pairs += [(expected.states[name], found.states[name]) for name in expected.states]
    for one, other in pairs:
        assert one.dtype == other.dtype
        if one.dtype.kind == "i":
            assert np.array_equal(one, other)
        else:
            assert np.abs(one - other).max() <= bound * max(1.0, float(np.abs(one).max()))


def check_op(op: Op, number: int, seed: int) -> None:
    for graph in graphs(op, Random(seed), range(1, 7), number):
        compare(graph, values(graph), 2, 1e-12)
        node = graph.nodes[0]
        loop, tensors, out = the_loop(node)
        (again,) = read_loops("\n".join(lines((loop,))))
        assert again == loop
        found = recognize_loop(again, tensors, out, OPS)  # type: ignore[arg-type]
        assert found is not None
        assert found[0] is op
        assert found[1] == arguments(node)
        lifted = read_program(Source("loops.lg", desugar(graph)), GRAMMAR)
        assert [(node.op, node.operands, node.sizes) for node in lifted.nodes] == [
            (node.op, node.operands, node.sizes) for node in graph.nodes
        ]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_loops_equal_the_op_and_are_recognized_as_it(op: Op) -> None:
    check_op(op, FEW, 1)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_loops_equal_the_op_in_many_shapes(op: Op) -> None:
    check_op(op, MANY, 2)


def test_every_op_says_its_loops_and_no_two_say_the_same() -> None:
    said: dict[str, str] = {}
    for op in OPS:
        assert forms_of(op), op.name
        for form in forms_of(op):
            text = "\n".join(lines((distinct(own_loop(op, form)),)))
            assert said.setdefault(text, op.name) == op.name


def test_loops_of_ints_are_exact_or_an_error() -> None:
    text = (
        "Let a be a 1 by 2 tensor of Int.\nLet b be a 2 by 1 tensor of Int.\n"
        "Set item 1 of a to 4611686018427387904.\nSet item 2 of a to 3.\n"
        "Set item 1 of b to 1.\nSet item 2 of b to 2.\nLet y be a matmul b.\n"
    )
    graph = read_program(Source("p.lg", text), GRAMMAR)
    compare(graph, values(graph), 1, 0.0)
    over = Source("p.lg", desugar(graph).replace("Set item 1 of b to 1", "Set item 1 of b to 2"))
    loops = read_program(over, GRAMMAR, recognize=False)
    with pytest.raises(Exception, match=r"loop: a result does not fit 64 bits \[no-value\]"):
        Machine(loops, values(loops)).step()


def test_a_name_that_is_produced_again_gets_a_name_for_each_time() -> None:
    text = (
        "Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.\nShow y.\nLet y be y plus x.\n"
        "Let y be transpose of y.\nLet y_1 be silu of y.\nShow item 2 of y.\n"
    )
    graph = read_program(Source("p.lg", text), GRAMMAR)
    loops = desugar(graph)
    assert "Show y_1_.\n" in loops
    assert "Let y be a 2 by 1 tensor of Real.\n" in loops
    compare(graph, values(graph), 1, 1e-12)


def test_a_loop_that_no_op_computes_is_printed_and_read_again() -> None:
    text = (
        "Let x be a 1 by 3 tensor of Real.\nLet y be a 1 by 3 tensor of Real.\n"
        "Repeat for i from 1 to 3:\n  Set item i of y to item 4 - i of x / 2.\nLet z be silu of y.\n"
    )
    graph = read_program(Source("p.lg", text), GRAMMAR)
    assert [node.op.name for node in graph.nodes] == ["loop", "silu"]
    assert read_program(Source("q.lg", print_program(graph)), GRAMMAR).nodes[1].op.name == "silu"
    assert print_program(read_program(Source("q.lg", print_program(graph)), GRAMMAR)) == print_program(graph)
    assert "Repeat for i from 1 to 3:\n  Set item i of y to item 4 - i of x / 2.\nRepeat" in desugar(graph)


@pytest.mark.parametrize("name", ["decay", "moe", "argmax"])
def test_loops_make_of_a_nan_what_the_op_makes(name: str) -> None:
    (op,) = (op for op in OPS if op.name == name)
    compare_special(op, np.nan, 3)


@pytest.mark.slow
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1e308, -800.0])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_loops_make_of_numbers_out_of_the_way_what_the_op_makes(op: Op, special: float) -> None:
    for seed in range(4, 7):
        compare_special(op, special, seed)


def compare_special(op: Op, special: float, seed: int) -> None:
    """One item of one operand, of each in turn, is a special number."""
    random = Random(seed)
    for graph in graphs(op, random, range(1, 4)):
        given = values(graph)
        reals = [value for value in given.values() if value.dtype.kind == "f"]
        for array in reals:
            kept = array.copy()
            array.reshape(-1)[random.randrange(array.size)] = special
            loops = read_program(Source("loops.lg", desugar(graph)), GRAMMAR, recognize=False)
            want, got = outcome(graph, given), outcome(loops, given)
            assert (want is None) == (got is None)
            for one, other in zip(want or (), got or (), strict=True):
                assert np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)
            array[...] = kept


def outcome(graph: Graph, given: dict[str, NDArray[Any]]) -> list[NDArray[Any]] | None:
    """The output and the states of a step; None where it is refused."""
    machine = Machine(graph, given)
    try:
        made = machine.step()
    except Refused:
        return None
    return [made[graph.output], *(machine.states[name] for name in sorted(machine.states))]


def test_the_loops_of_a_whole_model_give_its_logits(oracles: Any) -> None:
    manager = make_manager()
    checkpoint = oracles / "qwen35-tiny" / "qwen35-tiny-q8_0.gguf"
    source = Source("tiny.lg", author_program(manager, Author(checkpoint, context=4), None))
    graph = read_program(source, manager.grammar)
    binding = bind_request(manager, graph, Request(Path("tiny.lg"), checkpoint, source=source))
    given = run_values(binding, {}, None, ("tok", "pos"))
    loops = read_program(Source("loops.lg", desugar(graph)), manager.grammar, recognize=False)
    assert {node.op.name for node in loops.nodes} == {"loop"}
    expected, found = (list(each_step(Machine(made, given), (7, 3))) for made in (graph, loops))
    for want, got in zip(expected, found, strict=True):
        one, other = (now[made.taps["logits"]] for now, made in ((want, graph), (got, loops)))
        assert np.abs(one - other).max() <= 1e-10 * np.abs(one).max()
