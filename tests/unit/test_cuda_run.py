"""`logos run --engine` and `logos verify` for cuda: on the host, and on what stands for a GPU."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_nvcc import make_toolkit, without_nvcc
from toy_build import Toy

import logos.engine
import logos_cuda.running
from logos import Inputs, Job, Refused, Request, make_job, make_manager
from logos_cuda.executables import host_executable
from logos_cuda.gpu import Gpu
from logos_cuda.host_build import HOST
from logos_cuda.target import CudaTarget

DECODE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let W be a 4 by 5 tensor of Real.
Let K be a 6 by 4 tensor of Real.
Set item 1 of K to 0.1.
Show row 0 of K.
Let x be row tok of emb.
Set row pos of K to x.
Show item 2 of K.
Let logits be x matmul W.
Let next be argmax of logits.
"""
FUSED = {
    "add-norm": """\
Let x be a 2 by 7 tensor of Real.
Let r be a 2 by 7 tensor of Real.
Let w be a 1 by 7 tensor of Real.
Let s be x plus r.
Let y be rmsnorm of s with weight w.
""",
    "gate-up": """\
Let x be a 1 by 6 tensor of Real.
Let G be a 6 by 5 tensor of Real.
Let U be a 6 by 5 tensor of Real.
Let g be x matmul G.
Let u be x matmul U.
Let y be swiglu of g and u.
""",
}
ONE = "Let x be a 2 by 3 tensor of Int.\nLet y be x plus x.\n"
HERE = "there is no GPU here: running the same text on the host's processor\n"
TOKENS = ("--fill", "noise", "--tokens", "3,1")


