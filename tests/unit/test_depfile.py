"""What a build tells the build around it: its depfile, and that it leaves nothing beside the artifacts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from fake_nvcc import make_toolkit, without_nvcc
from toy_build import Toy

from logos.depfile import depfile_text
from logos.ninja_run import find_ninja

NAMES = ("plain", "a b", "two  blanks", "dollar $x $$", "hash #", "back\\slash", "back\\\\ blank", "größe 模型", "q'\"")


def read(folder: Path, depfile: str) -> list[str]:
    """The paths of a depfile as ninja reads it."""
    text = "rule r\n command = cp kept made.d && touch made\n depfile = made.d\n deps = gcc\nbuild made: r\n"
    (folder / "build.ninja").write_text(text)
    (folder / "kept").write_text(depfile, "utf-8")
    subprocess.run([find_ninja(), "-C", folder], check=True, capture_output=True)
    said = subprocess.run([find_ninja(), "-C", folder, "-t", "deps"], check=True, capture_output=True, encoding="utf-8")
    return [line.removeprefix("    ") for line in said.stdout.splitlines() if line.startswith("    ")]


def test_ninja_reads_every_name_that_a_path_may_have(tmp_path: Path) -> None:
    assert read(tmp_path, depfile_text("made", NAMES)) == list(NAMES)


def test_a_depfile_names_what_the_build_read_and_what_it_made(toy: Toy, tmp_path: Path) -> None:
    toy.write("weights folder/W.f32", "").write_bytes(bytes(24))
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-D", "tool=copy")
    ran = toy.build(*arguments, "--weights", "weights folder", "--out", "o", "--depfile", "o.stamp.d")
    assert (ran.code, ran.err) == (0, "")
    text = (toy.folder / "o.stamp.d").read_text()
    assert text.startswith("o.stamp: \\\n ")
    named = read(tmp_path, text.replace("o.stamp:", "made:", 1))
    assert all(os.path.isabs(path) and os.path.exists(path) for path in named)
    expected = {"p.lg", "weights folder/W.f32", "weights folder", "o/program.txt", "o/copy.txt", "o/raw/W.f32"}
    assert expected <= {os.path.relpath(path, toy.folder) for path in named}
    assert {"plan.py", "toy_plugin.py"} <= {os.path.basename(path) for path in named}


@pytest.mark.slow
def test_a_depfile_that_was_taken_away_is_written_again(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "--depfile", "made.d")
    for _ in range(2):
        assert toy.build(*arguments).code == 0
        (toy.folder / "made.d").unlink()


@pytest.mark.slow
def test_a_depfile_names_what_only_a_tool_knows_that_it_read(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = make_toolkit(tmp_path / "cuda home")
    monkeypatch.setenv("CUDA_HOME", os.fspath(toolkit.home))
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    assert toy.build("p.lg", "--target", "cuda", "--depfile", "made.d").code == 0
    named = read(tmp_path, (toy.folder / "made.d").read_text())
    assert os.fspath(toolkit.home / "include/device.h") in named
    assert os.fspath(toolkit.nvcc) in named


def test_a_depfile_is_named_after_what_depends(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--depfile", "stamp")
    assert ran.code == 2
    assert "stamp: name it after what depends, with .d at the end: FILE.d" in ran.err
    assert not (toy.folder / "build").exists()


def test_a_build_for_once_leaves_the_artifact_alone(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "--out", "once", "--once")
    for _ in range(2):
        ran = toy.build(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert "next: logos verify" in ran.out
        assert sorted(os.listdir(toy.folder / "once")) == ["notes", "program.txt"]


@pytest.mark.slow
def test_a_build_for_once_that_fails_leaves_nothing_of_ninja_s(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "tool=fail", "--out", "once", "--once")
    assert ran.code == 3
    assert not (toy.folder / "once/.logos").exists()
