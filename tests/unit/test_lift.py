"""Both readers, of sentences and of loops, agree on every operation; an op whose loops mean another thing is named."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Logos
from loop_cases import graphs

from logos import OPS, Op, Refused, Source, make_manager
from logos.author import preset_program
from logos.check import read_program
from logos.cli.check import _cross
from logos.grammar import make_grammar
from logos.lift import _readings, disagreements, lift
from logos.ops.arithmetic import plus_loops

(_PLUS,) = (op for op in OPS if op.name == "plus")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_both_readers_agree_on_every_op(op: Op) -> None:
    lifted = [one for graph in graphs(op, Random(8), range(1, 6)) for one in lift(graph, OPS)]
    assert all(one.agrees for one in lifted)
    assert any(one.loops is not None and one.node.op is op for one in lifted)


def with_minus(op: Op) -> str:
    """What `minus`, an op of this declaration, is refused with."""
    ops = (*OPS, op)
    text = "Let x be a 2 by 2 tensor of Real.\nLet y be x plus x.\nLet z be x minus y.\n"
    graph = read_program(Source("p.lg", text), make_grammar(ops))
    with pytest.raises(Refused) as refused:
        raise Refused(disagreements(lift(graph, ops)))
    return str(refused.value)


def test_an_op_whose_loops_are_another_ops_is_named() -> None:
    minus = replace(_PLUS, name="minus", pattern_text="A minus B", value=lambda A, B: A - B, loops=plus_loops)
    assert with_minus(minus) == (
        "p.lg:3:1: the sentence is minus (A v1, B v2), but its loops are read as plus (A v1, B v2) [readers-disagree]\n"
        "    Let z be x minus y.\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  next: tell the authors of the op minus: its sentence and its loops mean different things"
    )


def test_an_op_whose_loops_are_out_of_range_is_named() -> None:
    wide = replace(
        _PLUS,
        name="minus",
        pattern_text="A minus B",
        loops=lambda form: plus_loops(form).replace("row, column of A", "row + 5, column of A"),
    )
    assert "but its loops are read as loop () [readers-disagree]" in with_minus(wide)


def test_an_op_without_loops_stays_a_sentence() -> None:
    ops = (*OPS, replace(_PLUS, name="minus", pattern_text="A minus B", loops=None))
    text = "Let x be a 2 by 2 tensor of Real.\nLet z be x minus x.\n"
    (one,) = lift(read_program(Source("p.lg", text), make_grammar(ops)), ops)
    assert (one.loops, one.agrees) == (None, True)
    manager: Any = SimpleNamespace(ops=ops)
    assert _cross(manager, read_program(Source("p.lg", text + "Let y be z plus x.\n"), make_grammar(ops))) == (1, 1)


def test_a_model_of_48_layers_is_crossed_in_time_that_grows_with_its_sentences() -> None:
    manager = make_manager()
    seconds = []
    for layers in (12, 48):
        text = preset_program(manager, "qwen3-30b-a3b", 2048, layers)
        graph = read_program(Source("p.lg", text), manager.grammar)
        _readings.cache_clear()
        start = time.process_time()
        lifted = lift(graph, manager.ops)
        seconds.append(time.process_time() - start)
        assert all(one.agrees and one.loops is not None for one in lifted)
    assert seconds[1] <= 2.0
    assert seconds[1] <= 6.0 * seconds[0]


def test_check_says_how_many_operations_agree(logos: Logos, tmp_path: Path) -> None:
    text = "Let s be a 1 by 2 tensor of Real.\nLet y be silu of s.\nSet row 0 of s to y.\n"
    (tmp_path / "p.lg").write_text(text, encoding="utf-8")
    ran = logos("check", str(tmp_path / "p.lg"), "--cross")
    assert "cross: both readers agree on 2 operations\n" in ran.out
    assert '"crossed": 2' in logos("check", str(tmp_path / "p.lg"), "--cross", "--json").out
