"""Reading values out: a name's newest value, its earlier versions, and `*`; by `logos run` and by model.py alike."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import Graph, Inputs, Source
from logos.check import read_program
from logos.cli.main import main
from logos.grammar import make_grammar
from logos.ops import OPS
from logos_sambaflow.host import _shown

PROGRAM = """\
Let x be a 1 by 3 tensor of Real.
Let S be a 2 by 3 tensor of Real.
Let p be a 1 by 1 tensor of Int.
Set item 1 of p to 1.
Let type be silu of x.
Let type be silu of type.
Set row 0 of S to type.
Let h be type plus x.
Set row p of S to h.
Let type be transpose of S.
"""
MADE = ["type@1", "type@2", "S@1", "h", "S", "type"]
X = "x=[[1, 2, 3]]"


def graph(text: str) -> Graph:
    return read_program(Source("p.lg", text), make_grammar(OPS))


def test_a_tap_is_a_name_or_an_earlier_version_of_it() -> None:
    read = graph(PROGRAM)
    assert list(read.taps) == ["x", "S@0", "p", *MADE]
    assert read.made == tuple(MADE)
    assert {name: value.version for name, value in read.taps.items()} == {
        "x": 0, "S@0": 0, "p": 0, "type@1": 1, "type@2": 2, "S@1": 1, "h": 1, "S": 2, "type": 3
    }  # fmt: skip


@pytest.fixture
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the program's artifact, beside p.lg."""
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")
    assert logos("build", "p.lg", "--target", "rdu-sambaflow", "--out", "out", "-q") == 0
    return tmp_path / "out"


def logos(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(list(arguments))
    assert isinstance(exit.value.code, int)
    return exit.value.code


def module(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(folder / "model.py"), "--dtype", "float64", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_star_reads_all_that_a_step_makes(artifact: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert logos("run", "p.lg", "--set", X, "--get", "h,*,x,S@0", "--npy", "ours", "--json") == 0
    ours: dict[str, Any] = json.loads(capfd.readouterr().out)
    asked = ["h", "type@1", "type@2", "S@1", "S", "type", "x", "S@0"]
    assert list(ours) == asked
    done = module(artifact, "--set", X, "--get", "h,*", "--get", "x,S@0", "--npy", "theirs")
    assert [json.loads(line)["output"] for line in done.stdout.splitlines()] == asked
    for name, array in ours.items():
        theirs = np.load(f"theirs/{name}.npy")
        assert np.load(f"ours/{name}.npy").shape == theirs.shape
        np.testing.assert_allclose(theirs.reshape(np.shape(array)), array, rtol=1e-12)


def test_a_version_that_there_is_not_is_refused_by_both(artifact: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert logos("run", "p.lg", "--set", X, "--get", "S@2,h@1") == 1
    said = capfd.readouterr().err
    assert said.startswith("p.lg: the program has no variable S@2; did you mean S@1? [unknown-variable]\n")
    assert "no variable h@1" in said
    done = module(artifact, "--set", X, "--get", "S@2")
    assert (done.returncode, done.stderr) == (1, "--get S@2: the program has no such variable; did you mean S@1?\n")


def test_no_argument_is_longer_than_the_system_takes(tmp_path: Path) -> None:
    taps = tuple(f"a_rather_long_name_{number}" for number in range(30_000))
    arguments = _shown(Inputs(tmp_path, tmp_path, {}, (), taps, "float32"), prefill=False)
    assert max(map(len, arguments)) < 2**17
    named = [name for option, value in pairwise(arguments) if option == "--get" for name in value.split(",")]
    assert named == list(taps)


@pytest.mark.slow
def test_checks_within_a_step_can_be_left_out_to_see_what_failed_them(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    program = "Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\nLet next be argmax of y.\n"
    (tmp_path / "p.lg").write_text(program, encoding="utf-8")
    assert logos("build", str(tmp_path / "p.lg"), "--target", "rdu-sambaflow", "--out", str(tmp_path / "o"), "-q") == 0
    arguments = ("--set", "x=[1, NaN, 2]", "--get", "y,next")
    done = module(tmp_path / "o", *arguments)
    assert (done.returncode, done.stderr) == (1, "argmax: the operand holds a NaN, so it has no largest element\n")
    done = module(tmp_path / "o", *arguments, "--no-checks")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
