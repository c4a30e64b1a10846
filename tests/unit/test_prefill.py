"""Prompts many steps at once on the reference machine: errors, the context's end, generation, memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from many_steps import TOKENS, apart, farthest, graph, noise

from logos import Graph, Machine, Refused, run_steps, unroll
from logos.ops import attention
from logos.prefill import Prefill

DECODER = """
Let E be a 8 by 4 tensor of Real.
Let K be a 12 by 4 tensor of Real.
Let O be a 4 by 8 tensor of Real.
Let x be row tok of E.
Set row pos of K to x.
Let a be attention of x over K and K with 2 heads 2 groups up to pos.
Let y be x plus a.
Let logits be y matmul O.
Let next be argmax of logits.
"""
INTEGERS = """
Let big be a 8 by 1 tensor of Int.
Set item 4 of big to 9223372036854775807.
Let T be a 12 by 1 tensor of Int.
Let b be row tok of big.
Let c be b plus pos.
Set row pos of T to c.
Let y be c plus c.
"""


def run(made: Graph, tokens: Sequence[int], steps: int, **more: np.ndarray) -> str:
    """What a run is refused with; empty where it is not."""
    prefill = Prefill(made, steps) if steps > 1 else None
    try:
        run_steps(Machine(made, {**noise(made), **more}), (), tokens, prefill=prefill)
    except Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("steps", [2, 5, 12])
@pytest.mark.parametrize("tokens", [[3], [3] * 11, [3] * 12, [3] * 13, [3, 1] * 9])
def test_a_prompt_of_any_length_is_right_or_one_refusal(tokens: list[int], steps: int) -> None:
    made = graph(DECODER)
    one, many = run(made, tokens, 1), run(made, tokens, steps)
    assert one == many
    assert one.count("[row-outside-table]") == int(len(tokens) > 12)
    if not one:
        assert farthest(made, noise(made), steps, ("logits", "x"), tokens, whole=False) <= 1e-12


@pytest.mark.parametrize("steps", [2, 4, 7, 12])
@pytest.mark.parametrize("tokens", [[1, 2, 3, 8, 1, -1], [8], [1, 1, 9, 8, 7, 1, 1]])
def test_a_token_outside_its_table_is_the_first_one_s_error(tokens: list[int], steps: int) -> None:
    made = graph(DECODER)
    one = run(made, tokens, 1)
    assert run(made, tokens, steps) == one
    first = next(token for token in tokens if not 0 <= token < 8)
    assert f"tok is {first}, outside the rows 0 to 7 of E" in one


def test_an_earlier_step_s_error_comes_before_an_earlier_sentence_s() -> None:
    # At once, the sentence of the token comes first; step by step, the full table does.
    made = graph(DECODER.replace("12 by 4", "3 by 4"))
    message = run(made, [1, 1, 1, 1, 1, 9], 6)
    assert "pos is 3, outside the rows 0 to 2 of K" in message
    assert message == run(made, [1, 1, 1, 1, 1, 9], 1)


CHOICE = """
Let big be a 8 by 1 tensor of Int.
Set item 4 of big to 9223372036854775807.
Let J be a 8 by 1 tensor of Int.
Set item 6 of J to 9.
Let S be a 7 by 2 tensor of Real.
Let T be a 12 by 1 tensor of Int.
Let b be row tok of big.
Let c be b plus b.
Set row pos of T to c.
Let j be row tok of J.
Let z be row j of S.
Let y be row tok of S.
Let x be z plus y.
"""


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([1, 5, 2], "j is 9, outside the rows 0 to 6 of S"),
        ([1, 7, 2], "tok is 7, outside the rows 0 to 6 of S"),
        ([1, 5, 3, 1], "j is 9, outside the rows 0 to 6 of S"),
        ([1, 3, 5, 1], "plus: a result does not fit 64 bits"),
        ([1, 7, 5, 3], "tok is 7, outside the rows 0 to 6 of S"),
    ],
)
def test_the_first_step_s_error_is_said_though_the_last_row_alone_is_asked_for(tokens: list[int], said: str) -> None:
    made = graph(CHOICE)
    message = run(made, tokens, 4)
    assert said in message
    assert message == run(made, tokens, 1)


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_a_nan_in_a_step_whose_head_is_not_made_is_an_error_all_the_same(bad: int) -> None:
    # Without attention nothing carries the NaN on to the last step.
    lines = [line.replace("x plus a", "x plus x") for line in DECODER.splitlines() if " be attention " not in line]
    made = graph("\n".join(lines))
    table = np.ones((8, 4))
    table[bad] = np.nan
    message = run(made, [0, 1, 2, 3, 4, 5], 6, E=table)
    assert "argmax: the operand holds a NaN" in message
    assert message == run(made, [0, 1, 2, 3, 4, 5], 1, E=table)


def test_integers_that_do_not_fit_are_an_error_at_their_step() -> None:
    made = graph(INTEGERS)
    assert run(made, [0, 1, 2, 4], 4) == ""
    assert farthest(made, noise(made), 4, ("c", "y"), [0, 1, 2, 4, 5, 1]) == 0.0
    message = run(made, [0, 1, 3, 1], 4)
    assert "p.lg:8:1: plus: a result does not fit 64 bits [no-value]" in message
    assert message == run(made, [0, 1, 3, 1], 1)
    # Of y alone, which no state needs, every step is made too, since it may be an error.
    assert "p.lg:10:1: plus" in run(made, [3, 1, 1], 3)


def test_generation_goes_on_from_the_last_row() -> None:
    made, counts = graph(DECODER), list[tuple[int, int]]()
    record = run_steps(Machine(made, noise(made)), ["next"], TOKENS[:7], 4)
    prefill = Prefill(made, 3, ["next"])
    taken: list[int] = []

    def goes_on(number: int) -> bool:
        taken.append(number)
        return len(taken) < 3

    machine = Machine(made, noise(made))
    stopped = run_steps(
        machine, ["next"], TOKENS[:7], 4, lambda *now: counts.append(now), goes_on=goes_on, prefill=prefill
    )
    assert stopped.generated == taken == record.generated[:3]
    assert stopped.arrays["next"] == record.arrays["next"][:9]
    assert counts == [(3, 10), (6, 10), (7, 10), (8, 10), (9, 10)]
    again = run_steps(Machine(made, noise(made)), (), TOKENS[:7], 4, prefill=Prefill(made, 5))
    assert again.generated == record.generated


def test_a_value_that_is_the_same_at_every_step_is_recorded_at_every_step() -> None:
    made = graph(DECODER + "Let same be row 1 of O.\n")
    prefill = Prefill(made, 5, ["same", "pos", "O"])
    arrays = run_steps(Machine(made, noise(made)), ["same", "pos", "O"], TOKENS[:7], prefill=prefill)
    assert arrays.stacked("same").shape == (7, 1, 8)
    assert arrays.stacked("O").shape == (7, 4, 8)
    assert arrays.stacked("pos").ravel().tolist() == list(range(7))


def test_rows_past_a_query_s_own_are_not_read() -> None:
    # An infinity times the share 0 of a masked row would be a NaN.
    made = graph(DECODER.replace("Let next be argmax of logits.", ""))
    values, names = noise(made), ["a", "logits"]
    values["E"][7] = np.inf
    tokens = [3, 0, 5, 7, 1]
    one = run_steps(Machine(made, values), names, tokens).stacked("a")
    prefill = Prefill(made, 5, names)
    assert [chunk.steps for chunk in prefill.chunks(Machine(made, values), tokens)] == [5]
    many = run_steps(Machine(made, values), names, tokens, prefill=prefill).stacked("a")
    assert apart(one, many) <= 1e-12
    assert np.isfinite(many[:3]).all()
    assert not np.isfinite(many[3:]).all()


@pytest.mark.parametrize("scores", [1, 10, 47, 200])
def test_attention_takes_a_bounded_number_of_scores_at_a_time(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []
    whole: Callable[..., np.ndarray] = attention._masked

    def masked(Q: np.ndarray, K: np.ndarray, V: np.ndarray, H: int, KV: int, last: np.ndarray) -> np.ndarray:
        sizes.append((len(Q), H * len(Q) * (int(last.max()) + 1)))
        return whole(Q, K, V, H, KV, last)

    monkeypatch.setattr(attention, "_masked", masked)
    monkeypatch.setattr(attention, "_SCORES", scores)
    made = graph(DECODER)
    assert farthest(made, noise(made), 12, ("a",)) <= 1e-12
    assert all(rows == 1 or size <= scores for rows, size in sizes)
    assert any(rows > 1 for rows, _ in sizes) == (scores >= 48)


def test_what_no_later_sentence_reads_gives_its_room_back() -> None:
    layers, steps, width = 40, 64, 2048
    text = f"Let E be a 8 by {width} tensor of Real.\nLet x be row tok of E.\n"
    text += "Let x be silu of x.\n" * layers
    text += f"Let T be a {steps} by {width} tensor of Real.\nSet row pos of T to x.\n"
    made = graph(text)
    prefill, machine = Prefill(made, steps), Machine(made, noise(made))
    tracemalloc.start()
    try:
        run_steps(machine, (), [1] * steps, prefill=prefill)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 8 * steps * width  # all of them would take 40 times what one takes


def test_a_prompt_of_no_tokens_makes_no_steps() -> None:
    made = graph(DECODER)
    machine = Machine(made, noise(made))
    before = machine.states["K"]
    assert list(Prefill(made, 4).chunks(machine, [])) == []
    assert machine.states["K"] is before


def test_the_graph_of_many_steps_takes_its_tokens_in_columns() -> None:
    made = unroll(graph(DECODER), 4)
    machine = Machine(made.graph, noise(graph(DECODER)))
    with pytest.raises(Refused, match="tok is 8, outside the rows 0 to 7 of E"):
        machine.step({"tok": np.array([[1], [8], [9], [1]]), "pos": np.arange(4).reshape(-1, 1)})
