"""The loop over token ids: what is fed, how many steps are made, what is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from logos import Graph, Machine, Refused, Source, run_steps
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.reference import fed_by_tokens

# The next id is the current one's successor plus the step's number, all kept in a state.
PROGRAM = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let seen be a 8 by 1 tensor of Int.
Let ladder be a 8 by 8 tensor of Real.
Set row pos of seen to tok.
Let score be row tok of ladder.
Let next be argmax of score.
"""


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), make_grammar(OPS))


def machine() -> Machine:
    return Machine(graph(PROGRAM), {"ladder": np.roll(np.eye(8), 1, axis=1)})


def test_tokens_alone_make_a_step_each() -> None:
    record = run_steps(machine(), ["next", "pos", "seen"], [3, 0, 5])
    assert record.stacked("next").ravel().tolist() == [4, 1, 6]
    assert record.stacked("pos").ravel().tolist() == [0, 1, 2]
    assert record.stacked("seen").shape == (3, 8, 1)
    assert record.stacked("seen")[:, :3, 0].tolist() == [[3, 0, 0], [3, 0, 0], [3, 0, 5]]
    assert record.generated == []


@pytest.mark.parametrize("count", [1, 2, 4])
def test_generation_makes_one_step_less_than_tokens_and_ids(count: int) -> None:
    taps: list[tuple[int, int]] = []
    record = run_steps(machine(), ["next", "tok"], [6, 2], generate=count, progress=lambda *now: taps.append(now))
    assert record.generated == [3, 4, 5, 6][:count]
    assert len(record.arrays["next"]) == 2 + count - 1
    assert record.stacked("tok").ravel().tolist() == [6, 2, 3, 4, 5][: 1 + count]
    assert taps == [(step, 1 + count) for step in range(1, 2 + count)]


def test_without_tokens_one_step_is_made_on_the_values_given() -> None:
    made = graph("Let pos be a 1 by 1 tensor of Int.\nLet x be a 4 by 1 tensor of Int.\nLet y be row pos of x.")
    values = {"x": np.array([[7], [5], [3], [1]]), "pos": np.array([[2]])}
    assert run_steps(Machine(made, values), ["y"]).stacked("y").tolist() == [[[3]]]


def test_a_token_outside_its_table_stops_at_its_sentence() -> None:
    with pytest.raises(Refused) as refused:
        run_steps(machine(), [], [1, 8])
    (one,) = refused.value.refusals
    assert one.where is not None
    assert (one.code, one.where.label()) == ("row-outside-table", "p.lg:7:1")
    assert one.what == "tok is 8, outside the rows 0 to 7 of ladder"


def test_a_position_outside_its_table_stops_at_its_sentence() -> None:
    with pytest.raises(Refused, match="pos is 8, outside the rows 0 to 7 of seen"):
        run_steps(machine(), [], [1], generate=9)


def test_what_is_fed() -> None:
    assert fed_by_tokens(graph(PROGRAM)) == ("tok", "pos")
    without = PROGRAM.replace("Let pos be a 1 by 1 tensor of Int.", "").replace("row pos", "row 0")
    assert fed_by_tokens(graph(without)) == ("tok",)


@pytest.mark.parametrize("pos", ["1 by 1 tensor of Real", "1 by 8 tensor of Int"])
def test_a_pos_that_is_no_single_int_is_an_input_like_any_other(pos: str) -> None:
    made = graph(f"Let tok be a 1 by 1 tensor of Int.\nLet pos be a {pos}.\nLet y be pos plus tok.")
    assert fed_by_tokens(made) == ("tok",)
    shape = (1, 1) if "Real" in pos else (1, 8)
    given = np.zeros(shape, np.float64 if "Real" in pos else np.int64)
    assert run_steps(Machine(made, {"pos": given}), ["y"], [4]).stacked("y").tolist() == [(given + 4).tolist()]


@pytest.mark.parametrize("tok", ["Let tok be a 1 by 1 tensor of Real.", "Let tok be a 1 by 2 tensor of Int.", "",
                                 "Let tok be a 1 by 1 tensor of Int.\nSet row 0 of tok to x."])  # fmt: skip
def test_tokens_need_an_input_for_them(tok: str) -> None:
    made = graph(f"Let x be a 1 by 1 tensor of Int.\n{tok}\nLet y be transpose of x.")
    with pytest.raises(Refused) as refused:
        fed_by_tokens(made)
    assert [one.code for one in refused.value.refusals] == ["no-token-input"]


def test_what_tokens_feed_takes_no_other_value() -> None:
    with pytest.raises(Refused, match="--tokens feeds pos at every step"):
        fed_by_tokens(graph(PROGRAM), {"ladder", "pos"})


def test_only_a_single_int_output_generates() -> None:
    text = "Let tok be a 1 by 1 tensor of Int.\nLet e be a 2 by 2 tensor of Real.\nLet y be row tok of e."
    with pytest.raises(Refused, match="the output y is 1 by 2, not one token id"):
        run_steps(Machine(graph(text), {"e": np.eye(2)}), [], [0], generate=1)
