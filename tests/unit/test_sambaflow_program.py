"""model.py as a program: its arguments, the loop over tokens, what it prints and writes, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Inputs, Refused, run_steps
from logos.reference import Machine
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import Emitted, emitted

# A table of past embeddings, and their running product with a weight; `emb` and `Wout` are weights by their names.
TEXT = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let scale be a 1 by 1 tensor of Real.
Let emb be a 5 by 2 tensor of Real.
Let Wout be a 2 by 3 tensor of Real.
Let K0 be a 4 by 2 tensor of Real.
Set item 8 of K0 to 2.
Let shift be a 1 by 3 tensor of Real.
Set item 2 of shift to 10.
Let x be row tok of emb.
Set row pos of K0 to x.
Let half be attention of x over K0 and K0 with 1 heads 1 groups up to pos.
Let scaled be half hadamard scale.
Let h be scaled matmul Wout.
Let logits be h plus shift.
Let next be argmax of logits.
"""
EMB = np.arange(10.0).reshape(5, 2) / 8 - 0.5
WOUT = np.array([[0.5, -1, 2], [1, 0.25, -3]])


@pytest.fixture
def made(tmp_path: Path) -> Emitted:
    module = emitted(TEXT, tmp_path / "out")
    EMB.tofile(tmp_path / "out/emb.f64")
    WOUT.tofile(tmp_path / "out/Wout.f64")
    return module


class Ran:
    """One call of main: its code, the JSON lines it printed, and its message."""

    def __init__(self, made: Emitted, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        self.code = made.module.main(made.module.PROGRAM, arguments)
        out, self.message = capsys.readouterr()
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]


def reference(made: Emitted, tokens: list[int], names: list[str], **values: Any) -> dict[str, Any]:
    given = {"emb": EMB, "Wout": WOUT, "scale": np.array([[2.0]]), "shift": np.array([[0, 10.0, 0]]), **values}
    record = run_steps(Machine(made.job.graph, given), names, tokens)
    return {name: record.stacked(name) for name in names}


