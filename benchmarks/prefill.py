"""A prompt on the reference machine: many steps at once against one step a token, each in a process of its own.

    python benchmarks/prefill.py CHECKPOINT [--tokens 256] [--steps 128]

Prints the seconds of each (the weights' reading left out), their ratio, the peak memory's ratio, and the largest
difference of the logits over all positions. Exits with 1 where the prompt is not --least times faster, its peak memory
is above 1.5 times that of single steps, or the logits differ by more than 1e-9 of the largest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from logos import Machine, Request, Source, bind_request, load_graph, make_manager, run_steps
from logos.author import Author, author_program
from logos.prefill import Prefill
from logos.reference import each_step, fed_by_tokens
from logos.values import run_values

MEMORY, LOGITS = 1.5, 1e-9


def machine_of(checkpoint: Path, context: int) -> Machine:
    manager = make_manager()
    text = author_program(manager, Author(checkpoint, context), None)
    request = Request(checkpoint, checkpoint, source=Source("model.lg", text))
    graph = load_graph(manager, request)
    return Machine(graph, run_values(bind_request(manager, graph, request), {}, None, fed_by_tokens(graph)))


def prompt(machine: Machine, count: int) -> list[int]:
    (table,) = (leaf.value for leaf in machine.graph.leaves if leaf.name == "emb")
    return [int(number) for number in np.random.default_rng(1).integers(0, table.rows, count)]


def peak() -> int:
    """The process's largest memory so far, in kB. ru_maxrss counts the parent's too where a process starts by vfork."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


def singly(machine: Machine, tokens: list[int], file: Path) -> dict[str, Any]:
    logits, began = machine.graph.taps["logits"], time.perf_counter()
    with open(file, "wb") as out:
        for now in each_step(machine, tokens):
            out.write(now[logits].tobytes())
    return {"seconds": time.perf_counter() - began, "peak": peak()}


def at_once(machine: Machine, tokens: list[int], file: Path, steps: int) -> dict[str, Any]:
    start, began = dict(machine.states), time.perf_counter()
    run_steps(machine, (), tokens, prefill=Prefill(machine.graph, steps))
    result = {"seconds": time.perf_counter() - began, "peak": peak()}
    machine.states.update(start)
    made = run_steps(machine, ("logits",), tokens, prefill=Prefill(machine.graph, steps, ("logits",)))
    logits = made.stacked("logits")[:, 0]
    single = np.fromfile(file).reshape(logits.shape)
    return {**result, "difference": float(np.abs(logits - single).max() / np.abs(single).max())}


def rounds(arguments: argparse.Namespace, file: str) -> Iterator[dict[str, Any]]:
    own = [sys.executable, __file__, str(arguments.checkpoint), "--tokens", str(arguments.tokens)]
    for steps in (1, arguments.steps):
        command = [*own, "--steps", str(steps), "--logits", file]
        yield json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--steps", type=int, default=128, help="How many at once.")
    parser.add_argument("--least", type=float, default=5.0, help="How many times faster it has to be.")
    parser.add_argument("--logits", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.logits is not None:
        machine = machine_of(arguments.checkpoint, arguments.tokens)
        tokens, steps = prompt(machine, arguments.tokens), arguments.steps
        made = singly(machine, tokens, arguments.logits) if steps == 1 else at_once(
            machine, tokens, arguments.logits, steps
        )
        print(json.dumps(made))
        return 0
    with tempfile.NamedTemporaryFile() as file:
        single, many = rounds(arguments, file.name)
    faster, memory = single["seconds"] / many["seconds"], many["peak"] / single["peak"]
    print(f"{arguments.tokens} tokens, one step each: {single['seconds']:.1f} s, {single['peak'] / 1e6:.2f} GB")
    print(f"{arguments.steps} steps at once: {many['seconds']:.1f} s, {many['peak'] / 1e6:.2f} GB")
    print(f"{faster:.1f} times faster (at least {arguments.least:g})")
    print(f"{memory:.2f} times the memory (at most {MEMORY:g})")
    print(f"largest difference of the logits: {many['difference']:.1e} (at most {LOGITS:g})")
    good = faster >= arguments.least and memory <= MEMORY and many["difference"] <= LOGITS
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
