"""Recordings of the reference machine: what they hold, that they resume, and that a build makes each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import Binding, Machine, Recording, Refused, Request, Source, bind_request, load_graph, make_manager
from logos.recording import MOST_STEPS, check_recording, fed_ids, write_recording
from logos.weights.fill import fill
from logos.weights.safetensors import DTYPES, read_header

MANAGER = make_manager()
TOKENS = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 3 tensor of Real.
Let T be a 4 by 3 tensor of Real.
Let shift be a 1 by 3 tensor of Real.
Let x be row tok of emb.
Let x be x plus shift.
Set row pos of T to x.
Let next be argmax of x.
"""
NOISE = """
Let x be a 1 by 3 tensor of Real.
Let c be a 1 by 3 tensor of Real.
Set item 2 of c to 4.
Let S be a 2 by 3 tensor of Real.
Let held be row 1 of S.
Let y be x plus held.
Let y be y plus c.
Set row 1 of S to y.
"""


def bound(text: str, weights: Path | None = None) -> Binding:
    request = Request(Path("p.lg"), weights=weights, source=Source("p.lg", text))
    return bind_request(MANAGER, load_graph(MANAGER, request), request)


def recorded(binding: Binding, folder: Path, steps: int, *outputs: str, **more: Any) -> dict[str, Any]:
    """The file's arrays by key, and its account under the empty key."""
    path = write_recording(binding, Recording("a/r.safetensors", steps, outputs), folder, **more)
    data = path.read_bytes()
    head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    found: dict[str, Any] = {"": json.loads(head["__metadata__"]["logos.recording"])}
    for key, entry in read_header(path).entries.items():
        raw = data[entry.start : entry.start + entry.nbytes]
        found[key] = np.frombuffer(raw, DTYPES[entry.dtype]).reshape(entry.shape)
    return found


def test_a_program_of_tokens_is_fed_ids_of_its_table_and_starts_as_it_does(tmp_path: Path) -> None:
    binding = bound(TOKENS)
    found = recorded(binding, tmp_path, 4, "next")
    ids = found["input.tok"].ravel().tolist()
    assert all(0 <= one < 5 for one in ids)
    assert len(set(ids)) > 1
    assert found["input.pos"].ravel().tolist() == [0, 1, 2, 3]
    values = {leaf.name: fill(binding.graph, leaf, "noise") for leaf in binding.graph.leaves if not leaf.state}
    machine, taps = Machine(binding.graph, values), binding.graph.taps
    for step in range(4):
        now = machine.step({name: found[f"input.{name}"][step] for name in ("tok", "pos")})
        assert found["expected.next"][step] == now[taps["next"]]
        assert np.array_equal(found["expected.x"][step], now[taps["x"]])
        if step == 0:
            assert np.array_equal(found["stage.x@1"], now[taps["x@1"]])
    assert found["rows.T"].tolist() == [[step, step] for step in range(4)]
    assert np.array_equal(found["written.T"], machine.states["T"])
    assert np.array_equal(found["weight.emb"], values["emb"])
    assert not [key for key in found if key.startswith("state.")]


def test_the_account_says_what_is_compared_and_how(tmp_path: Path) -> None:
    said = recorded(bound(TOKENS), tmp_path, 2, "next")[""]
    assert said == {
        "version": 1,
        "steps": 2,
        "compared": ["next", "x", "T"],
        "bounds": {"float64": 1e-9, "float32": 1e-4, "bfloat16": 0.2, "integer": 0.0},
        "choices": {"next": "x"},
        "order": [["x@1", "embedding", 7], ["x", "plus", 8], ["T", "set row", 9], ["next", "argmax", 10]],
    }


def test_without_tokens_states_start_at_noise_and_go_on(tmp_path: Path) -> None:
    found = recorded(bound(NOISE), tmp_path, 3, "y")
    first, x = found["state.S"], found["input.x"][0]
    assert np.abs(first).max() > 0
    assert found["input.x"].shape == (1, 1, 3)
    assert found["expected.y"][0].tolist() == (x + first[1] + [[0, 4, 0]]).tolist()
    assert found["expected.y"][2].tolist() == (found["expected.y"][1] + x + [[0, 4, 0]]).tolist()
    assert found["rows.S"].tolist() == [[0, 1], [1, 1], [2, 1]]
    assert not [key for key in found if key.startswith("weight.")]


