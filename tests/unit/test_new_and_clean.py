"""A starting project works as it is; what builds made can be taken away, and nothing else is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from toy_build import Toy

BUILD = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-D", "path=deep/er/x.txt")


ODD_NAMES = [pytest.param(name, marks=pytest.mark.slow) for name in ("start", "x" * 120, "-flag", ".hidden/.logos")]


@pytest.mark.parametrize("name", ['it\'s "a" $new: größe', *ODD_NAMES])
def test_a_starting_project_builds_at_once(toy: Toy, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = toy.logos("new", "--", name)
    assert (ran.code, ran.err) == (0, "")
    assert sorted(path.name for path in (toy.folder / name).iterdir()) == ["README.md", "logos.toml", "program.lg"]
    monkeypatch.chdir(toy.folder / name)
    ran = toy.build()
    assert (ran.code, ran.err) == (0, "")
    assert "built 1 artifact" in ran.out
    assert toy.logos("run", "program.lg", "--set", "x=[[1, 2, 3, 4]]").code == 0
    assert toy.logos("clean").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["README.md", "logos.toml", "program.lg"]


def test_a_starting_project_is_for_the_target_asked_for(toy: Toy) -> None:
    toy.logos("new", "it", "--target", "toy")
    assert "[target.toy]" in (toy.folder / "it/logos.toml").read_text()
    assert "--target toy" in (toy.folder / "it/README.md").read_text()
    ran = toy.logos("new", "other", "--target", "toi")
    assert (ran.code, "[unknown-target]" in ran.err, (toy.folder / "other").exists()) == (1, True, False)


def test_a_folder_that_holds_something_is_left_alone(toy: Toy) -> None:
    (toy.folder / "empty").mkdir()
    assert toy.logos("new", "empty", "-q").out == ""
    before = (toy.folder / "empty/README.md").stat().st_mtime_ns
    for place in ("empty", "p.lg"):
        assert "[folder-not-empty]" in toy.logos("new", place).err
    assert (toy.folder / "empty/README.md").stat().st_mtime_ns == before


def test_clean_removes_all_that_builds_made_and_the_folders_it_leaves_empty(toy: Toy) -> None:
    toy.build(*BUILD)
    toy.build(*BUILD, "-D", "tool=copy", "-D", "weights=safetensors")
    assert toy.logos("clean").out == "removed 4 files\n"
    assert sorted(path.name for path in toy.folder.iterdir()) == ["p.lg"]


def test_clean_removes_what_a_failed_build_made(toy: Toy) -> None:
    assert toy.build(*BUILD, "-D", "tool=fail").code == 3
    assert toy.logos("clean").out == "removed 3 files\n"
    assert not (toy.folder / "build").exists()


def test_clean_removes_nothing_else(toy: Toy) -> None:
    toy.build(*BUILD)
    toy.write("build/mine", "")
    toy.write("build/p/toy/raw/mine", "")
    toy.write("build/p/toy/program.txt", "edited")
    toy.write("build/.logos/mine", "")
    ran = toy.logos("clean")
    assert ran.out == "kept build/p/toy/program.txt: changed since it was built\nremoved 2 files\n"
    assert toy.tree() == ["mine", "p/toy/program.txt", "p/toy/raw/mine"]
    assert [path.name for path in (toy.folder / "build/.logos").iterdir()] == ["mine"]
    assert "[not-a-build]" in toy.logos("clean").err


@pytest.mark.slow
def test_clean_in_a_copy_of_a_build_leaves_the_original(toy: Toy) -> None:
    toy.build(*BUILD)
    before = toy.tree()
    shutil.copytree(toy.folder / "build", toy.folder / "copy")
    assert toy.logos("clean", "--out", "copy").out == "removed 0 files\n"
    assert toy.tree() == before
    assert toy.tree("copy") == before


@pytest.mark.slow
def test_clean_goes_where_the_project_file_says(toy: Toy) -> None:
    toy.write("logos.toml", '[project]\nname = "p"\nprogram = "p.lg"\nfamily = "toy"\nout = "my out"\n[target.toy]\n')
    toy.build()
    assert toy.logos("clean").out == "removed 2 files\n"
    assert sorted(path.name for path in toy.folder.iterdir()) == ["logos.toml", "p.lg"]


def test_explain_says_what_each_sentence_became_and_the_memory(toy: Toy) -> None:
    ran = toy.logos("explain", "p.lg", "--family", "toy", "--target", "toy", "-D", "weights=safetensors")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "p.lg: 1 operation, output y\n"
        "\nleaves\n"
        "  x  1 by 2  input\n"
        "  W  2 by 3  weight  1 filled\n"
        "\nsentences\n"
        "  4: Let y be x matmul W.\n"
        "      matmul: y 1 by 3\n"
        "\nmemory\n"
        "  weight: 24 bytes\n"
        "  input: 8 bytes\n"
        "  computed at once: 12 bytes\n"
        "\nstages of a build for toy\n"
        "  emit\n"
        "    → program.txt: 22 bytes\n"
        "    → notes/counts.txt: 2 bytes\n"
        "  extract 1 value as F32\n"
        "    → weights.safetensors: 24 bytes of values\n"
    )
    assert [path.name for path in toy.folder.iterdir()] == ["p.lg"]


def test_explain_states_the_context_and_the_checkpoint_s_tensors(toy: Toy, oracles: Path) -> None:
    checkpoint = str(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf")
    toy.logos("author", checkpoint, "-o", "m.lg", "--context", "24")
    out = toy.logos("explain", "m.lg", "--checkpoint", checkpoint).out
    assert "memory at a context of 24 positions\n" in out
    (line,) = [line for line in out.splitlines() if line.startswith("  Wq0 ")]
    assert line.split("  ")[-1] == "blk.0.attn_q.weight (Q8_0)"


def test_explain_an_op_is_its_page(toy: Toy) -> None:
    assert toy.logos("explain", "set", "row").out == toy.logos("ops", "set", "row").out
    assert json.loads(toy.logos("ops", "set row", "--json").out)["op"] == "set row"
