"""The front end: whole processes from a model's name to a checked program and to an emitted module, without weights.

Each process is timed from its start to its end, the processor's time beside it (on a busy machine the two differ).
The time a sentence takes may not grow with the number of layers.

    python benchmarks/frontend.py [--repeat 9]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

from logos import Source, make_manager, read_program
from logos.author import preset_program

AUTHOR = """
from logos import Source, make_manager, read_program
from logos.author import preset_program
manager = make_manager()
read_program(Source("model.lg", preset_program(manager, {preset!r})), manager.grammar)
"""
EMIT = """
from logos import make_manager
from logos.author import preset_program
from logos_sambaflow import emit_torch_module
emit_torch_module(preset_program(make_manager(), "qwen3-8b"), family="qwen3")
"""
PROCESSES = {
    "author, parse, check qwen3-30b-a3b (48 layers)": AUTHOR.format(preset="qwen3-30b-a3b"),
    "author, parse, check qwen3.5-27b (64 layers)": AUTHOR.format(preset="qwen3.5-27b"),
    "emit qwen3-8b for rdu-sambaflow": EMIT,
}
SECONDS = 0.5
FEW, MANY, GROWTH = 12, 48, 1.5
ROUNDS = 20


def process(program: str) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, that a Python process takes for a program."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def per_sentence(layers: int) -> list[float]:
    """Seconds a sentence, in each of the rounds: author, parse and check qwen3-30b-a3b of so many layers."""
    manager, found = make_manager(), []
    grammar = manager.grammar
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        text = preset_program(manager, "qwen3-30b-a3b", layers=layers)
        read_program(Source("model.lg", text), grammar)
        sentences = sum(line.endswith(".") and not line.startswith("#") for line in text.splitlines())
        found.append((time.process_time() - start) / sentences)
    return found[1:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=9, help="How often each process runs; the median counts.")
    repeat = parser.parse_args().repeat
    good = True
    for what, program in PROCESSES.items():
        process(program)
        walls, processor = zip(*(process(program) for _ in range(repeat)), strict=True)
        wall = statistics.median(walls)
        good = good and wall <= SECONDS
        print(f"{what}: {wall:.2f} s, {statistics.median(processor):.2f} s of the processor (at most {SECONDS} s)")
    few, many = (statistics.median(per_sentence(layers)) for layers in (FEW, MANY))
    good = good and many <= GROWTH * few
    print(f"a sentence at {FEW} layers {few * 1e6:.1f} µs, at {MANY} {many * 1e6:.1f} µs: "
          f"{many / few:.2f} times (at most {GROWTH})")  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
