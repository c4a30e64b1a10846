"""The cpu target: its text, what it refuses, and programs that it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toy_build import Toy

from logos import Artifact, Refused, Request, Source, make_job, make_manager
from logos.execution import write_artifact
from logos_cpu.building import executable
from logos_cpu.options import Options

DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 40 by 64 tensor of Real.
Let W be a 64 by 64 tensor of Real.
Let G be a 1 by 64 tensor of Real.
Let K be a 24 by 64 tensor of Real.
Let V be a 24 by 64 tensor of Real.
Let Wout be a 64 by 40 tensor of Real.
Let x be row tok of emb.
Let q be x matmul W.
Set row pos of K to q.
Set row pos of V to x.
Let a be attention of q over K and V with 4 heads 4 groups up to pos.
Let h be rmsnorm of a plus x with weight G with eps 0.00001.
Let logits be h matmul Wout.
Let next be argmax of logits.
"""
"""A small decode step."""


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE", str(tmp_path_factory.getbasetemp() / "cpu-cache"))


def emitted(text: str, **options: object) -> Artifact:
    request = Request(Path("m.lg"), source=Source("m.lg", text), options=options)
    target, job = make_job(make_manager(), request, "cpu")
    (artifact,) = target.emit(job)
    return artifact


def refused(text: str, **options: object) -> list[str]:
    request = Request(Path("m.lg"), source=Source("m.lg", text), options=options)
    with pytest.raises(Refused) as caught:
        make_job(make_manager(), request, "cpu")
    return [refusal.text() for refusal in caught.value.refusals]


def test_the_text_has_each_kernel_once_however_many_stages_call_it() -> None:
    text = emitted(DECODE + "Let more be next plus next.\nLet most be more plus next.\n").text
    assert len(re.findall(r"^void kernel_\d+\(", text, re.MULTILINE)) == len(
        set(re.findall(r"^void kernel_\d+\(.*\) \{ (.*) \}$", text, re.MULTILINE))
    )
    assert text.count("pairwise_int<Plus>(w, ints(b[0])") == 1


def test_names_and_paths_are_text_in_the_source() -> None:
    text = emitted("Let int be a 1 by 2 tensor of Real.\nLet while be silu of int.\n").text
    assert '{"int", 0, 1, 2,' in text
    assert 'const char *const PROGRAM = "m.lg";' in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"threads": 300},
            "-D threads: threads is 300 [thread-count]\n  next: give a number from 1 to 256, or 0 for all cores",
        ),
        (
            {"prefill": 0},
            "-D prefill: prefill is 0; it is a number of steps [prefill-steps]\n  next: give one from 1 to 1024",
        ),
        (
            {"q8": ("W", "Nothing")},
            "q8: q8 names Nothing; the program has no such leaf [unknown-variable]\n"
            "  next: name weights of the program, with * for any letters, or auto or none",
        ),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], said: str) -> None:
    assert refused(DECODE, **options) == [said]


def test_a_weight_that_cannot_be_kept_in_q8_0_is_refused_with_why() -> None:
    (said,) = refused(
        "Let x be a 1 by 8 tensor of Real.\nLet W be a 8 by 4 tensor of Real.\nLet y be x matmul W.\n", q8=("W",)
    )
    assert said.startswith(
        "m.lg:2:1: no kernel reads W in Q8_0: its rows hold 8 values as stored, no multiple of 32 [no-kernel]"
    )


def test_what_is_no_decode_step_does_not_generate() -> None:
    (said,) = refused(DECODE + "Let more be next plus next.\n", kind="generate")
    assert "[not-a-decode-step]" in said
    assert "no argmax as its output, but more" in said


