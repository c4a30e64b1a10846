"""Qwen3-30B-A3B of 48 layers for the cuda target: seconds to emit its forward, and seconds of nvcc over it.

Kernels are emitted once for each specialization, not for each layer, so that nvcc's time hardly grows with the layers.
Seconds are the processor's, which a busy machine does not stretch. Without nvcc on PATH the second is left out.

    python benchmarks/emit_cuda.py [--repeat 5] [--layers 48]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from logos import Source, make_manager, read_program
from logos.author import preset_program
from logos_cuda import emit_forward, forward_graph
from logos_cuda.compiling import COMPILE, arch_flags

PRESET = "qwen3-30b-a3b"
EMISSION, COMPILATION = 0.5, 60.0


def emitted(layers: int, repeat: int) -> tuple[str, float]:
    """The source, and the median of the seconds that it takes to make it from a checked program."""
    manager = make_manager()
    graph = read_program(Source("model.lg", preset_program(manager, PRESET, layers=layers)), manager.grammar)
    took, text = [], ""
    for _ in range(repeat):
        start = time.process_time()
        text = emit_forward(forward_graph(graph))
        took.append(time.process_time() - start)
    return text, statistics.median(took)


def compiled(text: str) -> tuple[float, float]:
    """Seconds of the processor, and on the clock, that nvcc takes to make the object, for a build's architectures."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "forward.cu").write_text(text, encoding="utf-8")
        command = ["nvcc", *COMPILE, *arch_flags(["sm_80", "sm_90"]), "-c", "forward.cu", "-o", "forward.o"]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True)
        took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=5, help="How often it is emitted; the median counts.")
    parser.add_argument("--layers", type=int, default=48, help="Layers of the model.")
    given = parser.parse_args()
    text, emission = emitted(given.layers, given.repeat)
    print(f"emission of {given.layers} layers: {emission:.2f} s (at most {EMISSION} s), {len(text):,} characters")
    if shutil.which("nvcc") is None:
        print("there is no nvcc on PATH")
        return int(emission > EMISSION)
    compilation, wall = compiled(text)
    most = f"at most {COMPILATION:.0f} s"
    print(f"nvcc for sm_80, sm_90 and PTX: {compilation:.1f} s ({most}), {wall:.1f} s on the clock")
    return int(emission > EMISSION or compilation > COMPILATION)


if __name__ == "__main__":
    raise SystemExit(main())
