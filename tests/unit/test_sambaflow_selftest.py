"""The selftest of an artifact, where only the artifact is: it passes, and names what was broken on purpose."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Refused, WeightFile, write_weight_file
from logos.recording import write_recording
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import emitted, load, sambaflow_job

TEXT = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 7 by 6 tensor of Real.
Let Wu0 be a 6 by 6 tensor of Real.
Let Wout be a 6 by 7 tensor of Real.
Let K0 be a 5 by 6 tensor of Real.
Let x be row tok of emb.
Let up be x matmul Wu0.
Let act be silu of up.
Set row pos of K0 to act.
Let mix be attention of act over K0 and K0 with 2 heads 2 groups up to pos.
Let x be x plus mix.
Let logits be x matmul Wout.
Let next be argmax of logits.
"""
STATES = """
Let x be a 1 by 4 tensor of Real.
Let n be a 1 by 4 tensor of Int.
Let N be a 2 by 4 tensor of Int.
Let S be a 3 by 4 tensor of Real.
Let held be row 1 of S.
Let y be x plus held.
Let z be silu of y.
Set row 1 of S to z.
Let m be n plus n.
Set row 0 of N to m.
"""

Kit = Callable[..., Path]


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """The folder of a program's artifact and nothing else, as a build writes it."""

    def make(text: str = TEXT, steps: int = 3, **options: object) -> Path:
        made = emitted(text, tmp_path / "kit", selftest=steps, **options)
        following = SambaflowTarget().steps(made.job)
        assert all(isinstance(one, WeightFile) for one in following.extractions)
        for file in following.extractions:
            write_weight_file(made.job.binding, file, made.folder)
        (recording,) = following.recordings
        write_recording(made.job.binding, recording, made.folder)
        return made.folder

    return make


def selftest(folder: Path, *arguments: str) -> tuple[int, list[str], dict[str, Any]]:
    """The exit code, the table and the summary of the selftest in this process."""
    module = load(folder / "model.py")
    said = StringIO()
    with redirect_stdout(said):
        code = module.main(module.PROGRAM, ["--selftest", *arguments], module.selftest)
    *table, last = said.getvalue().splitlines()
    return code, table, json.loads(last)


def broken(folder: Path, old: str, new: str) -> None:
    """Replaces a part of model.py that stands there once."""
    text = (folder / "model.py").read_text("utf-8")
    assert text.count(old) == 1, old
    (folder / "model.py").write_text(text.replace(old, new), "utf-8")


def test_it_passes_where_only_the_artifact_is(kit: Kit, tmp_path: Path) -> None:
    alone = tmp_path / "elsewhere" / "kit"
    shutil.move(kit(), alone)
    command = [sys.executable, "-I", "model.py", "--selftest"]
    ran = subprocess.run(command, cwd=alone, capture_output=True, text=True, check=True)
    *table, last = ran.stdout.splitlines()
    assert json.loads(last) == {
        "selftest": "ok",
        "dtype": "float32",
        "steps": 3,
        "variables": 3,
        "beyond": [],
        "first": None,
    }
    assert table[0].split() == ["variable", "steps", "difference", "bound"]
    assert [line.split()[0] for line in table[1:]] == ["next", "logits", "K0"]
    assert [line.split()[-1] for line in table[1:]] == ["ok"] * 3
    assert ran.stderr == ""


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("text", [TEXT, STATES])
def test_it_passes_in_every_dtype(text: str, dtype: str, kit: Kit) -> None:
    code, _, record = selftest(kit(text), "--dtype", dtype)
    assert (code, record["selftest"]) == (0, "ok")


def test_it_parses_as_the_vendors_python(kit: Kit) -> None:
    for path in kit().glob("*.py"):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 7))


