"""The oracles' programs by the cuda target on the host, many steps at once: every logit and the states left."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import Machine, Request, Source, bind_request, load_graph, make_job, make_manager, run_steps
from logos.author import Author, author_program
from logos.execution import write_artifact
from logos.values import run_values
from logos_cuda.host_build import compile_host

CASES = ("llama-tiny-untied", "llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")
STEPS = (1, 2, 3, 7, 12)
QUICK = {("qwen35moe-tiny", 7)}
"""The model that has every kind of layer: gated delta rules, attention, experts and a shared one."""

MANAGER = make_manager()
Arrays = dict[str, NDArray[Any]]


def request_of(checkpoint: Path, **options: str) -> Request:
    source = Source("m.lg", author_program(MANAGER, Author(checkpoint, 24), None))
    return Request(checkpoint, checkpoint, source=source, options=options)


@cache
def due(checkpoint: Path, tokens: tuple[int, ...]) -> tuple[Arrays, Arrays]:
    """What single steps on the reference machine give: logits and choices at every position, the states at the end."""
    request = request_of(checkpoint)
    graph = load_graph(MANAGER, request)
    values = run_values(bind_request(MANAGER, graph, request), {}, None, ("tok", "pos"))
    machine = Machine(graph, values)
    record = run_steps(machine, ["logits", "next"], tokens)
    return {name: record.stacked(name) for name in ("logits", "next")}, machine.states


def apart(found: NDArray[Any], due: NDArray[Any]) -> float:
    assert found.shape == due.shape
    return float(np.max(np.abs(found - due)) / np.max(np.abs(due)))


@pytest.mark.parametrize(
    ("case", "steps"),
    [
        pytest.param(case, steps, marks=() if (case, steps) in QUICK else pytest.mark.slow)
        for case in CASES
        for steps in STEPS
    ],
)
def test_logits_at_every_position_and_final_states(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str, steps: int
) -> None:
    checkpoint, tokens = oracles / case / f"{case}-q8_0.gguf", tuple(oracle_cases[case]["tokens"])
    rows, states = due(checkpoint, tokens)
    target, job = make_job(MANAGER, request_of(checkpoint, prefill=str(steps), q8="none"), "cuda")
    write_artifact(target, job, {}, tmp_path)
    compile_host(tmp_path / "forward.cu", tmp_path / "forward", flags=["-O1"])
    given = ("--tokens", ",".join(map(str, tokens)))
    for number, names in enumerate((list(rows), [*rows, *states])):
        out = tmp_path / f"out{number}"
        subprocess.run([tmp_path / "forward", *given, "--get", ",".join(names), "--dump", out], check=True)
        found = {name: np.load(out / f"{name}.npy") for name in names}
        assert [name for name in rows if apart(found[name], rows[name]) > (1e-4 if name == "logits" else 0)] == []
        assert [name for name in names if name in states and apart(found[name][-1], states[name]) > 1e-4] == []
    oracle = np.load(oracles / case / "logits_q8_weights_f64.npy")
    assert apart(found["logits"][:, 0], oracle) <= 1e-4
