"""What model.py refuses within a step, in the reference machine's words: rows, NaNs and integers that it computes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos import Refused, run_steps
from logos.reference import Machine
from sambaflow_modules import Emitted, emitted

INT, REAL = "tensor of Int", "tensor of Real"
DOUBLED = f"Let n be a 1 by 1 {INT}.\nLet T be a 3 by 2 {REAL}.\nLet r be a 1 by 2 {REAL}.\nLet m be n plus n.\n"
ROW = f"{DOUBLED}Let y be row m of T.\nLet z be y plus r.\n"
SET = f"{DOUBLED}Set row m of T to r.\nLet z be r plus r.\n"
# `m` is produced again behind the sentence that reads it: the row is checked where it is read.
AGAIN = f"{DOUBLED}Let y be row m of T.\nLet m be n hadamard n.\nLet z be row m of T.\nLet w be y plus z.\n"
STATE = f"""
Let s be a 1 by 1 {INT}.
Let n be a 1 by 1 {INT}.
Set row 0 of s to n.
Let T be a 3 by 2 {REAL}.
Let y be row s of T.
"""
ARGMAX = f"""
Let x be a 2 by 2 {REAL}.
Let s be x plus x.
Let i be argmax of s.
Let j be argmax of x.
Let y be i plus j.
"""
SUMS = f"Let a be a 1 by 2 {INT}.\nLet b be a 1 by 2 {INT}.\nLet y be a plus b.\n"
PRODUCTS = SUMS.replace("plus", "hadamard")
DOTS = f"Let a be a 1 by 2 {INT}.\nLet b be a 2 by 1 {INT}.\nLet y be a matmul b.\n"
LEAF = f"""
Let tok be a 1 by 1 {INT}.
Set item 1 of tok to -9223372036854775808.
Let T be a 2 by 2 {REAL}.
Let y be row tok of T.
"""
BIG = 2**62

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (ROW, {"n": 2}, "m is 4, outside the rows 0 to 2 of T"),
    (ROW, {"n": 2**31}, "m is 4294967296, outside the rows 0 to 2 of T"),
    (ROW, {"n": -1}, "m is -2, outside the rows 0 to 2 of T"),
    (SET, {"n": 2}, "m is 4, outside the rows 0 to 2 of T"),
    (SET, {"n": 2**31}, "m is 4294967296, outside the rows 0 to 2 of T"),
    (SET, {"n": -(2**31)}, "m is -4294967296, outside the rows 0 to 2 of T"),
    (AGAIN, {"n": -1}, "m is -2, outside the rows 0 to 2 of T"),
    (AGAIN, {"n": 2}, "m is 4, outside the rows 0 to 2 of T"),
    (STATE, {"n": 3}, "s is 3, outside the rows 0 to 2 of T"),
    (STATE, {"n": 2**32}, "s is 4294967296, outside the rows 0 to 2 of T"),
    (LEAF, {}, "tok is -9223372036854775808, outside the rows 0 to 1 of T"),
    (ARGMAX, {"x": [[1, 2], [float("nan"), 3]]}, "argmax: the operand holds a NaN, so it has no largest element"),
    (SUMS, {"a": [[BIG, BIG]], "b": [[0, BIG]]}, "plus: a result does not fit 64 bits"),
    (SUMS, {"a": [[-(2**63), 0]], "b": [[-1, 0]]}, "plus: a result does not fit 64 bits"),
    (PRODUCTS, {"a": [[2**32, 1]], "b": [[2**31, 1]]}, "hadamard: a result does not fit 64 bits"),
    (DOTS, {"a": [[BIG, BIG]], "b": [[1], [1]]}, "matmul: a result does not fit 64 bits"),
]
HOLDS: list[tuple[str, dict[str, Any]]] = [
    (ROW, {"n": 1}),
    (SET, {"n": 0}),
    (AGAIN, {"n": 1}),
    (STATE, {"n": 2}),
    (LEAF, {"tok": 1}),
    (ARGMAX, {"x": [[1, float("inf")], [float("-inf"), 3]]}),
    (SUMS, {"a": [[BIG, -(2**63)]], "b": [[BIG - 1, 2**63 - 1]]}),
    (PRODUCTS, {"a": [[-(2**32), 1]], "b": [[2**31, 1]]}),
    (DOTS, {"a": [[BIG, BIG]], "b": [[1], [-1]]}),
]


def values(made: Emitted, given: dict[str, Any]) -> dict[str, Any]:
    """Every leaf's value in its shape: as given, a state and a fill as they begin, else one for every element."""
    found = {}
    for leaf in made.job.graph.leaves:
        if leaf.name in given or not (leaf.state or leaf.fills):
            kind = np.float64 if leaf.value.real else np.int64
            found[leaf.name] = np.broadcast_to(np.array(given.get(leaf.name, 1), kind), leaf.value.shape).copy()
        elif leaf.fills:
            found[leaf.name] = np.array([[value for _, value in leaf.fills]])
    return found


def settings(made: Emitted, given: dict[str, Any], folder: Path) -> list[str]:
    arguments = ["--dtype", "float64"]
    for name, array in values(made, given).items():
        if name in given or name not in made.module.FILLS:
            np.save(folder / f"{name}.npy", array)
            arguments += ["--set", f"{name}=@{folder}/{name}.npy"]
    return arguments


