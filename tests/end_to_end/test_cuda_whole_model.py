"""Qwen3-30B-A3B of 48 layers as CUDA: how fast it is emitted and compiled, how few kernels and launches it takes."""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from logos import Graph, Source, make_manager, read_program
from logos.author import preset_program
from logos_cuda import emit_forward, forward_graph
from logos_cuda.compiling import COMPILE, arch_flags


def model(layers: int) -> Graph:
    manager = make_manager()
    return read_program(Source("model.lg", preset_program(manager, "qwen3-30b-a3b", layers=layers)), manager.grammar)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
def test_nvcc_takes_a_minute_at_most(tmp_path: Path) -> None:
    """Of the processor: the clock says more on a busy machine."""
    (tmp_path / "forward.cu").write_text(emit_forward(forward_graph(model(48))), encoding="utf-8")
    command = ["nvcc", *COMPILE, *arch_flags(["sm_80", "sm_90"]), "-c", "forward.cu", "-o", "forward.o"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=tmp_path, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60


def test_emission_takes_half_a_second_at_most() -> None:
    graph, took = model(48), []
    for _ in range(3):
        start = time.process_time()
        emit_forward(forward_graph(graph))
        took.append(time.process_time() - start)
    assert min(took) < 0.5


def test_a_layer_adds_few_launches_and_no_kernel() -> None:
    few, more = (forward_graph(model(layers)) for layers in (2, 3))
    assert set(more.kernels) == set(few.kernels)
    stages, launches = (
        [len(graph.stages), sum(len(stage.launches) for stage in graph.stages)] for graph in (few, more)
    )
    assert [b - a for a, b in zip(stages, launches, strict=True)] == [7, 9]
