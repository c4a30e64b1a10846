"""Launches and bytes of a decode step, counted while the emitted program runs, against the bounds and the plan."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from logos import DevicePlan, Job, Request, make_job, make_manager
from logos.cli.main import cli
from logos_cuda.emit import emit_forward
from logos_cuda.host_build import compile_host
from logos_cuda.stages import Element
from logos_cuda.target import CudaTarget, graph_of
from logos_cuda.work import bytes_of

STEPS = 20
"""Steps before the one that is counted."""

LAYERS = {
    "llama-tiny-untied": (8,) * 3,
    "qwen3-tiny": (8,) * 3,
    "qwen3moe-tiny": (9, 10),
    "qwen35-tiny": (8, 8, 8, 9),
    "qwen35moe-tiny": (11, 11, 11, 12),
}
"""Launches of each layer. A gated delta with a dense part takes 8, attention 8, a gate on it one more; routed experts
take one more than a dense part, a shared expert two more. The last norm of qwen3moe adds what its experts make, so it
counts to the last layer."""

BOUNDS = {"llama-tiny-untied": 9, "qwen3-tiny": 9, "qwen3moe-tiny": 10, "qwen35-tiny": 9, "qwen35moe-tiny": 12}

OUTSIDE = 6
"""The embedding, a row each of cosines and sines, the last norm, the head, the argmax."""


def job_of(oracles: Path, case: str, folder: Path) -> Job:
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    given = ["author", str(checkpoint), "-o", str(folder / "m.lg"), "--context", "32", "-q"]
    cli.main(given, prog_name="logos", standalone_mode=False)
    request = Request(folder / "m.lg", checkpoint, options={"compile": "off"})
    return make_job(make_manager(), request, "cuda")[1]


def extracted(job: Job, folder: Path) -> Path:
    """The weights' files."""
    assert job.binding.checkpoint is not None
    given = ["build", str(folder / "m.lg"), "--target", "cuda", "--checkpoint", str(job.binding.checkpoint.path)]
    command = [sys.executable, "-m", "logos", *given, "--out", str(folder / "out"), "-D", "compile=off", "-q"]
    subprocess.run(command, check=True)
    return folder / "out" / "weights"


def counted(program: Path, weights: Path, steps: int) -> tuple[Counter[str], Counter[int]]:
    """The launches, by kernel, and the bytes loaded from each allocation, of so many steps."""
    path = program.with_suffix(f".{steps}")
    tokens = ",".join(str(3 + step) for step in range(steps))
    command = [program, "--weights", weights, "--tokens", tokens]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "LOGOS_HOST_COUNT": str(path)})
    lines = [line.split() for line in path.read_text("utf-8").splitlines()]
    launches = Counter(words[1] for words in lines if words[0] == "launch")
    return launches, Counter({int(words[1]): int(words[2]) for words in lines if words[0] == "read"})


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "qwen3-tiny" else pytest.mark.slow) for case in LAYERS]
)
def test_a_step_launches_and_reads_what_the_plan_says(oracles: Path, tmp_path: Path, case: str) -> None:
    job = job_of(oracles, case, tmp_path)
    graph, plan = graph_of(job), CudaTarget().device_plan(job)
    source = tmp_path / "forward.cu"
    source.write_text(emit_forward(graph), encoding="utf-8")
    compile_host(source, tmp_path / "forward", flags=["-O1", "-DLOGOS_HOST_COUNT"])
    weights = extracted(job, tmp_path)
    before, loaded_before = counted(tmp_path / "forward", weights, STEPS)
    after, loaded_after = counted(tmp_path / "forward", weights, STEPS + 1)
    launches, loaded = after - before, loaded_after - loaded_before

    planned = Counter(f"{name}_kernel" for stage in plan.stages for name in stage.launches)
    assert launches == planned
    assert sum(launches.values()) == sum(LAYERS[case]) + OUTSIDE - (case == "qwen3moe-tiny")
    assert by_layer(job, plan) == LAYERS[case]
    assert max(LAYERS[case]) <= BOUNDS[case]

    # The driver allocates the buffers in order, those of inner values last. Weights that products read, and tables:
    # each byte is loaded once.
    kept = [buffer for buffer in graph.buffers if not buffer.inner]
    scales = {buffer.scales: buffer for buffer in kept if buffer.scales is not None}
    found: Counter[str] = Counter()
    for number, buffer in enumerate(kept):
        value = scales.get(buffer, buffer).value
        if value is not None and number in loaded:
            found[value.name] += loaded[number]
    due = dict(due_bytes(job))
    read = {name: count for name, count in found.items() if name in due}
    assert read == {name: round(count) for name, count in due.items()}

    # What is left of the plan's bytes are norms, taps, rows of tables, and the memories of a delta rule.
    work = plan.work
    cached = work.cached * (STEPS + 1)
    states = {leaf.name for leaf in job.graph.states}
    assert sum(count for name, count in read.items() if name in states) == cached
    assert 0.9 * work.weights <= sum(count for name, count in read.items() if name not in states) <= work.weights


def by_layer(job: Job, plan: DevicePlan) -> tuple[int, ...]:
    """The launches of each layer: a stage is of the layer whose weights it reads, or which its values name."""
    from logos.device_plan import by_layer as sums

    return tuple(one.launches for one in sums(job.graph, plan) if one.layer is not None)


def due_bytes(job: Job) -> list[tuple[str, float]]:
    """The least bytes of each weight that a product or experts read, and of each table that attention reads."""
    graph = graph_of(job)
    due = []
    for leaf in job.graph.leaves:
        readers = {(node.op.name, hole): node for node, hole in job.graph.readers(leaf.name)}
        whole = bytes_of(graph.held[leaf.value])
        if leaf.state and any(op == "attention" for op, _ in readers):
            assert graph.held[leaf.value].element is Element.HALF
            due.append((leaf.name, whole * (STEPS + 1) / leaf.value.rows))
        elif ("moe", "WR") in readers or any((op, hole) == ("matmul", "B") for op, hole in readers):
            due.append((leaf.name, whole))
        elif experts := next((node for (op, hole), node in readers.items() if op == "moe" and hole != "X"), None):
            due.append((leaf.name, whole * experts.sizes["TOP"] / experts.sizes["EXPERTS"]))
    return due


PRESETS = {
    # Of a card's gigabytes, at a context of 4,096: the bytes of a step without cached positions, and the card.
    "qwen3-30b-a3b": (3.270e9, "L40S"),
    "qwen3-8b": (8.04e9, "RTX 3060"),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_published_model_reads_the_least_and_fits(tmp_path: Path, preset: str) -> None:
    """Bytes and launches of an emitted step: each layer's as of the small models, which were counted."""
    path = tmp_path / "m.lg"
    given = ["author", "--preset", preset, "-o", str(path), "--context", "4096", "-q"]
    cli.main(given, prog_name="logos", standalone_mode=False)
    job = make_job(make_manager(), Request(path, options={"compile": "off", "q8": "*"}), "cuda")[1]
    plan = CudaTarget().device_plan(job)
    least, card = PRESETS[preset]
    assert abs(plan.work.bytes_at(0) - least) <= 0.02 * least
    assert {fit.card.name: fit.fits for fit in plan.fits(4096)}[card]
    launched = re.findall(r"^    LAUNCH\((\w+)_kernel", emit_forward(graph_of(job)), re.MULTILINE)
    assert Counter(launched) == Counter(name for stage in plan.stages for name in stage.launches)
