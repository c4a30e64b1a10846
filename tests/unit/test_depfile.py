"""What a build tells the build around it: its depfile, and that it leaves nothing beside the artifacts."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from fake_nvcc import make_toolkit, without_nvcc
from toy_build import PROGRAM, Toy

from logos.depfile import depfile_text
from logos.inputs import code_digest
from logos.manager import make_manager
from logos.ninja_run import find_ninja
from logos.plan import make_plan
from logos.selection import Flags, select

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


def test_deps_name_all_that_the_depfile_names(toy: Toy, tmp_path: Path) -> None:
    toy.write("w/W.f32", "").write_bytes(bytes(24))
    toy.write("support.toml", 'schema = "logos.sambaflow.support"\nversion = 1\n')
    toy.write("uv.lock", "")
    toy.write("a/p.lg", PROGRAM)
    options = 'weights = "raw"\ntool = "copy"\n[target.rdu-sambaflow]\nsupport = "../support.toml"\n'
    toy.write("a/logos.toml", f'[project]\nname = "a"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\n{options}')
    toy.write("b/logos.toml", '[project]\nname = "b"\nprogram = "../p.lg"\n[target.rdu-sambaflow]\n')
    toy.write("logos.toml", '[workspace]\nmembers = ["a", "b"]\nversions = ["uv.lock"]\n')
    ran = toy.logos("deps", "--weights", "w", "--json")
    assert (ran.code, ran.err) == (0, ""), ran.out
    said = [json.loads(line) for line in ran.out.splitlines()]
    assert [(one["name"], one["target"]) for one in said] == [
        ("a", "toy"), ("a", "rdu-sambaflow"), ("b", "rdu-sambaflow")
    ]  # fmt: skip
    extract = next(step for step in said[1]["steps"] if step["step"].startswith("extract"))
    inside = [toy.folder / path for path in ("a/p.lg", "w/W.f32", "support.toml")]
    assert extract["inputs"] == list(map(str, inside))
    assert str(toy.folder / "b/logos.toml") not in said[0]["files"]

    assert toy.build("--weights", "w", "--depfile", "made.d").code == 0
    named = set(read(tmp_path, (toy.folder / "made.d").read_text()))
    told = {path for one in said for path in (*one["files"], *one["folders"])}
    told |= {path for one in said for step in one["steps"] for path in (*step["inputs"], *step["outputs"])}
    assert told <= named
    packages = said[0]["code"]["packages"]
    assert {os.path.basename(path) for path in packages} >= {"logos", "logos_sambaflow", "toy_plugin.py"}
    sources = {path for path in named for one in packages if path == one or path.startswith(f"{one}/")}
    assert named - told <= sources
    code = said[0]["code"]
    assert code["distributions"]["logos-build"] == version("logos-build")
    assert code["distributions"]["numpy"] == version("numpy")
    plan = make_plan(make_manager(), select(("a",), Flags(weights=Path("w"))), preview=True)
    assert code["digest"] == code_digest(plan.sources)


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
    (said,) = toy.logos("deps", "p.lg", "--target", "cuda", "--json").out.splitlines()
    (compiled,) = [step for step in json.loads(said)["steps"] if "depfile" in step]
    assert compiled["depfile"] == f"{compiled['outputs'][0]}.d"
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
