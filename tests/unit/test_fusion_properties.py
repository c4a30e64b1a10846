"""Fusion on random programs and on the families' own: what holds of every plan, whatever the program."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fusable_programs import random_program
from hypothesis import given
from hypothesis import strategies as st

from logos import FUSION_STEPS, OPS, AuthorOptions, Graph, Group, Source, Value, make_manager, plan_fusion
from logos.check import read_program
from logos.grammar import make_grammar
from logos.passes.dataflow import Dataflow

GRAMMAR = make_grammar(OPS)
NAMES = tuple(step.name for step in FUSION_STEPS)
PRESETS = ("qwen3-4b", "qwen3-30b-a3b", "qwen3.5-4b", "qwen3.5-35b-a3b")


def graph_of(text: str) -> Graph:
    return read_program(Source("p.lg", text), GRAMMAR)


def some_storage(variable: str) -> str:
    return "q8_0" if variable[-1] in "024" else "bfloat16"


def check_plan(graph: Graph, groups: Sequence[Group], keep: Sequence[str]) -> None:
    """Every node once; what a group reads is there, states as they must be; nothing that is needed is swallowed."""
    assert sorted(node.index for group in groups for node in group.nodes) == list(range(len(graph.nodes)))
    leaves = {leaf.value for leaf in graph.leaves}
    states = {leaf.name: leaf.value for leaf in graph.states}
    stored, newest = set(leaves), graph.newest()
    kept = {graph.output, *(newest[name] for name in keep)}
    for group in groups:
        made: set[Value] = set()
        assert [node.index for node in group.nodes] == sorted(node.index for node in group.nodes)
        for node in group.nodes:
            for value in node.inputs:
                assert value in made or value in stored
                assert value.name not in states or states[value.name] == value
            for value in node.writes.values():
                states[value.name] = value
            made.update(node.results)
        assert set(group.inner) <= made - kept
        stored |= made - set(group.inner)
        assert len(group.nodes) == 1 or group.steps
        handed_on = {value for node in group.nodes for value in node.inputs} & {node.out for node in group.nodes}
        assert handed_on <= set(group.inner) or "add-norm" in group.steps
        assert set(group.steps) <= set(NAMES)


@given(st.integers(0, 2**32), st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES), max_size=2))
def test_a_plan_of_any_steps_keeps_order_states_and_what_is_kept(seed: int, steps: set[str], held: set[str]) -> None:
    random = Random(seed)
    for chosen in (steps, NAMES):
        graph = graph_of(random_program(random))
        made = sorted({node.out.name for node in graph.nodes if node.out is not None})
        keep = random.sample(made, random.randrange(1 + len(made) // 2))
        groups = plan_fusion(graph, chosen, held, some_storage, keep)
        check_plan(graph, groups, keep)
        assert {name for group in groups for name in group.steps} <= set(chosen) - held


@given(st.integers(0, 2**32))
def test_without_steps_each_node_is_a_group_in_program_order(seed: int) -> None:
    graph = graph_of(random_program(Random(seed)))
    for steps, held in (((), ()), (NAMES, NAMES)):
        groups = plan_fusion(graph, steps, held, some_storage)
        assert groups == tuple(Group((node,)) for node in graph.nodes)


@given(st.integers(0, 2**32))
def test_the_same_graph_has_the_same_plan(seed: int) -> None:
    text = random_program(Random(seed))
    plans = [plan_fusion(graph_of(text), steps, (), some_storage) for steps in (NAMES, NAMES[::-1], set(NAMES))]
    assert plans[0] == plans[1] == plans[2]


def test_random_programs_have_matches_of_every_step_and_some_that_an_order_forbids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The properties above would hold of programs in which nothing is found."""
    joined: list[bool] = []
    join = Dataflow.join

    def heard(self: Dataflow, members: Sequence[int]) -> bool:
        joined.append(join(self, members))
        return joined[-1]

    monkeypatch.setattr(Dataflow, "join", heard)
    met: set[str] = set()
    for seed in range(300):
        groups = plan_fusion(graph_of(random_program(Random(seed))), NAMES, (), some_storage)
        met.update(name for group in groups for name in group.steps)
    assert met == set(NAMES) - {"router"}  # Experts are in the authored programs below.
    assert joined.count(False) > 30


@pytest.mark.parametrize("preset", PRESETS)
def test_the_families_programs_keep_the_properties(preset: str) -> None:
    graph = authored(preset, 5)
    for steps in (NAMES, *((name,) for name in NAMES)):
        groups = plan_fusion(graph, steps, (), lambda variable: "q8_0", ("logits",))
        check_plan(graph, groups, ("logits",))
        assert len(groups) <= len(graph.nodes)
    assert {name for group in plan_fusion(graph, NAMES, NAMES[:3]) for name in group.steps}.isdisjoint(NAMES[:3])


def authored(preset: str, layers: int | None = None) -> Graph:
    manager = make_manager()
    for family in manager.families.values():
        presets: Mapping[str, Any] = getattr(family, "presets", {})
        if preset in presets:
            return graph_of(family.author(presets[preset], AuthorOptions(layers=layers)))
    raise AssertionError(preset)


LAUNCHES = {"qwen3-4b": 8, "qwen3-30b-a3b": 7, "qwen3.5-4b": 8}
"""The groups of one more layer with everything in Q8_0. A moe is one node, which a target makes several launches of."""


@pytest.mark.parametrize("preset", LAUNCHES)
def test_a_layer_becomes_few_groups(preset: str) -> None:
    counts = [len(plan_fusion(authored(preset, layers), NAMES, (), lambda variable: "q8_0")) for layers in (1, 2)]
    assert counts[1] - counts[0] == LAUNCHES[preset]


def test_the_thirty_billion_are_planned_in_no_time() -> None:
    graph = authored("qwen3-30b-a3b")
    took = []
    for _ in range(3):
        start = time.perf_counter()
        groups = plan_fusion(graph, NAMES, (), lambda variable: "q8_0")
        took.append(time.perf_counter() - start)
    assert len(groups) < len(graph.nodes) / 2
    assert min(took) < 0.2


def test_a_plan_does_not_hang_on_the_hash_seed(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(random_program(Random(5)))
    program = (
        "from pathlib import Path\nfrom logos import *\nfrom logos.grammar import make_grammar\n"
        "graph = read_program(read_source(Path('p.lg')), make_grammar(OPS))\n"
        "names = {step.name for step in FUSION_STEPS}\n"
        "groups = plan_fusion(graph, names, (), lambda variable: 'q8_0')\n"
        "print([([node.index for node in group.nodes], group.steps, group.inner) for group in groups])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(printed) == 1