@pytest.mark.parametrize(("text", "given", "message"), REFUSED)
def test_it_refuses_what_the_reference_machine_refuses_in_its_words(
    text: str, given: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = emitted(text, tmp_path / "out")
    with pytest.raises(Refused) as caught:
        Machine(made.job.graph, values(made, given)).step()
    assert caught.value.refusals[0].what == message
    assert made.module.main(made.module.PROGRAM, settings(made, given, tmp_path)) == 1
    assert capsys.readouterr() == ("", message + "\n")


@pytest.mark.parametrize(("text", "given"), HOLDS)
def test_what_lies_just_within_runs_as_on_the_reference_machine(
    text: str, given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = emitted(text, tmp_path / "out")
    name = made.job.graph.output.name
    want = run_steps(Machine(made.job.graph, values(made, given)), [name]).stacked(name)
    command = [*settings(made, given, tmp_path), "--npy", str(tmp_path / "npy")]
    assert made.module.main(made.module.PROGRAM, command) == 0, capsys.readouterr().err
    assert np.array_equal(np.load(tmp_path / f"npy/{name}.npy").reshape(want.shape), want)


def test_a_variable_may_have_the_name_of_a_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = emitted(ROW.replace("m ", "row_inside "), tmp_path / "out")
    assert made.module.main(made.module.PROGRAM, settings(made, {"n": 2}, tmp_path)) == 1
    assert capsys.readouterr().err == "row_inside is 4, outside the rows 0 to 2 of T\n"


def test_a_refused_step_leaves_no_half_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"Let tok be a 1 by 1 {INT}.\nLet T be a 3 by 2 {REAL}.\nLet m be tok plus tok.\nLet y be row m of T.\n"
    made = emitted(text, tmp_path / "out")
    npy = tmp_path / "npy"
    command = ["--set", "T=1", "--get", "tok,y", "--npy", str(npy), "--tokens"]
    assert made.module.main(made.module.PROGRAM, [*command, "1,2"]) == 1
    assert list(npy.iterdir()) == []
    assert made.module.main(made.module.PROGRAM, [*command, "1,0"]) == 0
    assert sorted(path.name for path in npy.iterdir()) == ["tok.npy", "y.npy"]


def test_a_folder_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = emitted(f"Let x be a 1 by 2 {REAL}.\nLet Wq0 be a 2 by 2 {REAL}.\nLet y be x matmul Wq0.\n", tmp_path)
    np.eye(2).tofile(tmp_path / "Wq0.f64")
    find, searched = made.module.find_values, []
    monkeypatch.setattr(made.module, "find_values", lambda *more: searched.append(more) or find(*more))
    assert made.module.main(made.module.PROGRAM, ["--set", "x=1"]) == 0
    assert len(searched) == 1


def test_a_variable_named_as_the_files_metadata_is_read_by_the_artifact(tmp_path: Path) -> None:
    from logos import WeightEntry, WeightFile
    from logos.weights.extract import write_weight_file

    text = f"Let x be a 1 by 2 {REAL}.\nLet __metadata__ be a 2 by 2 {REAL}.\nSet item 1 of __metadata__ to 3.\n"
    text += f"Let Wq0 be a 2 by 2 {REAL}.\nSet item 2 of Wq0 to 2.\nLet z be x matmul Wq0.\n"
    made = emitted(text + "Let y be z matmul __metadata__.\n", tmp_path / "out")
    entries = (WeightEntry("Wq0", "F32", transposed=True), WeightEntry("__metadata__", "F64"))
    write_weight_file(made.job.binding, WeightFile("weights.safetensors", entries), made.folder)
    command = ["--set", "x=[[1, 10]]", "--get", "z,y", "--npy", str(tmp_path / "npy")]
    assert made.module.main(made.module.PROGRAM, command) == 0
    assert np.load(tmp_path / "npy/z.npy").tolist() == [[0, 2]]
    assert np.load(tmp_path / "npy/y.npy").tolist() == [[0, 0]]


def test_states_and_weights_take_the_dtypes_by_name_alone(tmp_path: Path) -> None:
    import torch

    made = emitted(SET, tmp_path)
    module = made.module.LogosModule()
    assert [state.dtype for state in module.initial_states("float64")] == [torch.float64]
    assert [state.dtype for state in module.initial_states(torch.bfloat16)] == [torch.bfloat16]
    for dtype in ("float16", torch.float16):
        for call in (module.initial_states, lambda dtype: module.load_weights(tmp_path, dtype)):
            with pytest.raises(made.module.ArtifactError, match="takes the dtypes float32, float64, bfloat16, not "):
                call(dtype)


def test_memory_that_does_not_suffice_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = emitted(f"Let x be a 16777216 by 16777215 {REAL}.\nLet y be x plus x.\n", tmp_path)
    assert made.module.main(made.module.PROGRAM, ["--set", "x=1"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("this machine's memory does not suffice: ")
    assert message.count("\n") == 1


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    made = emitted(f"Let x be a 1 by 2 {REAL}.\nLet y be x plus x.\n", tmp_path / "out")
    return [sys.executable, "-I", str(made.folder / "model.py"), "--set", "x=1"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that takes nothing")
def test_output_that_cannot_be_written_is_one_message(small: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(small, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "[Errno 28] No space left on device\n")


def test_a_reader_that_goes_away_is_no_error(small: list[str]) -> None:
    with subprocess.Popen(small, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, "")


def test_an_interrupt_is_one_word(small: list[str], tmp_path: Path) -> None:
    fifo = tmp_path / "x.npy"
    os.mkfifo(fifo)
    process = subprocess.Popen([*small[:-1], f"x=@{fifo}"], stderr=subprocess.PIPE, text=True)
    # It opens once the module reads from it, which then waits.
    with process, open(fifo, "wb"):
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (130, "interrupted\n")


def test_an_interrupt_while_torch_is_imported_is_one_word_too(small: list[str], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([small[0], *small[2:]], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr == "interrupted\n"
