"""The command line: what check, ops, run and verify print, and how commands end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos import OPS
from logos.cli import run as run_command
from logos.cli.main import main

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let e be a 4 by 4 tensor of Real.
Set item 2 of e to 1.
Set item 7 of e to 1.
Set item 12 of e to 1.
Set item 13 of e to 1.
Let seen be a 8 by 4 tensor of Real.
Let x be row tok of e.
Set row pos of seen to x.
Let logits be x hadamard x.
Show item 2 of logits.
Show row 0 of seen.
Let next be argmax of logits.
Show next.
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Logos = Callable[..., Ran]


@pytest.fixture
def logos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Logos:
    """The command, run in a folder that holds p.lg."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main([*arguments])
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return Ran(exit.value.code, captured.out, captured.err)

    return run


def write(text: str, path: str = "q.lg") -> None:
    Path(path).write_text(text, encoding="utf-8")


# run


def test_run_prints_what_is_shown_then_what_is_asked_for(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--set", "tok=2", "--set", "pos=0", "--get", "tok,logits")
    assert ran == Ran(0, (
        "item 2 of logits = 0.0\n"
        "row 0 of seen = [[0.0, 0.0, 0.0, 1.0]]\n"
        "next = [[3]]\n"
        "tok = [[2]]\n"
        "logits = [[0.0, 0.0, 0.0, 1.0]]\n"
    ), "")  # fmt: skip


def test_run_over_tokens_prints_the_last_step_and_the_generated_ids(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--tokens", "3, 0", "--generate", "5", "--get", "tok,pos")
    assert ran.code == 0
    assert ran.out.splitlines()[-3:] == ["tok = [[0]]", "pos = [[5]]", "1 2 3 0 1"]


def test_run_in_json_is_one_object(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--tokens", "0", "--generate", "2", "--get", "next,x,next", "--json")
    assert json.loads(ran.out) == {"generated": [1, 2], "next": [[2]], "x": [[0.0, 0.0, 1.0, 0.0]]}
    ran = logos("run", "p.lg", "--tokens", "0", "--get", "next", "--json")
    assert ran.out == '{"next": [[1]]}\n'


def test_npy_holds_every_step(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--tokens", "0,2", "--get", "x,next,seen", "--npy", "made/npy")
    assert ran.code == 0
    assert {path.name: np.load(path).shape for path in Path("made/npy").iterdir()} == {
        "x.npy": (2, 4), "next.npy": (2, 1), "seen.npy": (2, 8, 4)
    }  # fmt: skip
    assert np.load("made/npy/next.npy").tolist() == [[1], [3]]


def test_without_names_the_output_is_written_and_printed_where_nothing_else_is(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--tokens", "0,2", "--npy", "other")
    assert (ran.code, ran.out.splitlines()[-1], ran.err) == (0, "next = [[3]]", "")
    assert np.load("other/next.npy").tolist() == [[1], [3]]
    assert [path.name for path in Path("other").iterdir()] == ["next.npy"]
    write("Let x be a 1 by 2 tensor of Real.\nLet y be x plus x.\nLet z be y plus x.\n")
    assert logos("run", "q.lg", "--set", "x=[1, 2]").out == "z = [[3.0, 6.0]]\n"
    assert logos("run", "q.lg", "--set", "x=[1, 2]", "--json").out == '{"z": [[3.0, 6.0]]}\n'
    assert logos("run", "q.lg", "--set", "x=[1, 2]", "--get", "y").out == "y = [[2.0, 4.0]]\n"
    assert logos("run", "p.lg", "--fill", "zero", "--json").out == '{"next": [[1]]}\n'
    assert logos("run", "p.lg", "--tokens", "0", "--generate", "2", "--json").out == '{"generated": [1, 2]}\n'
    shown = ["item 2 of logits = 1.0", "row 0 of seen = [[0.0, 1.0, 0.0, 0.0]]", "next = [[1]]"]
    assert logos("run", "p.lg", "--fill", "zero").out.splitlines() == shown


def test_json_has_strings_for_what_it_has_no_numbers_for(logos: Logos) -> None:
    write("Let x be a 1 by 4 tensor of Real.\nLet y be x hadamard x.\n")
    values = "x=[1e300, 2, NaN, -Infinity]"
    ran = logos("run", "q.lg", "--set", values, "--get", "x,y", "--json")
    said = json.loads(ran.out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert said == {"x": [[1e300, 2.0, "nan", "-inf"]], "y": [["inf", 4.0, "nan", "inf"]]}


@pytest.mark.parametrize(
    "text", ["0.1", "-0.0", "1e+22", "5e-324", "1.7976931348623157e+308", "0.30000000000000004", "NaN", "-Infinity"]
)
def test_what_is_printed_reads_back_the_same(logos: Logos, text: str) -> None:
    write("Let x be a 2 by 1 tensor of Real.\nLet y be transpose of x.\nShow x.\n")
    ran = logos("run", "q.lg", "--set", f"x={text}")
    assert ran.out == f"x = [[{text}], [{text}]]\n"
    again = logos("run", "q.lg", "--set", f"x={ran.out.partition(' = ')[2]}")
    assert again.out == ran.out


def test_set_takes_numbers_lists_and_files(logos: Logos) -> None:
    write("Let x be a 1 by 3 tensor of Real.\nLet n be a 3 by 1 tensor of Int.\nLet y be n matmul x.\nShow x.\nShow n.")
    np.save("n.npy", np.array([[1], [2], [3]], dtype=np.uint8))
    np.save("x.npy", np.arange(3, dtype=">f4"))
    for given, shown in {
        ("x=2", "n=-7"): "x = [[2.0, 2.0, 2.0]]\nn = [[-7], [-7], [-7]]\n",
        ("x=[1,2.5,1e3]", "n=[[1],[2],[3]]"): "x = [[1.0, 2.5, 1000.0]]\nn = [[1], [2], [3]]\n",
        ("x=@x.npy", "n=@n.npy"): "x = [[0.0, 1.0, 2.0]]\nn = [[1], [2], [3]]\n",
        ("x=1" + "0" * 300, f"n={2**63 - 1}"): f"x = {[[1e300] * 3]}\nn = {[[2**63 - 1]] * 3}\n",
        ("x=[1, -Infinity, NaN]", "n=0"): "x = [[1.0, -Infinity, NaN]]\nn = [[0], [0], [0]]\n",
        ("x=1", "n=0", "x=3"): "x = [[3.0, 3.0, 3.0]]\nn = [[0], [0], [0]]\n",
    }.items():
        arguments = [word for one in given for word in ("--set", one)]
        assert logos("run", "q.lg", *arguments) == Ran(0, shown, "")


def bad_files(folder: Path) -> None:
    np.save(folder / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(folder / "many.npz", a=np.zeros(3))
    np.save(folder / "text.npy", np.array(["a", "b", "c"]))
    np.save(folder / "complex.npy", np.zeros((1, 3), complex))
    np.save(folder / "large.npy", np.full((3, 1), 2**63, np.uint64))
    np.save(folder / "whole.npy", np.zeros((1, 3)))
    (folder / "empty.npy").write_bytes(b"")
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:-1])
    (folder / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xffnonsense")
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }"
    (folder / "vast.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    (folder / "folder.npy").mkdir()


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("x=1" + "0" * 400, "value-not-finite", "a value of x is too large for float64"),
        ("x=[1,-1e400,2]", "value-not-finite", "a value of x is too large for float64"),
        ("n=1" + "0" * 400, "int-out-of-range", "a value of n does not fit 64 bits"),
        ("x=" + "[" * 99999, "bad-value", "is no number and no nested list"),
        ("x=[[1,2],[3]]", "value-shape", "the rows of the list are not of one length"),
        ("x=[[1,2]]", "value-shape", "x is 1 by 3 of Real; the value is 1 by 2"),
        ("x=[[[1,2,3]]]", "value-shape", "x is 1 by 3 of Real; the value is 1 by 1 by 3"),
        ("x=[]", "value-shape", "x is 1 by 3 of Real; the value is 1 by 0"),
        ("n=[1,2,3]", "value-shape", "n is 3 by 1 of Int; the value is 3"),
        ("x=one", "bad-value", "one is no number and no nested list"),
        ("x=", "bad-value", " is no number and no nested list"),
        ("x=" + "[" * 10_000, "bad-value", "is no number and no nested list"),
        ("x=nan", "bad-value", "nan is no number and no nested list"),
        ("x=true", "value-type", "x is 1 by 3 of Real; the value holds true or false"),
        ('x=["1","2","3"]', "value-type", "x is 1 by 3 of Real; the value holds text"),
        ("x={}", "value-type", "x is 1 by 3 of Real; the value holds an object"),
        ("n=[[1],[null],[2.0]]", "value-type",
         "n is 3 by 1 of Int; the value holds a number with a point or an exponent, null"),
        ("n=NaN", "value-type", "n is 3 by 1 of Int; the value holds a number with a point or an exponent"),
        (f"n={2**63}", "int-out-of-range", "a value of n does not fit 64 bits"),
        (f"n=[[1],[{2**80}],[1]]", "int-out-of-range", "a value of n does not fit 64 bits"),
        ("n=1" + "0" * 5000, "bad-value", "is no number and no nested list"),
        ("x=@missing.npy", "bad-value", "cannot read missing.npy: No such file or directory"),
        ("x=@folder.npy", "bad-value", "cannot read folder.npy: Is a directory"),
        ("x=@", "bad-value", "cannot read .: Is a directory"),
        ("x=@p.lg", "bad-value", "cannot read p.lg: it is no .npy file"),
        ("x=@many.npz", "bad-value", "cannot read many.npz: it is no .npy file"),
        ("x=@empty.npy", "bad-value", "cannot read empty.npy: it is no .npy file"),
        ("x=@cut.npy", "bad-value", "cannot read cut.npy: "),
        ("x=@header.npy", "bad-value", "cannot read header.npy: "),
        ("x=@vast.npy", "bad-value", "cannot read vast.npy: "),
        ("x=@pickled.npy", "bad-value", "cannot read pickled.npy: "),
        ("x=@text.npy", "value-type", "x is 1 by 3 of Real; the value holds <U1"),
        ("x=@complex.npy", "value-type", "x is 1 by 3 of Real; the value holds complex128"),
        ("n=@whole.npy", "value-type", "n is 3 by 1 of Int; the value holds float64"),
        ("n=@large.npy", "int-out-of-range", "a value of n does not fit 64 bits"),
        ("y=1", "set-of-computed", "y is produced by an operation; it takes no value"),
        ("z=1", "unknown-variable", "the program has no variable z"),
        ("\x1b[2J=1", "unknown-variable", "the program has no variable ?[2J"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(logos: Logos, tmp_path: Path, given: str, code: str, said: str) -> None:
    write("Let x be a 1 by 3 tensor of Real.\nLet n be a 3 by 1 tensor of Int.\nLet y be n matmul x.")
    bad_files(tmp_path)
    ran = logos("run", "q.lg", "--fill", "zero", "--set", given)
    assert (ran.code, ran.out) == (1, "")
    assert f"[{code}]" in ran.err
    assert said in ran.err
    assert len(ran.err) < 1000
    assert all(character.isprintable() or character == "\n" for character in ran.err)


def test_every_value_that_does_not_fit_is_refused_in_one_report(logos: Logos) -> None:
    ran = logos("run", "p.lg", "--set", "tok=x", "--set", "pos=1.5", "--set", "next=1", "--set", "none=1")
    assert ran.code == 1
    assert [line.partition(":")[0] for line in ran.err.splitlines() if line.startswith("--set")] == [
        "--set tok", "--set pos", "--set next", "--set none"
    ]  # fmt: skip
    assert ran.err.endswith("4 refusals\n")


@pytest.mark.parametrize("tokens", ["", "1,,2", "one", "-1", "1.0", "１", "1;2", "9" * 19, "0x1"])
def test_tokens_are_ids(logos: Logos, tokens: str) -> None:
    ran = logos("run", "p.lg", f"--tokens={tokens}")
    assert ran.code == 2
    assert "is not a list of token ids such as 1,2,3" in ran.err


def test_tokens_of_a_program_that_takes_none_and_values_beside_them(logos: Logos) -> None:
    write("Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.")
    assert "[no-token-input]" in logos("run", "q.lg", "--tokens", "1", "--fill", "zero").err
    assert "[set-of-fed]" in logos("run", "p.lg", "--tokens", "1", "--set", "pos=3").err
    ran = logos("run", "p.lg", "--generate", "3")
    assert (ran.code, "--generate goes on after --tokens" in ran.err) == (2, True)
    ran = logos("run", "p.lg", "--tokens", "0", "--generate", "-1")
    assert ran.code == 2
    ran = logos("run", "p.lg", "--tokens", "4")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("p.lg:9:1: tok is 4, outside the rows 0 to 3 of e [row-outside-table]\n")


def test_what_has_no_value_is_refused_all_at_once_unless_it_is_filled(logos: Logos) -> None:
    ran = logos("run", "p.lg")
    assert ran.err.count("[no-value-given]") == 2
    assert ran.err.startswith("p.lg:1:1: the input tok has no value [no-value-given]\n")
    for kind in ("zero", "ramp", "noise"):
        assert logos("run", "p.lg", "--fill", kind).out.splitlines()[-1] == "next = [[1]]"


HUGE = "x is 16777216 by 16777215 and takes 2,251,799,679,467,520 bytes, more than this machine has room for"


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (("run", "--fill", "zero"), "q.lg:1:1"),
        (("run", "--fill", "noise"), "q.lg:1:1"),
        (("run", "--set", "x=1"), "--set x"),
        (("verify", "--target", "rdu-sambaflow"), "q.lg:1:1"),
    ],
)
def test_a_value_beyond_this_machines_memory_is_refused(
    logos: Logos, command: tuple[str, ...], place: str
) -> None:
    write("Let x be a 16777216 by 16777215 tensor of Real.\nLet y be transpose of x.\n")
    ran = logos(command[0], "q.lg", *command[1:])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"{place}: {HUGE} [too-large-for-memory]\n")
    assert ran.err.endswith("\n  next: make x smaller, or use a machine with more memory\n")
    assert json.loads(logos(command[0], "q.lg", *command[1:], "--json").out)["refusal"] == "too-large-for-memory"


@pytest.mark.parametrize(
    "text",
    [
        "Let x be a 4000000 by 1 tensor of Real.\nLet z be transpose of x.\nLet y be x matmul z.\n",
        "Let x be a 1 by 1 tensor of Real.\nLet y be a 16777216 by 16777215 tensor of Real.\nSet row 0 of y to r.\n"
        "Let z be silu of x.\n",
    ],
)
def test_what_a_step_makes_beyond_this_machines_memory_is_refused(logos: Logos, text: str) -> None:
    write(text.replace("Set row", "Let r be a 1 by 16777215 tensor of Real.\nSet row"))
    ran = logos("run", "q.lg", "--fill", "zero")
    assert (ran.code, ran.out) == (1, "")
    assert "y is " in ran.err
    assert "[too-large-for-memory]" in ran.err


def test_memory_that_runs_out_elsewhere_is_refused_too(logos: Logos, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*arguments: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(run_command, "_print", greedy)
    ran = logos("run", "p.lg", "--fill", "zero", "--json")
    assert (ran.code, json.loads(ran.out)["refusal"]) == (1, "out-of-memory")


# check and ops


def test_check_says_what_the_program_is_and_who_can_take_it(logos: Logos) -> None:
    assert logos("check", "p.lg") == Ran(0, (
        "p.lg: 4 operations; 2 inputs, 1 constant, 1 state\n"
        "output: next, 1 by 1 of Int\n"
        "target cuda: can take it\n"
        "target rdu-sambaflow: can take it\n"
    ), "")  # fmt: skip
    assert json.loads(logos("check", "p.lg", "--json").out) == {
        "program": "p.lg", "operations": 4, "leaves": {"input": 2, "constant": 1, "state": 1}, "output": "next",
        "targets": {"cuda": [], "rdu-sambaflow": []},
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
    assert lines[0].split() == ["op", "reference", "cuda", "rdu-sambaflow", "sentence"]
    assert len(lines) == 1 + len(OPS)
    (moe,) = (line.split() for line in lines if line.startswith("moe"))
    assert moe[:5] == ["moe", "yes", "yes", "no", "Let"]
    page = logos("ops", "gated", "delta").out
    assert page.startswith("gated delta\n\n  Let OUT be gated delta of Q over K and V")
    assert "  writes: S\n  many steps at once: a row a step of Q, K, V, Z, B, A, GN\n  spelled by: reference" in page
    assert "reference, cuda, rdu-sambaflow\n\nThe gated delta rule" in page
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