def test_a_fault_in_a_helper_is_named(kit: Kit) -> None:
    folder = kit()
    broken(folder, "return F.silu(X)", "return F.silu(X) * 1.01")
    code, table, record = selftest(folder)
    assert code == 4
    assert record["selftest"] == "beyond"
    assert (record["first"]["step"], record["first"]["variable"], record["first"]["op"]) == (0, "act", "silu")
    where = "step 0, act (silu, line 10 of the program)"
    assert table[-1] == f"first beyond its bound: {where}: 0.01, where 0.0001 is allowed"
    assert any(line.startswith("act ") and line.endswith("BEYOND ITS BOUND") for line in table)


def test_a_fault_in_a_weight_is_named(kit: Kit) -> None:
    folder = kit(weights="none")
    path = folder / "selftest.safetensors"
    # The recording holds the weights of noise: one of them is turned to zero.
    module = load(folder / "model.py")
    stored = module.Recorded(module.PROGRAM).entries["weight.Wu0"]
    data = bytearray(path.read_bytes())
    data[stored.start : stored.start + 8 * 36] = bytes(8 * 36)
    path.write_bytes(data)
    code, _, record = selftest(folder)
    assert code == 4
    assert (record["first"]["step"], record["first"]["variable"], record["first"]["op"]) == (0, "up", "matmul")


def test_a_fault_in_a_state_write_is_named_with_its_step(kit: Kit) -> None:
    folder = kit()
    # From the second step on the row before the right one is written.
    broken(folder, "d = T_numbers - P", "d = T_numbers - P + torch.minimum(P, one)")
    code, table, record = selftest(folder)
    assert code == 4
    assert (record["first"]["step"], record["first"]["variable"], record["first"]["op"]) == (1, "K0", "set row")
    assert "first beyond its bound: step 1, K0 (set row, line 11 of the program)" in table[-1]


def test_a_state_that_is_not_carried_is_named(kit: Kit) -> None:
    folder = kit(STATES)
    broken(folder, "return values, list(results[first : len(self.returned)])", "return values, list(states)")
    code, _, record = selftest(folder)
    assert code == 4
    assert (record["first"]["step"], record["first"]["variable"]) == (1, "S")


def test_a_wrong_integer_is_beyond_its_bound(kit: Kit) -> None:
    folder = kit(STATES)
    broken(folder, "return A + B\n", "return A + B + (1 if A.dtype == torch.int64 else 0)\n")
    code, _, record = selftest(folder)
    assert code == 4
    assert record["beyond"] == ["m", "N"]
    assert (record["first"]["step"], record["first"]["variable"]) == (0, "m")
    assert record["first"]["difference"] == "inf"


def test_an_argmax_may_choose_what_lies_within_the_bound(kit: Kit) -> None:
    folder = kit(outputs=("next", "logits"))
    module = load(folder / "model.py")
    recorded = module.Recorded(module.PROGRAM)
    report = module.Report(recorded, "float32", recorded.compared)
    row = np.array([[1.0, 1.0 - 5e-5, 0.5]])
    expected = {"next": np.array([[0]]), "logits": row}
    assert report.difference("next", expected, np.array([[0]])) == 0
    assert report.difference("next", expected, np.array([[1]])) == 0
    assert report.difference("next", expected, np.array([[2]])) == float("inf")
    assert report.difference("next", expected, np.array([[3]])) == float("inf")


@pytest.mark.parametrize(
    ("right", "found", "difference"),
    [
        ([0.0, 2.0], [0.0, 2.5], 0.125),
        ([0.0, 4.0], [np.nan, 4.0], np.inf),
        ([np.inf, 4.0], [np.inf, 3.0], 0.25),
        ([np.inf, 4.0], [5.0, 4.0], np.inf),
        ([0.0, 4.0], [0.0, 4.0], 0.0),
    ],
)
def test_the_rule_is_that_of_verify(right: list[float], found: list[float], difference: float, kit: Kit) -> None:
    module = load(kit() / "model.py")
    assert module.relative(np.array(right), np.array(found), 4.0) == difference
    assert module.relative(np.array(right), np.array(found), 0.0) == (0.0 if difference == 0 else np.inf)


