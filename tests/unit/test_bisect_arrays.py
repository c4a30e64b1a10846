"""`logos verify --bisect --against DIR`: arrays made elsewhere, all of them or some."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logos.cli.main import main

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let Wq0 be a 4 by 4 tensor of Real.
Let K be a 8 by 4 tensor of Real.
Let x be row tok of emb.
Let h be x matmul Wq0.
Let h be silu of h.
Set row pos of K to h.
Let a be attention of h over K and K with 2 heads 2 groups up to pos.
Let logits be a plus x.
Let next be argmax of logits.
"""
TOKENS = ("--tokens", "1,3,2")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.out)
        return record


Bisect = Callable[..., Ran]


@pytest.fixture
def bisect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bisect:
    """`logos verify --bisect --against made`, where `made` holds all arrays of the program's own run."""
    monkeypatch.chdir(tmp_path)
    Path("p.lg").write_text(PROGRAM, encoding="utf-8")
    logos("run", "p.lg", *TOKENS, "--fill", "noise", "--get", "*", "--npy", "made")

    def bisected(*arguments: str) -> Ran:
        capfd.readouterr()
        words = ("verify", "p.lg", "--target", "rdu-sambaflow", *TOKENS, "--bisect", "--against", "made")
        code = logos(*words, *arguments)
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return bisected