@pytest.fixture(autouse=True)
def _here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, no toolkit, and one cache for all tests."""
    monkeypatch.setattr(logos_cuda.running, "find_gpu", lambda: None)
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path_factory.getbasetemp() / "cuda-cache"))


@pytest.fixture
def decode(toy: Toy) -> Toy:
    toy.write("d.lg", DECODE)
    return toy


def test_an_engine_prints_what_the_reference_machine_prints(decode: Toy) -> None:
    for more in ((), ("--generate", "3"), ("--get", "next"), ("--generate", "2", "--get", "next,tok")):
        cuda = decode.logos("run", "d.lg", *TOKENS, *more, "--engine", "cuda")
        reference = decode.logos("run", "d.lg", *TOKENS, *more)
        assert (cuda.code, cuda.err) == (0, HERE)
        head, *rest = cuda.out.splitlines()
        assert rest[1:] == reference.out.splitlines()[2:]
        assert near(head, reference.out.splitlines()[0])
    assert decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "--json", "-q", "--get", "next").err == ""


def near(one: str, other: str) -> bool:
    values = [np.array(eval(text.partition(" = ")[2])) for text in (one, other)]
    return one.partition(" = ")[0] == other.partition(" = ")[0] and np.allclose(*values, rtol=1e-6)


def test_reals_are_printed_as_the_shortest_text_of_their_float32(decode: Toy, tmp_path: Path) -> None:
    ran = decode.logos("run", "d.lg", *TOKENS[:2], "--set", "emb=0.1", "--engine", "cuda", "--get", "x,K@0")
    assert ran.out.splitlines()[1:3] == ["item 2 of K = 0.1", "x = [[0.1, 0.1, 0.1, 0.1]]"]
    assert ran.out.splitlines()[3].startswith("K@0 = [[0.1, 0.0, 0.0, 0.0], [")
    decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "--npy", str(tmp_path / "out"), "--get", "x,K")
    assert np.load(tmp_path / "out/x.npy").shape == (2, 4)
    assert np.load(tmp_path / "out/K.npy").shape == (2, 6, 4)


def test_a_program_is_compiled_once(decode: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda")
    monkeypatch.setattr("logos_cuda.executables.compile_host", None)
    assert decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda").code == 0


def test_what_the_program_refuses_is_refused_in_the_reference_machine_s_words(decode: Toy) -> None:
    for arguments in (["--fill", "noise", "--tokens", "1,7"], ["--fill", "zero", "--set", "emb=NaN"]):
        cuda = decode.logos("run", "d.lg", *arguments, "--engine", "cuda", "-q")
        reference = decode.logos("run", "d.lg", *arguments, "-q")
        assert (cuda.code, cuda.out, cuda.err) == (1, "", reference.err)


def test_verify_says_what_it_runs_on_and_compares(decode: Toy) -> None:
    ran = decode.logos("verify", "d.lg", "--target", "cuda", "--tokens", "3,1,4")
    assert (ran.code, ran.err) == (0, HERE)
    assert ran.out.splitlines()[-1] == "all 3 comparisons hold"


def test_kind_op_is_verified_with_its_checksum(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.write("one.lg", ONE)
    given = ("--set", "x=[[4611686018427387903,-1,1],[4611686018427387903,-9,3]]", "-D", "kind=op")
    assert toy.logos("verify", "one.lg", "--target", "cuda", *given).code == 0
    wrong = subprocess.run

    def lying(*arguments: Any, **more: Any) -> Any:
        ran = wrong(*arguments, **more)
        if isinstance(ran.stdout, str):
            ran.stdout = str(int(ran.stdout) + 1)
        return ran

    monkeypatch.setattr(subprocess, "run", lying)
    ran = toy.logos("verify", "one.lg", "--target", "cuda", *given, "-q")
    assert (ran.code, ran.err) == (1, (
        "op.cu of one.lg: the program printed the checksum -15; the sum of its output is -16 [checksum-differs]\n"
        "  next: tell LOGOS's authors\n"
    ))  # fmt: skip


@pytest.mark.parametrize("step", ["add-norm", pytest.param("gate-up", marks=pytest.mark.slow)])
def test_kind_op_takes_operations_that_fuse_into_one_stage(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    toy.write("pair.lg", FUSED[step])
    verify = ("verify", "pair.lg", "--target", "cuda", "-D", "kind=op", "-q")
    ran = toy.logos(*verify)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "all 1 comparisons hold")
    # The products alone are still one by qkv.
    count = {"add-norm": 2, "gate-up": 3}[step]
    ran = toy.logos(*verify, "--hold", step)
    assert (ran.code, ran.err) == (1, (
        "pair.lg: kind op takes a program of one operation, or of several that fuse into one stage; this one has "
        f"{count} operations in 2 stages [not-one-operation]\n"
        "  next: leave the option out, for kind forward\n"
    ))  # fmt: skip
    true = subprocess.run

    def lying(*arguments: Any, **more: Any) -> Any:
        ran = true(*arguments, **more)
        if isinstance(ran.stdout, str):
            ran.stdout = repr(float(ran.stdout) * (1 + 2**-50))
        return ran

    monkeypatch.setattr(subprocess, "run", lying)
    ran = toy.logos(*verify)
    assert (ran.code, " [checksum-differs]\n" in ran.err) == (1, True)


def test_a_gpu_is_used_where_there_is_one(decode: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logos_cuda.running, "find_gpu", lambda: Gpu("Test GPU", "sm_86"))
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "--get", "next")
    assert ran.err == "there is no CUDA toolkit here for the Test GPU: running the same text on the host's processor\n"
    toolkit = make_toolkit(tmp_path / "toolkit")
    monkeypatch.setenv("CUDA_HOME", os.fspath(toolkit.home))
    compiled = f"g++ -std=c++17 -O1 -pthread -I {HOST} -x c++ forward.cu"
    toolkit.before(f"echo \"$*\" > {tmp_path}/call; for output; do :; done; {compiled} -o $output; exit")
    again = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "--get", "next")
    assert (again.code, again.err, again.out) == (0, "running on Test GPU (sm_86)\n", ran.out)
    assert "-gencode=arch=compute_86,code=sm_86" in (tmp_path / "call").read_text()
    toolkit.before("echo 'forward.cu(9): error: no'; exit 2")
    decode.write("d.lg", DECODE + "Let z be x plus x.\n")
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q")
    assert (ran.code, ran.err.partition("\n")[0]) == (3, "forward.cu: forward.cu(9): error: no [nvcc-failed]")
    assert "  next: `logos build` with `-D compile=off` writes forward.cu; run beside it (exit code 2): " in ran.err


def test_a_compiler_that_cannot_be_run_is_refused(decode: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = decode.write("c++", "no program")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", os.fspath(compiler))
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q")
    assert (ran.code, ran.err) == (1, (
        f"the C++ compiler {compiler} cannot be run: Exec format error [no-host-compiler]\n"
        "  next: name a C++17 compiler in CXX\n"
    ))  # fmt: skip


def test_another_command_of_the_same_compiler_builds_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "c++"
    built = f"echo $1 >> {tmp_path}/calls; for last; do :; done; : > $last"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *--version) ;; *) {built} ;; esac\n')
    compiler.chmod(0o755)
    source = tmp_path / "p.cu"
    source.write_text("one")
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    found = []
    for words in ("", " -O1", ""):
        monkeypatch.setenv("CXX", f"{compiler}{words}")
        found.append(host_executable(source))
    assert found[0] == found[2] != found[1]
    assert (tmp_path / "calls").read_text().split() == ["-std=c++17", "-O1"]


def test_a_gpu_that_was_asked_for_and_is_not_there(decode: Toy) -> None:
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-D", "device=gpu")
    assert (ran.code, ran.err) == (1, (
        "gpu: device gpu asks for this machine's GPU, and it has none [no-gpu]\n"
        "  next: use a machine with an NVIDIA GPU and its driver, or leave that out\n"
    ))  # fmt: skip


def test_a_program_that_ends_otherwise_is_shown_with_the_command_to_run_by_hand(
    decode: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = decode.write("script", "#!/bin/sh\necho \"poison $LOGOS_HOST_POISON: out of memory\" >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(logos_cuda.running, "host_executable", lambda source: script)
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q", "--get", "x")
    assert (ran.code, ran.err) == (3, (
        "forward.cu of d.lg: poison 1: out of memory [cuda-failed]\n"
        "  next: it ended with exit code 3; to run it by hand, `logos build d.lg --target cuda --out DIR` with the "
        "options given here, then `DIR/forward --tokens 3,1 --get x,K@0,K`\n"
    ))  # fmt: skip


def test_an_engine_that_there_is_not(decode: Toy) -> None:
    ran = decode.logos("run", "d.lg", "--engine", "cudo")
    assert (ran.code, ran.err) == (1, (
        "--engine: there is no engine cudo; did you mean cuda? [unknown-engine]\n"
        "  next: engines: reference, cpu, cuda, rdu-sambaflow, toy\n"
    ))  # fmt: skip
    ran = decode.logos("run", "d.lg", "-D", "kind=op")
    assert (ran.code, "-D sets an option of the target that --engine names" in ran.err) == (2, True)


class Short(CudaTarget):
    """Leaves out a tap, or stops too soon."""

    without = ""

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        found = super().run(job, replace(inputs, generate=0))
        return {name: array for name, array in found.items() if name != self.without}


@pytest.fixture
def short(decode: Toy, monkeypatch: pytest.MonkeyPatch) -> type[Short]:
    monkeypatch.setattr(logos_cuda.target, "CudaTarget", Short)
    return Short


def test_a_target_that_takes_no_notice_is_noticed(
    decode: Toy, short: type[Short], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = decode.logos("run", "d.lg", *TOKENS, "--generate", "3", "--engine", "cuda", "-q")
    assert (ran.code, ran.err) == (1, (
        "--engine cuda: the target cuda gave K@0 over 2 steps; 4 were asked for [engine-steps]\n"
        "  next: leave --generate out, or use an engine that generates, such as reference\n"
    ))  # fmt: skip
    monkeypatch.setattr(short, "without", "K")
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q")
    assert (ran.code, ran.err) == (1, (
        "--engine cuda: the target cuda does not read out K [engine-lacks-variable]\n"
        "  next: leave that out, or use reference\n"
    ))  # fmt: skip
    monkeypatch.setattr(short, "reads_versions", False)
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q")
    assert "the target cuda does not read out K@0 [engine-lacks-variable]" in ran.err


def test_generating_takes_a_token_for_an_output(toy: Toy) -> None:
    toy.write("d.lg", DECODE.replace("Let next be argmax of logits.\n", ""))
    ran = toy.logos("run", "d.lg", *TOKENS, "--generate", "2", "--engine", "cuda")
    assert (ran.code, "[output-not-a-token]" in ran.err) == (1, True)


def test_weights_are_written_as_the_program_takes_them(decode: Toy) -> None:
    weight = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    (decode.folder / "given").mkdir()
    weight.tofile(decode.folder / "given/W.f32")
    arguments = ("d.lg", "--weights", "given", "--fill", "noise", "--set", "tok=2", "--set", "pos=0", "--get", "logits")
    cuda = decode.logos("run", *arguments, "--engine", "cuda", "-q").out.splitlines()[-1]
    assert near(cuda, decode.logos("run", *arguments).out.splitlines()[-1])


def test_a_cache_that_cannot_be_written_is_refused(decode: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    decode.write("a file", "")
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(decode.folder / "a file"))
    ran = decode.logos("run", "d.lg", *TOKENS, "--engine", "cuda", "-q")
    said = "cannot keep there what later runs use again: Not a directory [unwritable-file]"
    assert (ran.code, said in ran.err) == (1, True)


@pytest.mark.slow
def test_as_many_variables_as_there_are_of_any_name_are_read_out(toy: Toy) -> None:
    """Names longer than a file's, and more of them than files that may be open unless a program asks for more."""
    # This process, which the limit holds too, keeps some open that tests before opened.
    limit = max(map(int, os.listdir("/proc/self/fd"))) + 48
    names = ["x", *(f"{'v' * 240}{number:05}" for number in range(limit + 6))]
    lines = [f"Let {new} be {old} plus x." for old, new in pairwise(names)]
    toy.write("long.lg", "\n".join(["Let x be a 1 by 1 tensor of Int.", *lines]) + "\n")
    given = ("run", "long.lg", "--set", "x=1", "--get", "*", "-q")
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
    try:
        ran = toy.logos(*given, "--engine", "cuda")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    assert (ran.code, ran.err, ran.out) == (0, "", toy.logos(*given).out)
    assert ran.out.splitlines()[-1] == f"{names[-1]} = [[{len(names)}]]"


def test_a_job_s_refusals_are_the_target_s(decode: Toy) -> None:
    with pytest.raises(Refused) as error:
        make_job(make_manager(), Request(Path("d.lg"), options={"kind": "op"}), "cuda")
    assert [one.code for one in error.value.refusals] == ["not-one-operation"]
    assert logos.engine.REFERENCE == "reference"
