"""Fused stages over weights in Q8_0 against the program with every step held, to the bit, and the reference machine;
what only a held `combine` launches too."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import fused_q8_cases
import pytest
from fiber_orders import ORDERS
from fused_ways import build, compared, ways
from kernel_bench import Bench, Case
from kernel_cases import Spec

from logos_cuda.fusing import FUSES

SPECS = fused_q8_cases.SPECS
STEPS = (FUSES, tuple(step for step in FUSES if step != "combine"))
QUICK = range(3, 4)
KINDS = (
    "parts_by_warps", "scaled_by_warps", "gate_up_q8_quantized_by_blocks", "router_gate_by_warps", "norm_wide_q8",
    "add_rmsnorm_narrow_q8", "chain_q8", "attention_up_to_64_half_combined_q8", "delta_q8", "argmax_combined",
)  # fmt: skip
"""One spec of each kind."""


def all_ways(cases: list[Case]) -> list[Case]:
    return [way for one in cases for way in ways(one, STEPS)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return build(tmp_path_factory.mktemp("kinds"), all_ways(kinds()))


def kinds() -> list[Case]:
    cases = [one for spec in SPECS if spec.name in KINDS for one in spec.cases(QUICK)]
    assert len(cases) == len(KINDS)
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_fused_and_held_agree_to_the_bit(bench: Bench, order: str) -> None:
    assert compared(bench, kinds(), STEPS, order) == []


@pytest.mark.slow
def test_a_shape_of_each_fused_kernel_in_every_order(tmp_path: Path) -> None:
    cases = [one for spec in SPECS for one in spec.cases(range(4, 5))]
    built = build(tmp_path, all_ways(cases))
    assert [wrong for order in ORDERS for wrong in compared(built, cases, STEPS, order)] == []


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Spec], Bench]:
    """A bench of all that a spec's shapes launch, built when it is first asked for."""
    return cache(lambda spec: build(tmp_path_factory.mktemp("spec"), all_ways(list(spec.cases()))))


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_thirty_shapes_of_each_fused_kernel(benches: Callable[[Spec], Bench], spec: Spec, order: str) -> None:
    assert compared(benches(spec), list(spec.cases()), STEPS, order) == []
