"""`logos run`: what it prints and writes, the values that it takes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Logos, write
from toy_build import Ran

from logos.cli import run as run_command


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


def test_a_variable_does_not_take_the_place_of_the_generated_ids(logos: Logos) -> None:
    write((Path("p.lg").read_text(encoding="utf-8")).replace("logits", "generated"), "q.lg")
    arguments = ("q.lg", "--tokens", "0", "--get", "generated")
    ran = logos("run", *arguments, "--generate", "2", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "--json has the ids of --generate under 'generated', as --get has that variable" in " ".join(ran.err.split())
    assert json.loads(logos("run", *arguments, "--json").out) == {"generated": [[0.0, 1.0, 0.0, 0.0]]}
    assert logos("run", *arguments, "--generate", "2").out.endswith("generated = [[0.0, 0.0, 1.0, 0.0]]\n1 2\n")


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