def test_weights_that_a_folder_holds_are_not_repeated(tmp_path: Path) -> None:
    np.arange(15.0).reshape(5, 3).tofile(tmp_path / "emb.f64")
    found = recorded(bound(TOKENS, tmp_path), tmp_path / "out", 1, "next")
    assert "weight.emb" not in found
    assert found["stage.x@1"].tolist() == [[3.0 * found["input.tok"][0, 0, 0] + column for column in range(3)]]


def test_a_run_that_was_interrupted_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recorded(bound(TOKENS), tmp_path / "whole", 4, "next")

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(bound(TOKENS), tmp_path / "cut", 4, "next", progress=stop)
    assert not list((tmp_path / "cut").rglob("*.safetensors"))
    made: list[int] = []
    step = Machine.step
    monkeypatch.setattr(Machine, "step", lambda machine, inputs: made.append(1) or step(machine, inputs))
    again = recorded(bound(TOKENS), tmp_path / "cut", 4, "next")
    assert len(made) == 2
    assert again.keys() == whole.keys()
    assert all(np.array_equal(again[key], whole[key]) for key in whole if key)
    assert [path.name for path in (tmp_path / "cut" / "a").iterdir()] == ["r.safetensors"]


def test_what_an_interrupted_run_of_another_program_made_is_not_taken_over(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(bound(NOISE), tmp_path, 2, "y", progress=stop)
    other = recorded(bound(NOISE.replace("y plus c", "y hadamard c")), tmp_path, 2, "y")
    assert other["expected.y"][0, 0, 1] == 4 * (other["input.x"][0, 0, 1] + other["state.S"][1, 1])


def test_more_steps_than_rows_are_refused() -> None:
    graph = bound(TOKENS).graph
    check_recording(graph, Recording("r.safetensors", 4, ("next",)))
    with pytest.raises(Refused) as refused:
        check_recording(graph, Recording("r.safetensors", 5, ("next",)))
    assert str(refused.value) == (
        "p.lg: r.safetensors records 5 steps, and pos is a row of T [recording-too-long]\n"
        "  next: T has 4 rows: ask for at most 4 steps"
    )


def test_more_steps_than_a_recording_holds_are_refused() -> None:
    graph = bound(NOISE).graph
    check_recording(graph, Recording("r.safetensors", MOST_STEPS, ("y",)))
    with pytest.raises(Refused) as refused:
        check_recording(graph, Recording("r.safetensors", 10**20, ("y",)))
    assert str(refused.value) == (
        "p.lg: r.safetensors records 100000000000000000000 steps, beyond 100000 [recording-too-long]\n"
        "  next: ask for at most 100000 steps"
    )


def test_a_nan_is_refused_where_it_is_made(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    np.save(weights / "c.npy", np.array([[1, np.nan, 2]]))
    with pytest.raises(Refused) as refused:
        recorded(bound(NOISE, weights), tmp_path / "out", 2, "y")
    assert str(refused.value) == (
        "p.lg:8:1: y holds a NaN at step 0 of the reference machine: no run agrees with it [recording-nan]\n"
        "    Let y be y plus c.\n    ^^^^^^^^^^^^^^^^^\n"
        "  next: look at the weights and at what the sentence reads: `logos run --get` shows them"
    )
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_a_recording_makes_a_step_at_least() -> None:
    with pytest.raises(ValueError, match="at least one step, not 0"):
        Recording("r.safetensors", 0, ())


def test_ids_are_the_same_for_every_program_of_a_vocabulary() -> None:
    assert fed_ids(bound(TOKENS).graph, 3)["tok"].tolist() == fed_ids(bound(TOKENS).graph, 5)["tok"][:3].tolist()
    assert fed_ids(bound(NOISE).graph, 3) == {}
