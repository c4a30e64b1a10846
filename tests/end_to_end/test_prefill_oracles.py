"""The oracles' programs many steps at once: every logit, state and greedy id as single steps give them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import Graph, Machine, Request, Source, bind_request, load_graph, make_manager, run_steps, unroll
from logos.author import Author, author_program
from logos.prefill import Prefill
from logos.reference import Record
from logos.values import run_values

CASES = ("llama-tiny-untied", "llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")
Arrays = dict[str, NDArray[Any]]


@cache
def model(checkpoint: Path) -> tuple[Graph, Arrays]:
    manager = make_manager()
    text = author_program(manager, Author(checkpoint, 32), None)
    request = Request(checkpoint, checkpoint, source=Source("model.lg", text))
    graph = load_graph(manager, request)
    return graph, run_values(bind_request(manager, graph, request), {}, None, ("tok", "pos"))


@cache
def single(checkpoint: Path, tokens: tuple[int, ...]) -> tuple[Record, Arrays]:
    graph, values = model(checkpoint)
    machine = Machine(graph, values)
    return run_steps(machine, ["logits", "next"], tokens), machine.states


def apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    assert one.shape == other.shape
    return float(np.abs(one - other).max() / np.abs(one).max())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 12, 24])
def test_logits_at_every_position_and_final_states(
    oracles: Path, oracle_cases: dict[str, Any], case: str, steps: int
) -> None:
    checkpoint, tokens = oracles / case / f"{case}-q8_0.gguf", tuple(oracle_cases[case]["tokens"])
    graph, values = model(checkpoint)
    expected, states = single(checkpoint, tokens)
    for names in (["logits", "next"], list[str]()):
        machine, prefill = Machine(graph, values), Prefill(graph, steps, names)
        sizes = [chunk.steps for chunk in prefill.chunks(Machine(graph, values), tokens)]
        assert sizes == [steps] * (24 // steps) + [24 % steps] * (24 % steps > 0)
        record = run_steps(machine, names, tokens, prefill=prefill)
        assert all(apart(state, machine.states[name]) <= 1e-12 for name, state in states.items())
        assert apart(expected.last[graph.taps["logits"]], record.last[graph.taps["logits"]]) <= 1e-12
        for name in names:
            assert apart(expected.stacked(name), record.stacked(name)) <= (1e-12 if name == "logits" else 0.0)


@pytest.mark.parametrize("case", CASES)
def test_of_the_last_layer_the_states_alone_are_made_for_every_step(oracles: Path, case: str) -> None:
    graph, _ = model(oracles / case / f"{case}-q8_0.gguf")
    made = unroll(graph, 8)
    newest = {value.name: value for value in graph.newest().values()}
    wide = {value.name for value in made.stepwise}
    assert {"logits", "next", "xn"} & wide == set()
    last = max(int(name[1:]) for name in newest if name[0] == "x" and name[1:].isdigit())
    assert f"x{last - 1}" in wide
    assert {f"x{last}", f"y{last - 1}", f"f{last - 1}"} & wide == set()
    assert all(leaf.value.shape == (8, 1) for leaf in made.graph.leaves if leaf.name in ("tok", "pos"))
