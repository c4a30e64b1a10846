"""The checks of a target's contract beside its ops: fusion, names, determinism, refusals; each finds its mistake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conformance_target import Erring, manager_of

from logos import FUSION_STEPS, OPS, Artifact, Inputs, Job, Source, read_program
from logos.cli.conformance import CHECKS as OFFERED
from logos.conformance import CHECKS, Check, check_contract
from logos.conformance.fusable import BLOCKS, block_text
from logos.conformance.names import HOSTILE
from logos.grammar import make_grammar
from logos.passes.fusion import plan_fusion

STEPS = tuple(step.name for step in FUSION_STEPS)


def check(target: Any, name: str) -> Check:
    (found,) = check_contract(manager_of(target), "erring", checks=(name,))
    return found


def test_the_command_offers_every_check() -> None:
    assert ("ops", *CHECKS) == OFFERED


def test_a_target_that_is_right_passes_each() -> None:
    found = {one.name: one for one in check_contract(manager_of(Erring(fuses=STEPS)), "erring")}
    assert tuple(found) == CHECKS
    assert [one.faults for one in found.values()] == [()] * 4
    assert found["names"].tried.startswith("22 ops under ")
    assert found["fusion"].tried.endswith(f" in {len(BLOCKS)} programs, held and fused equal to the bit")
    assert found["refusals"].tried == "0 ops not spelled"


def test_hostile_names_are_names_of_the_language_and_no_two_are_one() -> None:
    lines = [f"Let {name} be a 1 by 1 tensor of Real.\n" for name in HOSTILE]
    graph = read_program(Source("p.lg", "".join(lines) + "Let all be silu of class.\n"), make_grammar(OPS))
    assert len(graph.leaves) == len(HOSTILE) > 100


def test_every_step_acts_on_some_program_where_weights_are_quantized() -> None:
    acting = set()
    for number, name in enumerate(BLOCKS):
        graph = read_program(Source("p.lg", block_text(name, number)), make_grammar(OPS))
        for storage in ("float32", "q8_0"):
            groups = plan_fusion(graph, STEPS, storage=lambda variable, storage=storage: storage)
            acting |= {step for group in groups for step in group.steps}
    assert acting == set(STEPS)


OUT = "f2_out"


class Joining(Erring):
    """Makes twice what it should of a network wherever gate-up acts."""

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        off = "gate-up" not in job.hold
        self.err = lambda node, array: array * 2 if off and node.out is not None and node.out.name == OUT else array
        return super().run(job, inputs)


def test_a_step_that_changes_numbers_is_named() -> None:
    found = check(Joining(fuses=("qkv", "gate-up", "residual", "glue")), "fusion")
    assert found.faults[0].startswith(f"step gate-up alone: swiglu network, fused: {OUT} in float64 has the ")
    assert not any("step qkv" in fault or "step residual" in fault for fault in found.faults)
    assert any(fault.startswith(f"swiglu network: held and fused, {OUT} in float32 lie ") for fault in found.faults)
    assert found.notes == ("glue is no step of LOGOS's table: not tried",)


def test_a_step_that_breaks_is_told() -> None:
    def crash(graph: Any) -> None:
        raise ZeroDivisionError("no width")

    found = check(Erring(fuses=("qkv",), crash=crash), "fusion")
    assert found.faults == ("the target broke: ZeroDivisionError: no width",)


class Calling(Erring):
    """Runs programs as if a variable called `class` were something else."""

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        self.err = lambda node, array: array + 1 if any(one.name == "class" for one in node.inputs) else array
        return super().run(job, inputs)


def test_a_name_that_means_something_to_the_target_is_found() -> None:
    (fault,) = check(Calling(), "names").faults
    assert " of variables called " in fault
    assert "class" in fault.partition(": ")[0].replace(",", "").split()


class Counting(Erring):
    """Numbers its emissions."""

    def emit(self, job: Job) -> tuple[Artifact, ...]:
        self.runs.append(0)
        number = len(self.runs) - 1
        return (Artifact("same.txt", "a\n"), Artifact("count.txt", f"a\n{number}\n"), Artifact(f"{number}.txt", ""))


def test_files_that_differ_are_named_with_the_line() -> None:
    assert check(Counting(), "determinism").faults == (
        "0.txt is there in one alone between two emissions of one job",
        "1.txt is there in one alone between two emissions of one job",
        "count.txt differs between two emissions of one job: line 2 is '0' and '1'",
    )


class Breaking(Erring):
    """Emits nothing."""

    def emit(self, job: Job) -> tuple[Artifact, ...]:
        raise OSError("no disk")


def test_an_emission_that_breaks_is_a_fault() -> None:
    assert check(Breaking(), "determinism").faults == ("emit raised OSError: no disk",)


def test_every_op_that_is_not_spelled_is_refused_with_its_places() -> None:
    found = check(Erring(spells=frozenset({"silu", "transpose"})), "refusals")
    assert (found.tried, found.faults) == ("20 ops not spelled", ())


@pytest.mark.parametrize("name", ["fusion", "names"])
def test_a_check_leaves_nothing_behind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(Erring(spells=frozenset({"silu", "plus"}), fuses=("chain",)), name)
    assert list(tmp_path.iterdir()) == []
