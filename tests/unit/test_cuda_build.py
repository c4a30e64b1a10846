"""`logos build` for cuda with an nvcc that is none: what is run, made again, told, and left when it fails."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from fake_nvcc import FakeToolkit, make_compiler, make_toolkit, without_nvcc
from toy_build import Toy

BUILD = ("build", "p.lg", "--target", "cuda", "--out", "made")
ODD = "two  blanks $x $$ colon: bar| it's \"quoted\" größe;&>#"


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeToolkit:
    """The toolkit of CUDA_HOME, and no other."""
    made = make_toolkit(tmp_path / "the toolkit")
    monkeypatch.setenv("CUDA_HOME", os.fspath(made.home))
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    return made


def test_a_build_compiles_and_links_and_says_with_what(toy: Toy, toolkit: FakeToolkit) -> None:
    ran = toy.logos(*BUILD)
    assert (ran.code, ran.err) == (0, "")
    assert re.sub(r"[\d.]+ (bytes|kB)", "N bytes", ran.out) == (
        "p for cuda → made\n"
        "  1 operation; 1 input, 1 constant\n"
        f"  with nvcc 13.0.88 ({toolkit.nvcc}, from CUDA_HOME)\n"
        "  forward.cu: N bytes\n"
        "  forward.o: N bytes\n"
        "  forward: N bytes\n"
        "built 1 artifact in 3 steps\n"
        "next: logos verify p.lg --target cuda\n"
    )
    assert toy.tree("made") == ["forward", "forward.cu", "forward.o"]
    assert toolkit.calls() == [
        "-c ../forward.cu -o forward.o --objdir-as-tempdir -O3 -Xcompiler=-ffp-contract=off -fmad=false "
        "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=compute_90 "
        "-gencode=arch=compute_90,code=sm_90 -std=c++17 -MD -MF forward.o.d",
        f"../forward.o -o forward -L{toolkit.home}/lib -gencode=arch=compute_80,code=sm_80 "
        "-gencode=arch=compute_90,code=compute_90 -gencode=arch=compute_90,code=sm_90 -nodlink",
    ]
    assert "nothing to do: 1 artifact up to date\n" in toy.logos(*BUILD).out
    assert len(toolkit.calls()) == 2


@pytest.mark.slow
def test_what_the_depfile_names_is_an_input(toy: Toy, toolkit: FakeToolkit) -> None:
    toy.logos(*BUILD)
    header = toolkit.home / "include/device.h"
    os.utime(header, (2e9, 2e9))
    assert "built 1 artifact in 1 step\n" in toy.logos(*BUILD).out  # the object came out as it was
    header.unlink()
    assert "built 1 artifact in" in toy.logos(*BUILD).out


@pytest.mark.slow
def test_another_version_in_the_same_place_makes_everything_again(toy: Toy, toolkit: FakeToolkit) -> None:
    toy.logos(*BUILD)
    toolkit.says("Cuda compilation tools, release 13.1, V13.1.7\n")
    os.utime(toolkit.nvcc, (1e9, 1e9))  # as packages do that keep the time of their making
    ran = toy.logos(*BUILD)
    assert "  with nvcc 13.1.7 " in ran.out
    assert len(toolkit.calls()) == 4


def test_another_toolkit_is_noticed_by_the_same_command(
    toy: Toy, toolkit: FakeToolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.logos(*BUILD)
    other = make_toolkit(tmp_path / "other")
    monkeypatch.setenv("CUDA_HOME", os.fspath(other.home))
    assert f"  with nvcc 13.0.88 ({other.nvcc}, from CUDA_HOME)\n" in toy.logos(*BUILD).out
    assert len(other.calls()) == 2


def test_what_nvcc_heeds_of_the_environment_is_part_of_the_command(
    toy: Toy, toolkit: FakeToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.logos(*BUILD)
    toolkit.before('echo "$NVCC_PREPEND_FLAGS" > "$here/heeded"')
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-D OUT='$x'")
    assert "built 1 artifact in" in toy.logos(*BUILD).out
    monkeypatch.delenv("NVCC_PREPEND_FLAGS")
    assert (toolkit.home / "bin/heeded").read_text() == "-D OUT='$x'\n"
    assert "built 1 artifact in" in toy.logos(*BUILD).out
    assert "nothing to do" in toy.logos(*BUILD).out


@pytest.mark.slow
def test_a_host_compiler_by_a_relative_path_is_found_from_everywhere(toy: Toy, toolkit: FakeToolkit) -> None:
    make_compiler(toy.folder / "my cxx", "__GNUC__ 12")
    assert toy.logos(*BUILD, "-D", "ccbin=./my cxx").code == 0
    assert all(f" -ccbin={toy.folder}/my cxx " in call for call in toolkit.calls())


def test_names_that_mean_something_to_a_shell_or_to_ninja_are_names(toy: Toy, toolkit: FakeToolkit) -> None:
    toy.write(f"{ODD}/{ODD}.lg", (toy.folder / "p.lg").read_text())
    arguments = ("build", f"{ODD}/{ODD}.lg", "--target", "cuda", "--out", f"out {ODD}")
    assert toy.logos(*arguments).code == 0
    assert toy.tree(f"out {ODD}") == ["forward", "forward.cu", "forward.o"]
    assert "nothing to do" in toy.logos(*arguments).out
    os.utime(toolkit.home / "include/device.h", (2e9, 2e9))
    assert "built 1 artifact in 1 step\n" in toy.logos(*arguments).out


def test_a_failing_nvcc_speaks_first_then_comes_the_command_to_run_by_hand(toy: Toy, toolkit: FakeToolkit) -> None:
    toolkit.before("echo 'forward.cu(3): error: expected a declaration' >&2; exit 2\n")
    ran = toy.logos(*BUILD)
    first, failed, by_hand, *rest = ran.err.splitlines()
    assert (ran.code, ran.out, rest) == (3, "", [])
    assert first == "forward.cu(3): error: expected a declaration"
    assert failed == "compile forward.o of p for cuda failed with exit code 2"
    assert by_hand.startswith('  by hand: cd "$(dirname -- ')
    assert toy.tree("made") == ["forward.cu"] + [path for path in toy.tree("made") if ".nvcc.work/" in path]
    toolkit.before("")
    assert os.system(by_hand.removeprefix("  by hand: ")) == 0
    assert toy.logos(*BUILD).code == 0
    assert toy.tree("made") == ["forward", "forward.cu", "forward.o"]


@pytest.mark.parametrize(
    ("script", "code"),
    [("kill -9 $$", 137), ("echo \"nvcc error : 'cicc' died due to signal 9 (Kill signal)\" >&2; exit 9", 9)],
)
def test_an_nvcc_that_the_system_ended_is_explained(toy: Toy, toolkit: FakeToolkit, script: str, code: int) -> None:
    toolkit.before(f"{script}\n")
    ran = toy.logos(*BUILD)
    said = f"failed with exit code {code}: the system ended it, as it does when memory runs out\n"
    assert (ran.code, said in ran.err) == (3, True)


def test_without_a_toolkit_a_build_is_refused_and_the_rest_is_not(
    toy: Toy, toolkit: FakeToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", os.fspath(toy.folder))
    ran = toy.logos(*BUILD)
    assert (ran.code, ran.out, "[no-cuda-toolkit]" in ran.err) == (1, "", True)
    assert not (toy.folder / "made").exists()
    assert toy.logos(*BUILD, "-D", "compile=off").code == 0
    assert toy.tree("made") == ["forward.cu"]
    assert toy.logos("emit", "p.lg", "--target", "cuda", "--out", "emitted").code == 0
    assert toy.tree("emitted") == ["forward.cu"]
    assert toy.logos("check", "p.lg").code == 0


def test_everything_that_a_machine_lacks_is_said_at_once(
    toy: Toy, toolkit: FakeToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = make_compiler(toy.folder / "cxx", "__clang_major__ 99")
    ran = toy.logos(*BUILD, "-D", f"ccbin={compiler}", "-D", "arch=sm_90")
    assert (ran.code, "[host-compiler-version]" in ran.err) == (1, True)
    ran = toy.logos(*BUILD, "-D", "arch=sm90,sm_70,avx")
    assert (ran.code, ran.err) == (1, (
        "arch: sm90 is no architecture; did you mean sm_90? [unknown-arch]\n"
        "  next: name some such as sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, native\n"
        "arch: avx is no architecture [unknown-arch]\n"
        "  next: name some such as sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, native\n"
        "2 refusals\n"
    ))  # fmt: skip
    ran = toy.logos(*BUILD, "-D", "arch=sm_70,sm_80")
    assert (ran.code, ran.err) == (1, (
        "arch: nvcc 13.0.88 does not build for sm_70 [unknown-arch]\n"
        "  next: it builds for sm_80, sm_86, sm_90, sm_120\n"
    ))  # fmt: skip
    assert toy.logos(*BUILD, "-D", "arch=").err.startswith("arch: there is no architecture to build for [unknown-arch]")
    assert toolkit.calls() == []


@pytest.mark.slow
def test_compilers_run_as_many_at_once_as_memory_has_room_for(toy: Toy, toolkit: FakeToolkit) -> None:
    toy.logos(*BUILD)
    text = (toy.folder / "made/.logos/build.ninja").read_text()
    (depth,) = re.findall(r"^pool compilers\n  depth = (\d+)$", text, re.MULTILINE)
    assert 1 <= int(depth) <= (os.cpu_count() or 1)
    assert text.count("pool = compilers") == 2


def test_dry_run_names_the_tool_and_runs_nothing(toy: Toy, toolkit: FakeToolkit) -> None:
    ran = toy.logos(*BUILD, "--dry-run")
    assert f"  with nvcc 13.0.88 ({toolkit.nvcc}, from CUDA_HOME)\n" in ran.out
    assert "  compile forward.o of p for cuda\n" in ran.out
    assert toolkit.calls() == []


def test_a_new_project_is_for_a_target_that_this_machine_can_build(
    toy: Toy, toolkit: FakeToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", os.fspath(toy.folder))
    assert toy.logos("new", "begun").code == 0
    assert "[target.cuda]" not in (toy.folder / "begun/logos.toml").read_text()
    assert toy.logos("build", "begun").code == 0


def test_the_toolkit_is_asked_once_for_all_programs_of_a_build_and_anew_by_the_next(
    toy: Toy, toolkit: FakeToolkit
) -> None:
    toy.write("q.lg", (toy.folder / "p.lg").read_text())
    command = ("build", "p.lg", "q.lg", "--target", "cuda", "--dry-run")
    assert "nvcc 13.0.88" in toy.logos(*command).out
    assert sorted(toolkit.asked()) == ["--list-gpu-code", "--version", "-dryrun"]
    toolkit.says("Cuda compilation tools, release 13.1, V13.1.9\n")
    assert "nvcc 13.1.9" in toy.logos(*command).out