def test_without_the_file_it_says_how_to_build_it(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kit()
    (folder / "selftest.safetensors").unlink()
    module = load(folder / "model.py")
    assert module.main(module.PROGRAM, ["--selftest"], module.selftest) == 1
    said = capsys.readouterr().err
    assert said == f"{folder / 'selftest.safetensors'} is not there; build the artifact with -D selftest=N\n"


@pytest.mark.parametrize("given", [["--set", "tok=1"], ["--tokens", "1"]])
def test_it_takes_no_other_values(given: list[str], kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(kit() / "model.py")
    assert module.main(module.PROGRAM, ["--selftest", *given], module.selftest) == 1
    said = "--selftest takes every value from the recording: leave --set and --tokens out\n"
    assert capsys.readouterr().err == said


def test_another_programs_recording_is_refused(kit: Kit, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = kit(STATES)
    os.replace(other / "selftest.safetensors", tmp_path / "other")
    folder = kit()
    os.replace(tmp_path / "other", folder / "selftest.safetensors")
    module = load(folder / "model.py")
    assert module.main(module.PROGRAM, ["--selftest"], module.selftest) == 1
    assert "selftest.safetensors is of another program than the module beside it" in capsys.readouterr().err


def test_a_module_without_a_recording_has_no_such_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = emitted(TEXT, tmp_path / "plain")
    assert "Recorded" not in (made.folder / "model.py").read_text("utf-8")
    with pytest.raises(SystemExit):
        made.module.main(made.module.PROGRAM, ["--selftest"])
    assert "unrecognized arguments: --selftest" in capsys.readouterr().err


def test_fewer_steps_than_none_are_refused() -> None:
    with pytest.raises(Refused) as refused:
        sambaflow_job(TEXT, selftest=-1)
    assert str(refused.value) == (
        "-D selftest: selftest is -1; it is a number of steps [selftest-steps]\n"
        "  next: give the steps to record, or 0 for none"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_chunks_pass_it_too(steps: int, dtype: str, kit: Kit) -> None:
    code, table, record = selftest(kit(steps=5, prefill=steps), "--prefill", "--dtype", dtype)
    assert (code, record["selftest"], record["steps"]) == (0, "ok", 5)
    assert [line.split()[:2] for line in table[1:]] == [["next", "5"], ["logits", "5"], ["K0", "5"]]


@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        (
            "kept = torch.neg(hot.sum(dim=1, keepdim=True)) + 1",
            "kept = torch.neg(hot.sum(dim=1, keepdim=True)) * 0",
            None,
        ),
        ("made = torch.matmul(hot, R)", "made = torch.matmul(hot, R) * 1.01", (0, "mix")),
        ("past = torch.neg(", "past = one + torch.neg(", (0, "mix")),
        ("argmax(X, dim=1, keepdim=True).int()", "argmax(-X, dim=1, keepdim=True).int()", (0, "next")),
    ],
)
def test_a_fault_in_a_helper_of_many_steps_is_named(
    old: str, new: str, first: tuple[int, str] | None, kit: Kit
) -> None:
    folder = kit(steps=4, prefill=2)
    assert selftest(folder)[0] == 0
    text = (folder / "model.py").read_text("utf-8")
    assert old in text
    (folder / "model.py").write_text(text.replace(old, new), "utf-8")
    code, _, record = selftest(folder, "--prefill")
    assert code == 4
    if first is not None:
        assert (record["first"]["step"], record["first"]["variable"]) == first


def test_chunks_longer_than_the_recording_are_refused(kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(kit(steps=2, prefill=3) / "model.py")
    assert module.main(module.PROGRAM, ["--selftest", "--prefill"], module.selftest) == 1
    what = "the recording has 2 steps, fewer than LogosPrefill makes at once; build with -D selftest=3 or more\n"
    assert capsys.readouterr().err == what
