"""What `logos explain` says of fusion, and what a target's contract decides of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conformance_target import Erring, manager_of, plugin_of

import logos.discovery
from logos import FUSION_STEPS, Job, Request, Source, Steps, WeightEntry, WeightFile, job_groups, make_job
from logos.cli.main import main

PROGRAM = """\
Let x be a 1 by 4 tensor of Real.
Let w be a 1 by 4 tensor of Real.
Let W1 be a 4 by 4 tensor of Real.
Let W2 be a 4 by 4 tensor of Real.
Let h be rmsnorm of x with weight w.
Let q be h matmul W1.
Let k be h matmul W2.
Let a be q hadamard k.
Let y be silu of a.
"""
NAMES = tuple(step.name for step in FUSION_STEPS)

Explain = Callable[..., tuple[int, str, str]]


@pytest.fixture
def explain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Explain:
    """`logos explain p.lg --target erring` where a target of these steps is installed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")

    def run(fuses: tuple[str, ...], *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(logos.discovery, "entry_points", lambda group: [plugin_of(Erring(fuses=fuses))])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(["explain", "p.lg", "--target", "erring", *arguments])
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return exit.value.code, captured.out, captured.err

    return run


def test_each_sentence_says_what_it_acts_with(explain: Explain) -> None:
    code, out, err = explain(("glue", "qkv", "chain"))
    assert (code, err) == (0, "")
    assert """\
  5: Let h be rmsnorm of x with weight w.
      rmsnorm: h 1 by 4
      group 1 of 3
  6: Let q be h matmul W1.
      matmul: q 1 by 4
      group 2 of 3, qkv, with line 7
  7: Let k be h matmul W2.
      matmul: k 1 by 4
      group 2 of 3, qkv, with line 6
  8: Let a be q hadamard k.
      hadamard: a 1 by 4
      group 3 of 3, chain, with line 9; a is not stored
  9: Let y be silu of a.
      silu: y 1 by 4
      group 3 of 3, chain, with line 8
""" in out
    table = {step.name: step.becomes for step in FUSION_STEPS}
    assert f"""
fusion: 5 operations in 3 groups
  qkv, 1 time: {table["qkv"]}
  chain, 1 time: {table["chain"]}
""" in out


def test_a_held_step_is_said_to_be(explain: Explain) -> None:
    _, out, _ = explain(("qkv", "chain"), "--hold", "qkv")
    assert "fusion: 5 operations in 4 groups\n  qkv, held: " in out
    assert "group 2 of 4\n" in out


def test_a_target_without_steps_of_the_table_shows_none(explain: Explain) -> None:
    for fuses in ((), ("glue",)):
        code, out, _ = explain(fuses)
        assert code == 0
        assert "fusion" not in out
        assert "group" not in out


def test_a_step_that_the_target_lacks_cannot_be_held(explain: Explain) -> None:
    code, out, err = explain(("qkv", "chain"), "--hold", "qvk")
    assert (code, out) == (1, "")
    assert err.startswith(
        "--hold: target erring has no fusion step qvk; did you mean qkv? [unknown-fusion-step]\n"
        "  next: its fusion steps: qkv, chain\n"
    )


class Storing(Erring):
    """Stores one weight otherwise than the other, and returns a value from the middle."""

    def steps(self, job: Job) -> Steps:
        entries = (WeightEntry("W1", "Q8_0", True), WeightEntry("W2", "F32"))
        return Steps((WeightFile("raw", entries, "raw"),))

    def outputs(self, job: Job) -> tuple[str, ...]:
        return ("y", "a")


def test_the_job_s_groups_follow_its_weight_files_outputs_and_held_steps() -> None:
    def labels(target: Erring, *hold: str) -> list[tuple[int, tuple[str, ...]]]:
        request = Request(Path("p.lg"), source=Source("p.lg", PROGRAM), hold=hold)
        made, job = make_job(manager_of(target), request, "erring")
        return [(len(group.nodes), group.steps) for group in job_groups(made, job)]

    assert labels(Erring(fuses=NAMES)) == [(1, ()), (2, ("qkv",)), (2, ("chain",))]
    assert labels(Erring(fuses=NAMES), "qkv") == [(1, ()), (1, ()), (1, ()), (2, ("chain",))]
    assert labels(Erring(fuses=("chain", "glue"))) == [(1, ()), (1, ()), (1, ()), (2, ("chain",))]
    assert labels(Storing(fuses=NAMES)) == [(1, ("norm-quantize",)), *[(1, ())] * 4]
