"""Kind forward with the option prefill, on the host: every value of every step, faults, words, and what is refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from toy_build import Toy

import logos_cuda.running
from logos import Refused, Request, make_job, make_manager
from logos_cuda.fusing import FUSES
from logos_cuda.host_build import compile_host

DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let nums be a 5 by 3 tensor of Int.
Let W be a 4 by 5 tensor of Real.
Let w be a 2 by 4 tensor of Real.
Let n be a 1 by 4 tensor of Real.
Let K be a 12 by 4 tensor of Real.
Let V be a 12 by 4 tensor of Real.
Let L be a 12 by 1 tensor of Int.
Let ring be a 2 by 4 tensor of Real.
Set item 2 of ring to 0.5.
Let x be row tok of emb.
Let same be n plus n.
Set row pos of K to x.
Let c be causal conv of x with weight w state ring over 2 taps.
Set row pos of V to c.
Let a be attention of x over K and V with 1 heads 1 groups up to pos.
Let x be x plus a.
Let h be rmsnorm of x with weight same.
Let s be silu of h.
Let g be s hadamard c.
Let m be row tok of nums.
Let choice be argmax of m.
Set row pos of L to choice.
Let last be transpose of g.
Let logits be g matmul W.
Let next be argmax of logits.
"""
TOKENS = "1,4,2,0,3,3,1,2,4,0,1"
RANDOM = np.random.default_rng(7)
VALUES = {name: RANDOM.standard_normal(shape).astype("<f4") for name, shape in
          {"emb": (5, 4), "W": (5, 4), "w": (2, 4), "n": (1, 4)}.items()}  # fmt: skip
NUMBERS = RANDOM.integers(-9, 9, (5, 3)).astype("<i8")


def text_of(folder: Path, text: str, hold: tuple[str, ...] = (), **options: str) -> str:
    """The source of a program of kind forward."""
    folder.mkdir(exist_ok=True)
    (folder / "p.lg").write_text(text, encoding="utf-8")
    request = Request(folder / "p.lg", name="p.lg", options=options, hold=hold)
    target, job = make_job(make_manager(), request, "cuda")
    return target.emit(job)[0].text


def built(folder: Path, hold: tuple[str, ...] = (), **options: str) -> Path:
    source = folder / "forward.cu"
    source.write_text(text_of(folder, DECODE, hold, **options), encoding="utf-8")
    compile_host(source, folder / "forward", flags=["-O1"])
    (folder / "weights").mkdir()
    for name, value in VALUES.items():
        value.tofile(folder / f"weights/{name}.f32")
    NUMBERS.tofile(folder / "weights/nums.i64")
    return folder / "forward"


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("three"), prefill="3")


