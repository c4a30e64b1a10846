"""Fused stages against the same program with every step held, to the bit, and against the reference machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from random import Random

import fused_cases
import numpy as np
import pytest
from fiber_orders import ONE_FAST, ORDERS
from fused_ways import build, compared, faults, ways
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_bench import Bench, Case, read
from kernel_cases import Spec

from logos_cuda.fusing import FUSES

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "unit"))

from fusable_programs import random_program

SPECS = fused_cases.SPECS
QUICK = range(3, 5)
SEEDS = range(12)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    cases = [way for spec in SPECS for one in spec.cases(QUICK) for way in ways(one, [FUSES])]
    cases += [way for seed in SEEDS for way in ways(random_case(seed), [FUSES])]
    return build(tmp_path_factory.mktemp("fused"), cases)


@pytest.mark.parametrize("order", ONE_FAST)
def test_fused_and_held_agree_to_the_bit(bench: Bench, order: str) -> None:
    assert compared(bench, [one for spec in SPECS for one in spec.cases(QUICK)], [FUSES], order) == []


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Spec], Bench]:
    """A bench of all that a spec's shapes launch, built when it is first asked for."""
    return cache(lambda spec: build(
        tmp_path_factory.mktemp("spec"), [way for one in spec.cases() for way in ways(one, [FUSES])]
    ))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_thirty_shapes_of_each_fused_kernel(benches: Callable[[Spec], Bench], spec: Spec, order: str) -> None:
    assert compared(benches(spec), list(spec.cases()), [FUSES], order) == []


def random_case(seed: int) -> Case:
    """A random program full of what fusion looks for, its leaves full of noise."""
    text = random_program(Random(seed))
    noise = np.random.default_rng(seed)
    values = {leaf.name: noise.standard_normal(leaf.value.shape).astype(np.float32) for leaf in read(text).leaves}
    values["tok"] = np.array([[seed % 2]])
    return Case(text, values, held=())


def agree(folder: Path, seeds: Collection[int], steps: Sequence[Collection[str]], order: str) -> None:
    cases = [random_case(seed) for seed in seeds]
    built = build(folder, [way for made in cases for way in ways(made, steps)])
    assert faults(built, cases, steps, order) == []


def test_random_programs_agree_to_the_bit(bench: Bench) -> None:
    assert faults(bench, list(map(random_case, SEEDS)), [FUSES], "shuffle:3") == []


@pytest.mark.slow
@settings(max_examples=4)
@given(st.lists(st.integers(0, 2**32), min_size=30, max_size=30), st.sampled_from(ORDERS))
def test_each_step_alone_and_all_together_on_random_programs(
    tmp_path_factory: pytest.TempPathFactory, seeds: list[int], order: str
) -> None:
    agree(tmp_path_factory.mktemp("random"), seeds, [FUSES, *((step,) for step in FUSES)], order)


def test_random_programs_fuse_by_every_step() -> None:
    """The comparisons above would hold of programs in which nothing acts as one."""
    stages = [stage for seed in SEEDS for stage in random_case(seed).graph.stages]
    met = {step for stage in stages for step in (stage.step, *stage.marks)}
    # What is in Q8_0, and experts, are in the cases of fused_q8_cases.py.
    assert met == {"", *FUSES} - {"router", "norm-quantize", "act-quantize"}
