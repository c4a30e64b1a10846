"""The command line: what check and ops print, and how commands end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Logos, write
from toy_build import Ran

from logos import OPS
from logos.cli import run as run_command
from logos.cli.main import main

# check and ops


def test_check_says_what_the_program_is_and_who_can_take_it(logos: Logos) -> None:
    assert logos("check", "p.lg") == Ran(0, (
        "p.lg: 4 operations; 2 inputs, 1 constant, 1 state\n"
        "output: next, 1 by 1 of Int\n"
        "target cpu: can take it\n"
        "target cuda: can take it\n"
        "target rdu-sambaflow: can take it\n"
    ), "")  # fmt: skip
    assert json.loads(logos("check", "p.lg", "--json").out) == {
        "program": "p.lg", "operations": 4, "leaves": {"input": 2, "constant": 1, "state": 1}, "output": "next",
        "targets": {"cpu": [], "cuda": [], "rdu-sambaflow": []},
    }  # fmt: skip


def test_check_shows_every_fault_on_standard_error(logos: Logos) -> None:
    write("Let x be a 1 by 4 tensor of Real\nLet y be slu of x.\n")
    ran = logos("check", "q.lg")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "q.lg:1:33: the sentence does not end with a period [no-period]\n"
        "    Let x be a 1 by 4 tensor of Real\n"
        "                                    ^\n"
        "  next: end it with a period (.)\n"
        "q.lg:2:10: this is no sentence of the language: the word slu is unknown; did you mean silu? "
        "[unknown-sentence]\n"
        "    Let y be slu of x.\n"
        "             ^^^\n"
        "  next: the nearest sentence is `Let OUT be silu of X.`\n"
        "2 refusals\n"
    )
    ran = logos("check", "q.lg", "--json")
    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out.splitlines()[0]) == {
        "event": "refusal", "schema": 1, "refusal": "no-period", "where": "q.lg:1:33", "also": [],
        "what": "the sentence does not end with a period", "next": "end it with a period (.)",
    }  # fmt: skip


def test_check_goes_on_after_a_program_that_is_refused(logos: Logos) -> None:
    write("Let y be silu of x.\n")
    ran = logos("check", "q.lg", "p.lg", "none.lg")
    assert (ran.code, ran.out.splitlines()[0]) == (1, "p.lg: 4 operations; 2 inputs, 1 constant, 1 state")
    assert ran.err.startswith("q.lg:1:18: x is not declared [undeclared-name]\n")
    assert ran.err.endswith("2 refusals\n")


def test_a_file_name_reaches_the_terminal_without_its_control_characters(logos: Logos) -> None:
    name = "a\x1b[2J\n\u202eb.lg"
    write("Let y be silu of x.\n", name)
    for arguments in (["check", name], ["run", name], ["check", f"{name}.none"]):
        ran = logos(*arguments)
        assert ran.code == 1
        assert "a?[2J??b.lg" in ran.err
        assert all(character.isprintable() or character == "\n" for character in ran.err)
    write("Let x be a 1 by 1 tensor of Real.\nLet y be silu of x.\n", name)
    ran = logos("check", name)
    assert (ran.code, ran.out.startswith("a?[2J??b.lg: 1 operation")) == (0, True)


def test_ops_is_a_table_and_a_page_of_each(logos: Logos) -> None:
    ran = logos("ops")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["op", "reference", "cpu", "cuda", "rdu-sambaflow", "sentence"]
    assert len(lines) == 1 + len(OPS)
    (moe,) = (line.split() for line in lines if line.startswith("moe"))
    assert moe[:6] == ["moe", "yes", "yes", "yes", "no", "Let"]
    page = logos("ops", "gated", "delta").out
    assert page.startswith("gated delta\n\n  Let OUT be gated delta of Q over K and V")
    assert "  writes: S\n  many steps at once: a row a step of Q, K, V, Z, B, A, GN\n  spelled by: reference" in page
    assert "reference, cpu, cuda, rdu-sambaflow\n\nThe gated delta rule" in page
    record = json.loads(logos("ops", "set row", "--json").out)
    assert (record["op"], record["writes"], record["shapes"]) == ("set row", ["T"], ["T (n, c), R (1, c)"])
    ran = logos("ops", "sof", "max")
    assert (ran.code, "there is no op sof max; did you mean softmax? [unknown-op]" in ran.err) == (1, True)


# How commands end


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu", "p.lg"], "No such command 'rnu'; did you mean run?"),
        (["run"], "Missing argument 'PROGRAM'"),
        (["run", "p.lg", "--fil", "zero"], "No such option"),
        (["run", "p.lg", "--fill", "nose"], "'nose' is not one of 'zero', 'ramp', 'noise'"),
        (["run", "p.lg", "--set", "x"], "'x' is not KEY=VALUE"),
        (["run", "p.lg", "--set", "=1"], "'=1' is not KEY=VALUE"),
        (["verify", "p.lg"], "Missing option '--target'"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_usage(logos: Logos, arguments: list[str], said: str) -> None:
    ran = logos(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_help_and_version(logos: Logos) -> None:
    ran = logos("--help")
    assert ran.code == 0
    assert "Exit codes: 0 done, 1 refused" in " ".join(ran.out.split())
    assert logos("--version").out.startswith("logos, version ")
    for command in ("check", "ops", "run", "verify", "targets", "plugins"):
        assert logos(command, "--help").code == 0


def test_an_interrupt_ends_with_130(logos: Logos, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "_print", interrupted)
    ran = logos("run", "p.lg", "--fill", "zero")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.endswith("interrupted\n")


def test_what_is_a_fault_of_ours_keeps_its_traceback(logos: Logos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "_print", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["run", "p.lg", "--fill", "zero"])


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "logos", *arguments]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    program = tmp_path / "p.lg"
    program.write_text("Let x be a 500 by 500 tensor of Real.\nLet y be silu of x.\nShow x.\nShow y.\n", "utf-8")
    arguments = command("run", os.fspath(program), "--fill", "noise")
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(4) == b"x = "
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(60), said) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("arguments", [["ops"], ["ops", "--json"], ["run", "p.lg", "--fill", "zero"]])
def test_output_that_cannot_be_written_is_said_once(logos: Logos, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 3
    assert ran.stderr.decode() == (
        "cannot write the output: No space left on device [unwritable-output]\n"
        "  next: free space, or send the output elsewhere\n"
    )


def test_closed_output_is_no_error(logos: Logos) -> None:
    ran = subprocess.run(["sh", "-c", f"{sys.executable} -m logos ops >&-"], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_any_encoding_of_the_terminal_will_do(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    for arguments, code, said in (
        (["ops", "rmsnorm"], 0, "y = x / \\u221a(mean(x²) + eps) · w"),
        (["run", "größe.lg"], 1, "größe.lg: cannot read the program"),
    ):
        ran = subprocess.run(command(*arguments), cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert ran.returncode == code
        assert said.encode("latin-1") in ran.stdout + ran.stderr
