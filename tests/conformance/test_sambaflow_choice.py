"""Every alternative spelling in a whole artifact, chosen by what a support.toml says, against the reference machine."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import make_manager
from logos.bounds import BOUNDS
from logos.verification import compared, judge
from logos_sambaflow.alternatives import ALTERNATIVES
from logos_sambaflow.parts import digest
from logos_sambaflow.probe_programs import program
from sambaflow_modules import emitted, reference, rounded, stepped

MANAGER = make_manager()
PAIRS = [(first, helper) for first, helpers in ALTERNATIVES.items() for helper in helpers]


def support(first: str, chosen: str, dtype: str) -> str:
    """A support.toml that leaves one spelling of an op: those before it failed, and it was verified."""
    order = (first, *ALTERNATIVES[first])
    findings = [f'spelling.{one}.{dtype} = {{ finding = "failed", digest = "{digest(one)}" }}'
                for one in order[: order.index(chosen)]]  # fmt: skip
    findings.append(f'spelling.{chosen}.{dtype} = {{ finding = "verified", digest = "{digest(chosen)}" }}')
    return "\n".join(['schema = "logos.sambaflow.support"', "version = 1", *findings, ""])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(("first", "helper"), PAIRS)
def test_an_alternative_agrees_with_the_reference(first: str, helper: str, dtype: str, tmp_path: Path) -> None:
    stored = "bfloat16" if dtype == "bfloat16" else "float32"
    file = tmp_path / "support.toml"
    file.write_text(support(first, helper, stored), encoding="utf-8")
    made = emitted(program(first, False), tmp_path / "out", MANAGER, support=str(file), dtype=stored)
    assert f" = {helper}(" in (made.folder / "model.py").read_text("utf-8")
    values = rounded(made.noise(), dtype)
    found = stepped(made, values, dtype)
    want = reference(made, values, compared(made.job.graph))
    sides = [{name: array[None] for name, array in side.items()} for side in (want, found)]
    verdicts = judge(made.job.graph, dtype, *sides)
    assert verdicts
    assert [verdict for verdict in verdicts if verdict.difference > BOUNDS[dtype][0]] == []