def logos(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(list(arguments))
    assert isinstance(exit.value.code, int)
    return exit.value.code


def change(name: str, by: Callable[[Any], Any]) -> None:
    """Changes an array: the step is its first dimension."""
    array = np.load(f"made/{name}.npy")
    np.save(f"made/{name}.npy", by(array))


def off(array: Any) -> Any:
    array[1] *= 1.001
    return array


def test_arrays_of_the_same_program_hold(bisect: Bisect) -> None:
    assert sorted(path.name for path in Path("made").iterdir()) == [
        "K.npy", "a.npy", "h.npy", "h@1.npy", "logits.npy", "next.npy", "x.npy"
    ]  # fmt: skip
    ran = bisect()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == "float64: every stage holds at 3 steps; 7 values compared"
    record = bisect("--json").record
    assert (record["holds"], record["compared"], record["unread"], record["first"]) == (True, 7, [], None)


@pytest.mark.parametrize(("name", "line"), [("x", 6), ("h@1", 7), ("h", 8), ("K", 9), ("a", 10), ("logits", 11)])
def test_a_wrong_array_is_named_by_its_stage(bisect: Bisect, name: str, line: int) -> None:
    change(name, off)
    ran = bisect("--json")
    record, first = ran.record, ran.record["first"]
    assert (ran.code, record["fault"], first["step"], first["where"]) == (4, "stage", 1, f"p.lg:{line}:1")
    assert [made["variable"] for made in first["made"]] == [name]
    assert "the array " in bisect().out


def test_an_array_in_float32_is_held_to_its_own_bound(bisect: Bisect) -> None:
    for name in ("a", "logits"):
        change(name, lambda array: array.astype(np.float32))
    ran = bisect("--json")
    assert (ran.code, ran.record["dtype"]) == (0, "float64, float32")
    change("logits", lambda array: array.astype(np.float64))
    # Said to be float64, logits lies beyond its bound; what it was made from explains that much.
    ran = bisect("--json")
    assert (ran.code, ran.record["fault"], ran.record["first"]["where"]) == (4, "rounding", "p.lg:11:1")
    assert bisect("--dtype", "float32").code == 0


def test_stages_without_arrays_are_said_and_bound_the_fault(bisect: Bisect) -> None:
    for name in ("h", "h@1", "a"):
        Path(f"made/{name}.npy").unlink()
    record = bisect("--json").record
    assert (record["holds"], record["unread"], record["compared"]) == (True, ["h@1", "h", "a"], 4)
    change("K", off)
    record = bisect("--json").record
    assert (record["fault"], record["first"]["where"]) == ("unread", "p.lg:9:1")
    assert (record["inside"], record["border"]) == ([7, 8, 9], ["x", "K"])
    lines = bisect().out.splitlines()
    assert lines[-2:] == [
        "  not compared, since there is no array of them: 3 values (h@1, h, a)",
        "  the fault lies in the stages of lines 7, 8, 9, behind x, K, which hold: the rest between them was not read",
    ]


def test_the_array_of_a_weight_tells_a_wrong_weight_from_a_wrong_stage(bisect: Bisect) -> None:
    logos("run", "p.lg", *TOKENS, "--fill", "noise", "--get", "Wq0,emb", "--npy", "made")
    right = np.load("made/Wq0.npy")[0]
    wrong = right.copy()
    wrong[2, 1] += 0.5
    np.save("wrong.npy", wrong)
    logos("run", "p.lg", *TOKENS, "--fill", "noise", "--set", "Wq0=@wrong.npy", "--get", "*,Wq0", "--npy", "made")
    ran = bisect("--json")
    assert (ran.code, ran.record["fault"], ran.record["first"]["where"]) == (4, "leaf", "p.lg:7:1")
    (leaf,) = ran.record["first"]["leaves"]
    assert (leaf["variable"], leaf["row"], leaf["column"]) == ("Wq0", 2, 1)
    assert (leaf["found"], leaf["reference"]) == (wrong[2, 1], right[2, 1])
    assert bisect().out.splitlines()[-1] == "  the fault lies in the weight Wq0: the stage at p.lg:7 made what it gives"


def test_a_weight_without_an_array_may_be_at_fault_and_is_named(bisect: Bisect) -> None:
    change("h@1", off)
    stage = "the fault lies in the stage at p.lg:7: what it read does not give what it made"
    assert bisect().out.splitlines()[-1] == (
        f"  {stage}, unless the fault is in Wq0, not compared: add it by --get '*,Wq0'"
    )
    logos("run", "p.lg", *TOKENS, "--fill", "noise", "--get", "Wq0", "--npy", "made")
    assert bisect().out.splitlines()[-1] == f"  {stage}"


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (
            lambda array: array[:2],
            "made/logits.npy: logits: 3 steps of 1 by 4 are due; the file is 2 by 4 [value-shape]\n"
            "  next: make the steps that are compared here: give the same --tokens\n",
        ),
        (
            lambda array: array.T,
            "made/logits.npy: logits: 3 steps of 1 by 4 are due; the file is 4 by 3 [value-shape]\n"
            "  next: make the steps that are compared here: give the same --tokens\n",
        ),
        (
            lambda array: array.astype(np.float16),
            "made/logits.npy: no bound is known for float16 [value-type]\n"
            "  next: say with --dtype which bound it is held to, or write float64 or float32\n",
        ),
        (
            lambda array: array + 1j,
            "made/logits.npy: logits is Real; the file holds complex128 [value-type]\n"
            "  next: write numbers, whole ones for Int, with numpy.save\n",
        ),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused(bisect: Bisect, by: Callable[[Any], Any], said: str) -> None:
    change("logits", by)
    ran = bisect()
    assert (ran.code, ran.out, ran.err) == (1, "", said)


def test_reals_for_an_int_and_a_folder_without_stages_are_refused(bisect: Bisect) -> None:
    change("next", lambda array: array * 1.0)
    assert bisect().err.startswith("made/next.npy: next is Int; the file holds float64 [value-type]\n")
    for path in Path("made").iterdir():
        path.unlink()
    np.save("made/tok.npy", np.array([[1], [3], [2]]))
    ran = bisect()
    assert (ran.code, ran.err) == (
        1,
        "made: the folder holds no array of what the program makes [nothing-to-compare]\n"
        "  next: write them with `logos run … --get '*' --npy DIR`, or with the artifact's model.py\n",
    )