def test_it_prints_a_line_for_each_name_of_the_last_step(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(made, capsys, "--set", "scale=2", "--dtype", "float64", "--tokens", "3,1,4", "--get", "logits,next,K0")
    want = reference(made, [3, 1, 4], ["logits", "next", "K0"])
    assert ran.code == 0
    for line, (name, array) in zip(ran.lines, want.items(), strict=True):
        last = array[-1]
        assert list(line) == ["output", "shape", "first", "last"]
        assert (line["output"], line["shape"]) == (name, list(last.shape))
        assert np.allclose([line["first"], line["last"]], [last.flat[0], last.flat[-1]], rtol=0, atol=1e-14)


def test_without_get_it_prints_the_output(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(made, capsys, "--set", "scale=2", "--tokens", "3")
    assert ran.lines == [{"output": "next", "shape": [1, 1], "first": 1, "last": 1}]


def test_without_tokens_one_step_is_made_of_what_is_set(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--set", "scale=2", "--set", "tok=[[4]]", "--set", " pos =3", "--dtype", "float64"]
    ran = Ran(made, capsys, *arguments, "--get", " pos, x,pos")
    assert [(line["output"], line["first"]) for line in ran.lines] == [("pos", 3), ("x", EMB[4, 0])]
    ran = Ran(made, capsys, *arguments, "--get", ",")
    assert [line["output"] for line in ran.lines] == ["next"]


def test_npy_holds_every_step_of_anything_the_program_names(
    made: Emitted, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = (made.folder / "model.py").read_bytes()
    names = ["next", "logits", "K0", "half", "x", "tok", "pos", "Wout", "shift", "scale"]
    arguments = ["--set", "scale=2", "--tokens", "3,1,4", "--dtype", "float64", "--get", ",".join(names)]
    assert Ran(made, capsys, *arguments, "--npy", str(tmp_path / "npy")).code == 0
    for name, array in reference(made, [3, 1, 4], names).items():
        found = np.load(tmp_path / f"npy/{name}.npy")
        assert found.shape == (array[:, 0] if array.shape[1] == 1 else array).shape
        assert found.dtype == (np.float64 if array.dtype.kind == "f" else np.int64)
        assert np.allclose(found.reshape(array.shape), array, rtol=0, atol=1e-14)
    assert (made.folder / "model.py").read_bytes() == before
    assert {path.suffix for path in (tmp_path / "npy").iterdir()} == {".npy"}


@pytest.mark.parametrize(("dtype", "stored"), [("float32", "<f4"), ("float64", "<f8"), ("bfloat16", "<i2")])
def test_out_holds_raw_values_of_the_dtype(
    dtype: str, stored: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import torch

    text = "Let x be a 2 by 3 tensor of Real.\nLet y be x plus x.\n"
    made = emitted(text, tmp_path / "out")
    arguments = ["--set", "x=[[1, 2, 3], [4, 5, 6.5]]", "--dtype", dtype, "--out", str(tmp_path / "y.bin")]
    assert Ran(made, capsys, *arguments).code == 0
    found = torch.from_numpy(np.fromfile(tmp_path / "y.bin", stored).copy())
    values = found.view(torch.bfloat16) if dtype == "bfloat16" else found
    assert values.tolist() == [2, 4, 6, 8, 10, 13]


def test_set_takes_numbers_lists_and_files_for_every_kind_of_leaf(
    made: Emitted, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "emb.npy", EMB * 2)
    settings = [f"emb=@{tmp_path}/emb.npy", "Wout=[[1, 0, 0], [0, 1, 0]]", "K0=0.5", "scale=[1]", "shift=[[1, 2, 3]]"]
    arguments = [part for setting in settings for part in ("--set", setting)]
    names = ["logits", "K0"]
    npy = str(tmp_path / "npy")
    ran = Ran(made, capsys, *arguments, "--tokens", "2,2", "--dtype", "float64", "--get", ",".join(names), "--npy", npy)
    assert ran.code == 0, ran.message
    given = {"emb": EMB * 2, "Wout": np.eye(2, 3), "scale": np.ones((1, 1)), "shift": np.array([[1.0, 2, 3]])}
    want = reference(made, [2, 2], names, **given, K0=np.full((4, 2), 0.5))
    assert np.allclose(np.load(tmp_path / "npy/logits.npy"), want["logits"][:, 0], rtol=0, atol=1e-14)
    assert np.allclose(np.load(tmp_path / "npy/K0.npy"), want["K0"], rtol=0, atol=1e-14)


def test_inputs_may_lie_in_the_weight_folder(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    np.array([[2.0]]).tofile(made.folder / "scale.f64")
    ran = Ran(made, capsys, "--tokens", "3", "--get", "scale,logits", "--dtype", "float64")
    want = reference(made, [3], ["logits"])["logits"][0]
    assert ran.lines[0]["first"] == 2
    assert ran.lines[1]["last"] == pytest.approx(want[0, -1], abs=1e-14)


def test_tokens_feed_a_filled_tok_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "Let tok be a 1 by 1 tensor of Int.\nSet item 1 of tok to 4.\nLet t be a 2 by 1 tensor of Real.\n"
    made = emitted(text + "Let x be row tok of t.\n", tmp_path)
    ran = Ran(made, capsys, "--set", "t=[[1], [3]]", "--tokens", "0,1", "--get", "x,tok")
    assert [line["first"] for line in ran.lines] == [3, 1]
    assert Ran(made, capsys, "--set", "t=1").message == "tok is 4, outside the rows 0 to 1 of t\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "3,5"], "tok is 5, outside the rows 0 to 4 of emb"),
        (["--tokens", "3,999999999999999999"], "tok is 999999999999999999, outside the rows 0 to 4 of emb"),
        (["--tokens", "0,0,0,0,0"], "pos is 4, outside the rows 0 to 3 of K0"),
        (["--set", "tok=1", "--set", "pos=9"], "pos is 9, outside the rows 0 to 3 of K0"),
        (["--set", "tok=-1", "--set", "pos=0"], "tok is -1, outside the rows 0 to 4 of emb"),
        (["--set", "tok=4294967297", "--set", "pos=0"], "tok is 4294967297, outside the rows 0 to 4 of emb"),
        (["--set", f"tok={-(2**63)}", "--set", "pos=0"], f"tok is {-(2**63)}, outside the rows 0 to 4 of emb"),
        (["--tokens", "1", "--set", "tok=2"], "--tokens feeds tok at every step; it takes no value"),
        (["--tokens", "1", "--set", "pos=2"], "--tokens feeds pos at every step; it takes no value"),
        (["--tokens", "1", "--get", "logit"], "--get logit: the program has no such variable; did you mean logits?"),
        (["--set", "embb=2"], "--set embb: the program declares no such leaf; did you mean emb?"),
        (["--set", "emb"], "--set emb: NAME=VALUE is due"),
        (["--set", "=2"], "--set =2: NAME=VALUE is due"),
        (["--set", "tok=1.5", "--set", "pos=0"], "tok takes whole numbers"),
        (["--set", "tok=true", "--set", "pos=0"], "tok takes whole numbers"),
        (["--set", f"tok={2**63}", "--set", "pos=0"], "a value of tok does not fit 64 bits"),
        (["--tokens", "1", "--set", "emb=[[1, 2]]"], "emb is 5 by 2; a value of shape [1, 2] was given"),
        (["--set", "tok=1"], "missing: input pos (1 by 1); give --weights with a folder that holds them, or --set"),
    ],
)
def test_what_cannot_be_run_is_one_message(
    arguments: list[str], message: str, made: Emitted, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(made, capsys, "--set", "scale=2", *arguments)
    assert (ran.code, ran.lines, ran.message) == (1, [], message + "\n")


@pytest.mark.parametrize("tokens", ["1,x", "1,,2", "1,", "", " ", "1_0", "+3", "-1", "٣", "²", "1.0", "9" * 23])
def test_tokens_are_plain_digits_between_commas(
    tokens: str, made: Emitted, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(made, capsys, "--set", "scale=2", f"--tokens={tokens}")
    assert (ran.code, ran.lines) == (1, [])
    assert ran.message == f"--tokens {tokens}: whole numbers separated by commas are due\n"


def test_tokens_may_have_blanks_about_them(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    assert Ran(made, capsys, "--set", "scale=2", "--tokens", " 3, 01 ", "--get", "tok").lines[0]["first"] == 1


def test_a_whole_number_for_a_real_may_have_any_size(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--tokens", "3", "--get", "scale", "--dtype", "float64"]
    assert Ran(made, capsys, "--set", f"scale={10**30}", *arguments).lines[0]["first"] == 1e30
    assert Ran(made, capsys, "--set", "scale=1" + "0" * 300, *arguments).lines[0]["first"] == 1e300


def test_what_is_not_finite_is_a_word_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = emitted("Let x be a 1 by 3 tensor of Real.\nLet y be x hadamard x.\n", tmp_path)
    command = ["--set", "x=[-1e300, NaN, 1e300]", "--dtype", "float64", "--get", "x,y"]
    assert made.module.main(made.module.PROGRAM, command) == 0

    def plain(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    lines = [json.loads(line, parse_constant=plain) for line in capsys.readouterr().out.splitlines()]
    assert [(line["first"], line["last"]) for line in lines] == [(-1e300, 1e300), ("inf", "inf")]
    assert Ran(made, capsys, "--set", "x=[NaN, 1, -Infinity]", "--get", "x").lines == [
        {"output": "x", "shape": [1, 3], "first": "nan", "last": "-inf"}
    ]


def test_a_value_that_is_no_json_is_refused(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(made, capsys, "--set", "scale=[1")
    assert ran.message.startswith("--set scale: a number, a nested list or @file.npy is due (")
    assert Ran(made, capsys, "--set", "scale=" + "[" * 100_000).code == 1
    assert Ran(made, capsys, "--set", "tok=" + "9" * 5000).code == 1


@pytest.mark.parametrize("data", [None, b"", b"\x93NUMPY", b"PK\x03\x04"])
def test_a_value_in_no_npy_file_is_refused(
    data: bytes | None, made: Emitted, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if data is not None:
        (tmp_path / "e.npy").write_bytes(data)
    ran = Ran(made, capsys, "--set", f"scale=@{tmp_path}/e.npy")
    assert (ran.code, ran.message.count("\n")) == (1, 1)
    assert ran.message.startswith(f"cannot read {tmp_path}/e.npy: ")


def test_missing_weights_and_inputs_are_one_message(made: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    (made.folder / "emb.f64").unlink()
    ran = Ran(made, capsys)
    assert ran.message == (
        "missing: input tok (1 by 1), input pos (1 by 1), input scale (1 by 1), weight emb (5 by 2); give --weights "
        "with a folder that holds them, or --set\n"
    )


def test_tokens_need_an_input_named_tok(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = emitted("Let x be a 1 by 1 tensor of Int.\nLet y be x plus x.\n", tmp_path)
    ran = Ran(made, capsys, "--set", "x=1", "--tokens", "1")
    assert ran.message == "tokens are fed to an input named tok, 1 by 1 of Int; the program has none\n"


def test_a_computed_row_in_an_int64_variable_is_used_as_a_row(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = "Let a be a 1 by 1 tensor of Int.\nLet t be a 6 by 1 tensor of Int.\n"
    text += "".join(f"Set item {item} of t to {item * item}.\n" for item in range(1, 7))
    text += "Let b be a plus a.\nLet y be row b of t.\n"
    made = emitted(text, tmp_path)
    assert Ran(made, capsys, "--set", "a=2").lines == [{"output": "y", "shape": [1, 1], "first": 25, "last": 25}]


def test_it_runs_isolated_from_any_folder_by_any_name(made: Emitted, tmp_path: Path) -> None:
    copy = tmp_path / "odd name é.py"
    copy.write_bytes((made.folder / "model.py").read_bytes())
    command = [sys.executable, "-I", str(copy), "--weights", str(made.folder), "--tokens", "1", "--set", "scale=1"]
    done = subprocess.run([*command, "--get", "half"], capture_output=True, text=True, check=True, cwd="/")
    assert json.loads(done.stdout)["output"] == "half"
    assert done.stderr == ""


def inputs(made: Emitted, **changes: Any) -> Inputs:
    given = {"scale": np.array([[2.0]])}
    values: dict[str, Any] = {"artifact": made.folder, "weights": made.folder, "arrays": given, "tokens": [3, 1, 4]}
    values |= {"taps": ["logits", "K0", "next", "half"], "dtype": "float64", **changes}
    return Inputs(**values)


def test_the_target_runs_an_artifact_and_reads_taps(made: Emitted) -> None:
    found = SambaflowTarget().run(made.job, inputs(made))
    for name, array in reference(made, [3, 1, 4], list(found)).items():
        assert found[name].shape == array.shape
        assert np.allclose(found[name], array, rtol=0, atol=1e-14)


def test_a_module_that_fails_says_so_in_its_own_words(made: Emitted) -> None:
    with pytest.raises(Refused) as caught:
        SambaflowTarget().run(made.job, inputs(made, tokens=[5]))
    # What verification runs lies in a folder that is gone when the message is read.
    assert caught.value.refusals[0].text() == (
        "model.py of p.lg: tok is 5, outside the rows 0 to 4 of emb [module-failed]\n"
        "  next: it ended with exit code 1; to run it by hand, `logos build p.lg --target rdu-sambaflow --out DIR` "
        "with the options given here, then `python -I DIR/model.py --dtype float64 --get logits,K0,next,half --tokens "
        "5`"
    )
    model = (made.folder / "model.py").read_text("utf-8")
    (made.folder / "model.py").write_text(model.replace("x = embedding(", "x = embeding("), encoding="utf-8")
    with pytest.raises(Refused, match=r"NameError: name 'embeding' is not defined.* \[module-failed\]"):
        SambaflowTarget().run(made.job, inputs(made))


def test_without_torch_running_is_refused(made: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"\[torch-missing\]\n  next: pip install logos-build\[torch\]"):
        SambaflowTarget().run(made.job, inputs(made))
