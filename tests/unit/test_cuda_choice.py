"""What the cuda target keeps in fewer bits: the options, what is refused, what is said, the dtype it is held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import logos.execution
from logos import Job, Refused, Request, make_job, make_manager
from logos.cli.main import cli
from logos.contracts import compared_of
from logos_cuda.choice import storage_of
from logos_cuda.storage import Multiply
from logos_cuda.target import CudaTarget, extractions, graph_of

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 64 tensor of Real.
Let Wq be a 64 by 32 tensor of Real.
Let Wk be a 64 by 32 tensor of Real.
Let Wo be a 32 by 40 tensor of Real.
Let Wr be a 64 by 64 tensor of Real.
Let K be a 6 by 32 tensor of Real.
Let V be a 6 by 32 tensor of Real.
Let R be a 6 by 32 tensor of Real.
Let x be row tok of emb.
Let t be transpose of Wr.
Let x be x matmul t.
Let q be x matmul Wq.
Let k be x matmul Wk.
Set row pos of K to k.
Set row pos of V to k.
Set row pos of R to k.
Let a be attention of q over K and V with 1 heads 1 groups up to pos.
Let r be row 0 of R.
Let a be a plus r.
Let y be a matmul Wo.
"""


def job_of(folder: Path, text: str = PROGRAM, checkpoint: Path | None = None, **options: str) -> Job:
    path = folder / "p.lg"
    path.write_text(text, encoding="utf-8")
    target, job = make_job(make_manager(), Request(path, checkpoint, options=options), "cuda")
    assert isinstance(target, CudaTarget)
    return job


def refused(folder: Path, text: str = PROGRAM, **options: str) -> list[str]:
    with pytest.raises(Refused) as error:
        job_of(folder, text, **options)
    return [one.text() for one in error.value.refusals]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ("auto", ""),
        ("none", ""),
        ("Wq,emb", "Wq emb"),
        ("W*", "Wk Wo Wq"),
        ("Wq,W[ko]*", "Wk Wo Wq"),
        ("*", "Wk Wo Wq emb"),
    ],
)
def test_weights_are_chosen_by_name_and_pattern(tmp_path: Path, asked: str, kept: str) -> None:
    job = job_of(tmp_path, q8=asked)
    assert sorted(storage_of(job).q8) == kept.split()
    assert {entry.variable: entry.transposed for entry in CudaTarget().quantized(job)} == {
        name: name != "emb" for name in kept.split()
    }


def test_a_leaf_named_as_a_word_of_the_option_is_named_by_a_pattern(tmp_path: Path) -> None:
    for word in ("none", "auto"):
        text = PROGRAM.replace("Wq", word)
        assert storage_of(job_of(tmp_path, text, q8=word)).q8 == frozenset()
        assert storage_of(job_of(tmp_path, text, q8=f"{word}*")).q8 == {word}


def test_what_cannot_be_kept_in_q8_0_is_refused(tmp_path: Path) -> None:
    text = PROGRAM.replace("32 by 40", "33 by 40").replace("a matmul Wo", "b matmul Wo")
    text = text.replace("Let y be", "Let b be a 1 by 33 tensor of Real.\nLet y be")
    assert refused(tmp_path, text, q8="Wo,Wr") == [
        f"{tmp_path}/p.lg:12:1: statement 2, transpose: no kernel reads Wr in Q8_0: transpose reads it as float32 "
        f"[no-kernel]\n    Let t be transpose of Wr.\n    {'^' * 24}\n"
        "  next: change the sentence, or build for another target",
        f"{tmp_path}/p.lg:23:1: statement 12, matmul: no kernel reads Wo in Q8_0: its rows hold 33 values as stored, "
        f"no multiple of 32 [no-kernel]\n    Let y be b matmul Wo.\n    {'^' * 20}\n"
        "  next: change the sentence, or build for another target",
    ]  # fmt: skip


def test_names_and_ways_to_multiply_that_there_are_not(tmp_path: Path) -> None:
    assert refused(tmp_path, q8="Wqq", multiply="mma", arch="sm_75,sm_90") == [
        "multiply: mma takes devices from sm_80 on; arch names sm_75 [no-multiply]\n"
        "  next: leave out those architectures, or name dp4a",
        "q8: q8 names Wqq; the program has no such leaf; did you mean Wq? [unknown-variable]\n"
        "  next: name weights of the program, with * for any letters, or auto or none",
    ]