def run(program: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def dumped(program: Path, folder: Path, *arguments: str) -> Mapping[str, NDArray[Any]]:
    run(program, *arguments, "--dump", str(folder))
    return {path.stem: np.load(path) for path in folder.iterdir()}


def near(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> list[str]:
    """The variables that are not alike."""
    assert one.keys() == other.keys()
    return [name for name, due in one.items() if not (
        due.shape == other[name].shape and np.allclose(due, other[name], rtol=1e-5, atol=1e-5 * np.abs(due).max())
    )]  # fmt: skip


ALL = "tok,pos,emb,nums,ring@0,K@0,x@1,x,same,K,c,ring,V,a,h,s,g,m,choice,L,last,logits,next"


@pytest.mark.parametrize("steps", [3, *(pytest.param(steps, marks=pytest.mark.slow) for steps in (1, 2, 7, 12))])
def test_every_value_of_every_step_is_as_by_single_steps(single: Path, three: Path, tmp_path: Path, steps: int) -> None:
    (tmp_path / "many").mkdir()
    many = three if steps == 3 else built(tmp_path / "many", prefill=str(steps))
    for number, given in enumerate((["--get", ALL], [], ["--get", "logits,x,tok"])):
        due = dumped(single, tmp_path / f"due{number}", "--tokens", TOKENS, *given)
        assert len(due["logits"]) == 11
        assert near(due, dumped(many, tmp_path / f"found{number}", "--tokens", TOKENS, *given)) == []


@pytest.mark.slow
def test_chunks_are_made_by_stages_of_their_own(three: Path, tmp_path: Path) -> None:
    """What the steps at once make is what is read: other weights for their stages alone change it."""
    source = three.with_suffix(".cu").read_text("utf-8")
    begin = source.index("void (*const stages[])()")
    (launch,) = re.findall(r"LAUNCH\(gemm.*real\(b\d+_W\).*", source[begin:])
    broken = source[:begin] + source[begin:].replace(launch, "")
    (tmp_path / "forward.cu").write_text(broken, encoding="utf-8")
    compile_host(tmp_path / "forward.cu", tmp_path / "forward", flags=["-O1"])
    weights = ("--weights", str(three.parent / "weights"))
    for count, same in ((2, True), (3, False)):
        given = (*weights, "--tokens", TOKENS[: 2 * count - 1], "--get", "logits")
        assert (run(tmp_path / "forward", *given) == run(three, *given)) == same


@pytest.mark.slow
def test_what_is_printed_is_as_by_single_steps(single: Path, three: Path) -> None:
    for count in range(1, 12):
        tokens = TOKENS[: 2 * count - 1]
        for more in ([], ["--get", "next,choice,L,pos"], ["--generate", "2"], ["--generate", "1", "--get", "next"]):
            said = run(three, "--tokens", tokens, *more, code=int(count == 12))
            assert said == run(single, "--tokens", tokens, *more)


@pytest.mark.slow
def test_errors_are_told_at_their_own_step(single: Path, three: Path, tmp_path: Path) -> None:
    emb = VALUES["emb"].copy()
    emb[3] = np.nan
    emb.tofile(tmp_path / "emb.f32")
    nan = ["--set", f"emb={tmp_path}/emb.f32"]
    full = ",".join("1" * 13)
    for given in (["1,2,5,1"], ["1,5"], ["1,2,1,1,1,9,1"], [full], ["1,2,3,1,2,9", *nan], ["0,0,0,0,0,3", *nan]):
        due = run(single, "--tokens", *given, "--get", "next", code=1)
        assert due[1].startswith("p.lg:")
        assert run(three, "--tokens", *given, "--get", "next", code=1) == due
    unchecked = ["--tokens", "1,3,2,1", *nan, "--unchecked", "--get", "choice,pos"]
    assert run(three, *unchecked) == run(single, *unchecked)


def test_steps_of_fusion_act_on_many_steps_and_are_as_held_to_the_bit(three: Path, tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    held = built(tmp_path / "held", FUSES, prefill="3")
    text = three.with_suffix(".cu").read_text("utf-8")
    acting = re.findall(r"as one by ([\w-]+)", text[text.index("void (*const stages[])()") :])
    assert set(acting) == {"add-norm", "chain"}
    assert "as one by" not in held.with_suffix(".cu").read_text("utf-8")
    given = ("--tokens", TOKENS, "--get", ALL)
    found, due = (dumped(one, tmp_path / name, *given) for one, name in ((three, "a"), (held, "b")))
    assert [name for name in due if due[name].tobytes() != found[name].tobytes()] == []


@pytest.mark.slow
def test_verify_holds_it_and_says_how_the_tokens_went(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logos_cuda.running, "find_gpu", lambda: None)
    toy.write("d.lg", DECODE)
    given = ("verify", "d.lg", "--target", "cuda", "--tokens", TOKENS, "-D", "prefill=3")
    ran = toy.logos(*given)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "all 6 comparisons hold")
    assert ran.err.splitlines()[1:] == ["of 11 tokens 9 in chunks of 3, 2 one by one"]
    assert toy.logos(*given, "--bisect").code == 0


REFUSED = [
    (DECODE, "0", "forward", [
        "-D prefill: prefill is 0; it is a number of steps [prefill-steps]\n"
        "  next: give one from 1 to 1024, or leave the option out"]),
    (DECODE, "-3", "generate", [
        "-D prefill: prefill is -3; it is a number of steps [prefill-steps]\n"
        "  next: give one from 1 to 1024, or leave the option out"]),
    (DECODE, "1025", "forward", [
        "-D prefill: prefill is 1025; it is a number of steps [prefill-steps]\n"
        "  next: give one from 1 to 1024, or leave the option out"]),
    (DECODE, "13", "forward", [
        "-D prefill: prefill is 13, and pos is a row of K, which has 12 [prefill-steps]\n"
        "  next: give at most 12 steps"]),
    ("Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\n", "2", "op", [
        "-D prefill: prefill takes chunks of tokens, and kind op makes a single step [prefill-no-tokens]\n"
        "  next: leave the option prefill out"]),
    ("Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\n", "2", "forward", [
        "p.lg: prefill takes chunks of tokens, and the program has no input tok, 1 by 1 of Int [prefill-no-tokens]\n"
        "  next: leave the option prefill out"]),
    (DECODE.replace("row pos of L to", "row tok of L to"), "3", "forward", [
        "p.lg:25:1: set row writes row tok of L; pos alone counts up step by step [steps-not-at-once]\n"
        "    Set row tok of L to choice.\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: leave the option prefill out"]),
    (DECODE.replace("next be argmax of logits", "f be row 0 of last.\nLet next be argmax of f"), "3", "forward", [
        "p.lg:26:1: the op transpose has no rule for many steps at once [no-row-rule]\n"]),
    (DECODE.replace("of x with weight same", "of c with weight x"), "3", "forward", [
        "p.lg:20:1: many steps at once, rmsnorm rows: x differs from step to step; the kernel takes one row for all "
        "steps [no-kernel]\n    Let h be rmsnorm of c with weight x.\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: leave the option prefill out"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "steps", "kind", "messages"), REFUSED)
def test_what_many_steps_at_once_cannot_be_is_refused(
    text: str, steps: str, kind: str, messages: list[str], tmp_path: Path
) -> None:
    with pytest.raises(Refused) as error:
        text_of(tmp_path, text, prefill=steps, kind=kind)
    found = [refusal.text() for refusal in error.value.refusals]
    assert [one.startswith(due) for one, due in zip(found, messages, strict=False)] == [True] * len(messages), found


def test_without_the_option_the_text_has_nothing_of_it(tmp_path: Path) -> None:
    assert "CHUNK_STEPS" not in text_of(tmp_path, DECODE)