def test_the_compiler_is_asked_once_for_all_programs_of_a_build(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = toy.write("cxx", '#!/bin/sh\necho asked >> "$0.log"\necho cxx 1.0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    toy.write("q.lg", (toy.folder / "p.lg").read_text())
    for count in (1, 2):
        said = toy.build("p.lg", "q.lg", "--target", "cpu", "--dry-run").out
        assert said.count(f"with cxx 1.0 ({compiler})") == 2
        assert (toy.folder / "cxx.log").read_text() == "asked\n" * count


def test_a_compiler_that_is_not_there_or_fails_is_named(tmp_path: Path) -> None:
    source = tmp_path / "forward.cpp"
    source.write_text(emitted(DECODE).text, encoding="utf-8")
    with pytest.raises(Refused, match=r"there is no C\+\+ compiler 'nowhere' \[no-host-compiler\]"):
        executable(source, Options(cxx="nowhere"))
    failing = tmp_path / "cxx"
    failing.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo one && exit\necho 'x.cpp:1: error: no' >&2\nexit 1\n")
    failing.chmod(0o755)
    with pytest.raises(Refused, match=r"the C\+\+ compiler failed: x.cpp:1: error: no \[host-compiler-failed\]"):
        executable(source, Options(cxx=str(failing)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small decode step that generates, on the ramp, with its weights in Q8_0."""
    folder = tmp_path_factory.mktemp("cpu")
    request = Request(
        Path("m.lg"),
        source=Source("m.lg", DECODE),
        options={"kind": "generate", "q8": ("W", "Wout", "emb"), "prefill": 8},
    )
    target, job = make_job(make_manager(), request, "cpu")
    write_artifact(target, job, {}, folder)
    built = executable(folder / "generate.cpp", Options())
    link = folder / "generate"
    os.symlink(built, link)
    return link


def said(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_a_prompt_at_once_says_what_single_steps_say(program: Path, tmp_path: Path) -> None:
    """At any number of threads, and for prompts of every length against the steps at once."""
    for length in (1, 2, 8, 9, 16, 17):
        prompt = ",".join(str(7 * i % 40) for i in range(length))
        ids = said(program, "--prompt-ids", prompt, "-n", 6, "-t", 1)
        assert ids.returncode == 0, ids.stderr
        assert ids.stdout == said(program, "--tokens", prompt, "--generate", 6, "-t", 1).stdout
        assert ids.stdout == said(program, "--prompt-ids", prompt, "-n", 6, "-t", 3).stdout


def test_the_context_s_end_and_ids_outside_the_vocabulary_are_refused(program: Path) -> None:
    whole = ",".join(["1"] * 24)
    assert said(program, "--prompt-ids", whole, "-n", 1).returncode == 0
    over = said(program, "--prompt-ids", whole + ",1", "-n", 1)
    assert over.returncode == 1
    assert over.stderr.startswith("m.lg:11:1: pos is 24")
    assert "[row-outside-table]" in over.stderr
    outside = said(program, "--prompt-ids", "3,40", "-n", 1)
    assert (outside.returncode, outside.stdout) == (1, "")
    assert "tok is 40" in outside.stderr
    assert said(program, "--prompt-ids", "", "-n", 1).stderr == "--prompt-ids: the prompt has no ids\n"


def test_weights_that_were_laid_out_are_used_and_held_to_their_size(program: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, columns, rows in (("W", 64, 64), ("Wout", 64, 40)):
        rng.integers(-127, 128, (rows, columns), np.int8).tofile(tmp_path / f"{name}.q")
        rng.integers(1, 64, (rows, columns // 32)).astype("<f4").tofile(tmp_path / f"{name}.s")
    rng.integers(-127, 128, (40, 64), np.int8).tofile(tmp_path / "emb.q")
    rng.integers(1, 64, (40, 2)).astype("<f4").tofile(tmp_path / "emb.s")
    np.ones((1, 64), "<f4").tofile(tmp_path / "G.f32")
    given = ("--weights", tmp_path, "--prompt-ids", "1,2,3", "-n", 8)
    before = said(program, *given)
    assert before.returncode == 0, before.stderr
    assert said(program, "--lay", tmp_path).returncode == 0
    for name in ("W", "Wout"):
        (tmp_path / f"{name}.q").unlink()
    assert said(program, *given).stdout == before.stdout
    with (tmp_path / "W.tiles").open("r+b") as file:
        file.truncate(4000)
    cut = said(program, *given)
    assert cut.returncode == 1
    assert cut.stderr.startswith(f"{tmp_path}/W.tiles holds 4000 bytes; W, 64 by 64 of Real, takes 4416")
    (tmp_path / "W.tiles").write_bytes(b"x" * 4416)
    assert "is laid out for another program" in said(program, *given).stderr


def test_a_program_that_breaks_is_told_with_how_to_run_it(tmp_path: Path) -> None:
    (tmp_path / "m.lg").write_text("Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.\n")
    script = tmp_path / "cxx"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo one && exit\n'
        'for out; do :; done\nprintf \'#!/bin/sh\\necho broken >&2\\nexit 9\\n\' > "$out"\nchmod +x "$out"\n'
    )
    script.chmod(0o755)
    command = [sys.executable, "-m", "logos", "run", "m.lg", "--set", "x=1", "--engine", "cpu", "-D", f"cxx={script}"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert ran.stderr.startswith("forward.cpp of m.lg: broken [cpu-failed]\n  next: it ended with exit code 9")