@pytest.mark.parametrize(
    ("options", "dtype", "halves"),
    [
        ({}, "float32", False),
        ({"kv": "f16"}, "float16", True),
        ({"q8": "*"}, "int8", True),
        ({"q8": "*", "kv": "f32"}, "int8", False),
        ({"q8": "*", "multiply": "exact"}, "float32", False),
        ({"q8": "*", "multiply": "exact", "kv": "f16"}, "float16", True),
        ({"q8": "emb"}, "float16", True),
        ({"q8": "emb", "kv": "f32"}, "float32", False),
    ],
)
def test_the_dtype_that_verify_holds_it_to(
    tmp_path: Path, options: dict[str, str], dtype: str, halves: bool
) -> None:
    job = job_of(tmp_path, **options)
    assert compared_of(CudaTarget(), job) == ((), (dtype,))
    narrow = [value.name for value, buffer in graph_of(job).held.items() if buffer.element.value == "Half"]
    # R is read by another op, and stays as it is.
    assert narrow == (["K", "V", "K", "V"] if halves else [])


def test_experts_in_two_passes_are_held_to_float32(tmp_path: Path) -> None:
    text = "".join(f"Let {name} be a {rows} by {columns} tensor of Real.\n" for name, rows, columns in (
        ("x", 1, 64), ("R", 4, 64), ("G", 128, 64), ("U", 128, 64), ("D", 256, 32)))  # fmt: skip
    text += "Let y be moe of x with router R gate G up U down D top 2 of 4 experts.\n"
    for how, dtype in (("single-pass", "int8"), ("two-pass", "float32")):
        assert CudaTarget().dtypes(job_of(tmp_path, text, q8="G,U,D", experts=how, kv="f32")) == (dtype,)
    assert refused(tmp_path, text, q8="G")[0].startswith(
        f"{tmp_path}/p.lg:6:1: statement 1, moe: its gate and up rows are not stored alike [no-kernel]"
    )


def test_a_checkpoint_s_own_q8_0_is_kept(oracles: Path, tmp_path: Path) -> None:
    case = "llama-tiny-untied"
    checkpoint = oracles / case / f"{case}-q8_0.gguf"
    cli.main(["author", str(checkpoint), "-o", str(tmp_path / "m.lg"), "-q"], standalone_mode=False)
    text = (tmp_path / "m.lg").read_text("utf-8")
    job = job_of(tmp_path, text, checkpoint)
    kept = storage_of(job)
    assert (kept.multiply, kept.half, kept.single_pass) == (Multiply.DP4A, True, True)
    assert {"emb", "Wout", "Wq0", "Wd2"} <= kept.q8
    assert not {"an0", "on", "RopeCos"} & kept.q8
    (file,) = extractions(job)
    assert {entry.variable for entry in file.entries if entry.dtype == "Q8_0"} == kept.q8
    assert CudaTarget().device_plan(job).notes[0].startswith(f"{len(kept.q8)} weights in Q8_0, ")
    assert storage_of(job_of(tmp_path, text, oracles / case / f"{case}-f32.gguf")).q8 == frozenset()


def test_what_is_said_of_the_choices(tmp_path: Path) -> None:
    assert CudaTarget().device_plan(job_of(tmp_path, q8="Wq")).notes == (
        "1 weight in Q8_0, 0.0 MB, multiplied dp4a, 16 rows and more at once by mma (-D q8, -D multiply, -D experts)",
        "rounded to Q8_0, each value by up to 1/254 of its 32's largest: Wq",
        "the 2 tables of attention are float16 (-D kv)",
        "3 weights in float32, 0.0 MB: emb, Wk, Wo; -D q8=NAME,… would make them 0.0 MB and round those not stored so",
    )


@pytest.mark.slow
def test_verify_takes_weights_as_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOGOS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")
    given = ["verify", str(tmp_path / "p.lg"), "--target", "cuda", "-D", "device=host", "-D", "q8=*", "--tokens", "3,1"]

    def said(*more: str) -> tuple[Any, list[str], str]:
        code = cli.main([*given, *more], standalone_mode=False)
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    code, lines, err = said("-D", "multiply=exact")
    assert (code, lines[-1]) == (0, "all 4 comparisons hold")
    assert err.startswith("rounded to Q8_0, for the reference machine as for the artifact: emb, Wq, Wk, Wo\n")
    assert lines[0].startswith("float32   y ")
    code, lines, _ = said()
    assert (code, lines[0].split()[0]) == (0, "int8")
    assert "bound 0.2  ok" in lines[0]
    monkeypatch.setattr(logos.execution, "as_kept", lambda target, job, values, given: (values, ()))
    assert said("-D", "multiply=exact")[0] == 4
