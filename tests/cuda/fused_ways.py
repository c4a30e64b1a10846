"""One case in the ways that fusion can take it, and what differs between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernel_bench import Bench, Case, Result, differences

from logos_cuda.fusing import FUSES


def ways(made: Case, steps: Sequence[Collection[str]]) -> Iterator[Case]:
    """The case with everything held; with the steps; with those and no room for inner values."""
    yield replace(made, held=FUSES)
    for acting in steps:
        held = [step for step in FUSES if step not in acting]
        yield replace(made, held=held)
        yield replace(made, held=held, lean=True)


def build(folder: Path, cases: Sequence[Case]) -> Bench:
    return Bench(folder, [kernel for one in cases for kernel in one.graph.kernels])


def unlike(one: Result, other: Result) -> list[str]:
    """The variables whose bits differ, of those that both read out."""
    names = [name for name in one.arrays if name in other.arrays]
    return [name for name in names if one.arrays[name].tobytes() != other.arrays[name].tobytes()]


def faults(bench: Bench, cases: Sequence[Case], steps: Sequence[Collection[str]], order: str) -> list[str]:
    """What is wrong with any way of running the cases."""
    each = [list(ways(made, steps)) for made in cases]
    results = iter(bench.run([way for chosen in each for way in chosen], LOGOS_HOST_ORDER=order))
    found = []
    for number, (_, *others) in enumerate(each):
        plain = next(results)
        for result in (next(results) for _ in others):
            found += [f"case {number}: {name} differs" for name in unlike(plain, result)]
    return found


BATCH = 6
"""Cases at once: what they read out, in every way, is in memory together."""


def compared(bench: Bench, cases: Sequence[Case], steps: Sequence[Collection[str]], order: str) -> list[str]:
    """What is wrong with the cases against the reference machine, and with any way of running them."""
    batches = [cases[first : first + BATCH] for first in range(0, len(cases), BATCH)]
    return [wrong for batch in batches for wrong in _wrong(bench, batch, steps, order)]


def _wrong(bench: Bench, cases: Sequence[Case], steps: Sequence[Collection[str]], order: str) -> list[str]:
    results = bench.run(cases, LOGOS_HOST_ORDER=order)
    wrong = [text for one, result in zip(cases, results, strict=True) for text in differences(one, result)]
    return [*wrong, *faults(bench, cases, steps, order)]
