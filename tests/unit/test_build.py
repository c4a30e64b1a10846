"""`logos build` from arguments to files: what is made, remade, removed and told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from toy_build import PROGRAM, Toy, stamps

from logos.manager import make_manager
from logos.ninja_file import ninja_text
from logos.ninja_run import find_ninja
from logos.plan import make_plan
from logos.selection import Flags, select

ODD_NAMES = ["two  blanks", "dollar $x $$", "colon: bar|", 'it\'s "quoted"', "größe 模型", "a;b&c>d #e", " -D x=y "]


def test_a_program_is_built_into_the_folder_given(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "--out", "made", "-D", "weights=safetensors")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "p for toy → made\n"
        "  1 operation; 1 input, 1 weight\n"
        "  program.txt: 22 bytes\n"
        "  notes/counts.txt: 2 bytes\n"
        "  weights.safetensors: 96 bytes\n"
        "built 1 artifact in 2 steps\n"
        "next: logos verify p.lg --target toy --family toy -D weights=safetensors\n"
    )
    assert toy.tree("made") == ["notes/counts.txt", "program.txt", "weights.safetensors"]
    assert (toy.folder / "made/program.txt").read_text() == "4: matmul\nplain\nFalse\n"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_mean_something_to_a_shell_or_to_ninja_are_names(toy: Toy, name: str) -> None:
    toy.write(f"{name}/{name}.lg", (toy.folder / "p.lg").read_text())
    arguments = (f"{name}/{name}.lg", "--target", "toy", "--family", "toy", "--out", f"out {name}")
    options = ("-D", "weights=raw", "-D", "tool=copy", "-D", f"words={name}")
    assert toy.build(*arguments, *options).code == 0
    assert toy.tree(f"out {name}") == ["copy.txt", "notes/counts.txt", "program.txt", "raw/W.f32"]
    assert (toy.folder / f"out {name}/copy.txt").read_text() == f"4: matmul\nplain\nFalse\n{name.strip()}\n"
    assert toy.build(*arguments, *options).out.splitlines()[1] == "nothing to do: 1 artifact up to date"


def test_a_build_with_nothing_to_do_touches_nothing(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors", "-D", "tool=copy")
    toy.build(*arguments)
    before = stamps(toy.folder)
    ran = toy.build(*arguments)
    assert ran.out.startswith("p for toy → build/p/toy\nnothing to do: 1 artifact up to date\n")
    assert stamps(toy.folder) == before


def test_a_touched_program_that_says_the_same_rewrites_nothing(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors", "-D", "tool=copy", "-v")
    toy.build(*arguments)
    before = stamps(toy.folder / "build")
    later = (toy.folder / "p.lg").stat().st_mtime + 100
    os.utime(toy.folder / "p.lg", (later, later))
    ran = toy.build(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert "nothing to do: 1 artifact up to date\n" in ran.out
    assert stamps(toy.folder / "build") == before


def test_changed_operations_extract_no_weights_again(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors", "-v")
    toy.build(*arguments)
    toy.write("p.lg", (toy.folder / "p.lg").read_text() + "Let z be silu of y.\n")
    assert toy.build(*arguments).err == "[1/1] emit p for toy\n"


def test_a_changed_fill_extracts_again(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-v")
    toy.build(*arguments)
    toy.write("p.lg", (toy.folder / "p.lg").read_text().replace("2.5", "3.5"))
    assert "extract raw of p for toy\n" in toy.build(*arguments).err
    assert (toy.folder / "build/p/toy/raw/W.f32").read_bytes()[:4] == bytes.fromhex("00006040")


def test_a_changed_weight_file_extracts_again(toy: Toy) -> None:
    weight = toy.folder / "given/W.f32"
    toy.write("given/W.f32", "\0" * 24)
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "--weights", "given", "-D", "weights=raw")
    toy.build(*arguments)
    weight.write_bytes(b"\1" * 24)
    later = weight.stat().st_mtime + 100
    os.utime(weight, (later, later))
    toy.build(*arguments)
    assert (toy.folder / "build/p/toy/raw/W.f32").read_bytes() == b"\1" * 24


def test_a_weight_file_that_appears_with_an_old_time_is_seen(toy: Toy) -> None:
    toy.write("given/readme", "")
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "--weights", "given", "-D", "weights=raw")
    toy.build(*arguments)
    os.utime(toy.write("given/x.f32", "\0" * 8), (1, 1))
    assert toy.build(*arguments).code == 0
    assert toy.tree("build/p/toy/raw") == ["W.f32", "x.f32"]


def test_one_rule_of_a_target_may_have_two_commands(toy: Toy) -> None:
    for name in ("a", "b"):
        text = f'[project]\nname = "{name}"\nprogram = "../p.lg"\nfamily = "toy"\n[target.toy]\n'
        toy.write(f"{name}/logos.toml", f'{text}tool = "say"\nwords = ["from {name}"]\n')
    assert toy.build("a", "b", "--out", "made").code == 0
    assert [(toy.folder / f"made/{name}/toy/said.txt").read_text() for name in ("a", "b")] == ["from a\n", "from b\n"]


def test_files_that_an_option_no_longer_asks_for_are_removed(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy")
    toy.build(*arguments, "-D", "weights=raw", "-D", "path=deep/er/x.txt")
    toy.write("build/p/toy/mine.txt", "the user's own")
    toy.build(*arguments)
    assert toy.tree() == ["p/toy/mine.txt", "p/toy/notes/counts.txt", "p/toy/program.txt"]
    assert not (toy.folder / "build/p/toy/deep").exists()


def test_building_one_member_leaves_the_others_artifacts(toy: Toy) -> None:
    for name in ("a", "b"):
        toy.write(f"{name}/p.lg", (toy.folder / "p.lg").read_text())
        toy.write(f"{name}/logos.toml", f'[project]\nname = "{name}"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\n')
    toy.write("logos.toml", '[workspace]\nmembers = ["a", "b"]\n')
    assert toy.build().code == 0
    before = stamps(toy.folder / "build")
    for name in ("a", "b", "./b"):
        assert "nothing to do: 1 artifact up to date" in toy.build(name).out
    assert "nothing to do: 2 artifacts up to date" in toy.build().out
    assert stamps(toy.folder / "build") == before


def test_a_project_file_s_options_reach_the_target_typed(toy: Toy) -> None:
    toy.write(
        "logos.toml",
        '[project]\nname = "it"\nprogram = "p.lg"\nfamily = "toy"\nout = "made here"\n[weights]\nx = "toy.x"\n'
        '[target.toy]\nstyle = "fancy"\nloud = true\nwords = ["one", "two words"]\n',
    )
    ran = toy.build()
    assert ran.code == 0
    assert "1 operation; 2 weights" in ran.out
    text = (toy.folder / "made here/it/toy/program.txt").read_text()
    assert text == "4: matmul\nfancy\nTrue\none\ntwo words\n"


def test_an_authored_program_is_written_before_what_needs_it(toy: Toy, oracles: Path) -> None:
    checkpoint = oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf"
    toy.write(
        "logos.toml",
        f'[project]\nname = "it"\nauthor = {{ checkpoint = "{checkpoint}", context = 24, layers = 1 }}\n'
        '[target.toy]\nweights = "safetensors"\n',
    )
    ran = toy.build("-j", "3")
    assert (ran.code, ran.err) == (0, "")
    assert toy.tree() == [f"it/toy/{file}" for file in ("notes/counts.txt", "program.txt", "weights.safetensors")]
    assert "room for 24 positions" in (toy.folder / "build/.logos/programs/it.lg").read_text()
    assert "nothing to do" in toy.build().out


def test_a_flag_stands_before_the_project_file(toy: Toy) -> None:
    toy.write("logos.toml", '[project]\nname = "it"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\nstyle = "fancy"\n')
    toy.build("p.lg", "-D", "style=plain", "--out", "made")
    assert (toy.folder / "made/program.txt").read_text() == "4: matmul\nplain\nFalse\n"


def test_a_held_step_reaches_the_target(toy: Toy) -> None:
    toy.build("p.lg", "--target", "toy", "--family", "toy", "--hold", "glue")
    assert (toy.folder / "build/p/toy/program.txt").read_text().endswith("held glue\n")


def test_a_dry_run_prints_what_then_happens_and_writes_nothing(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-D", "tool=copy")
    ran = toy.build(*arguments, "--dry-run")
    assert ran.code == 0
    assert ran.out == (
        "p for toy → build/p/toy\n"
        "  1 operation; 1 input, 1 weight\n"
        "  emit p for toy\n"
        "    → build/p/toy/program.txt\n"
        "    → build/p/toy/notes/counts.txt\n"
        "  extract raw of p for toy\n"
        "    → build/p/toy/raw/W.f32\n"
        "  copy copy.txt of p for toy\n"
        "    → build/p/toy/copy.txt\n"
        "1 artifact in 3 steps; nothing was written\n"
    )
    assert not (toy.folder / "build").exists()
    planned = json.loads(toy.build(*arguments, "--dry-run", "--json").out)
    *steps, done, _ = map(json.loads, toy.build(*arguments, "--json").out.splitlines())
    assert sorted(step["step"] for step in steps) == sorted(planned["steps"])
    assert [file["path"] for file in done["files"]] == [file["path"] for file in planned["files"]]
    assert toy.tree("build/p/toy") == sorted(file["path"] for file in planned["files"])


def test_json_prints_refusals_and_failures_one_object_a_line(toy: Toy) -> None:
    refused = json.loads(toy.build("nowhere.lg", "--target", "toy", "--json").out)
    assert refused["refusal"] == "unknown-member"
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "tool=fail", "--json")
    failed = json.loads(ran.out.splitlines()[-1])
    assert (failed["event"], failed["step"]) == ("failed", "fail no.txt of p for toy")
    assert (failed["code"], failed["output"]) == (7, "toy tool: line 3: it broke")


def test_quiet_prints_nothing(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_an_encoding_without_our_characters_is_no_obstacle(toy: Toy) -> None:
    command = [sys.executable, "-m", "logos", "build", "p.lg", "--target", "toy", "--family", "toy"]
    ran = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b"p for toy \\u2192 build/p/toy\n")


def test_an_interrupted_artifact_is_finished_by_the_next_build(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw")
    toy.build(*arguments)
    (toy.folder / "build/p/toy/raw/W.f32").unlink()
    (toy.folder / "build/p/toy/program.txt").unlink()
    assert toy.build(*arguments).code == 0
    assert toy.tree("build/p/toy") == ["notes/counts.txt", "program.txt", "raw/W.f32"]


def test_emit_alone_writes_what_the_build_writes(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "loud=true", "--hold", "glue")
    toy.build(*arguments)
    ran = toy.logos("emit", *arguments, "--out", "alone")
    assert ran.out == "alone/program.txt: 31 bytes\nalone/notes/counts.txt: 2 bytes\n"
    assert (toy.folder / "alone/program.txt").read_bytes() == (toy.folder / "build/p/toy/program.txt").read_bytes()
    assert (
        toy.logos("emit", *arguments, "--out", "alone").out.splitlines()[0] == "alone/program.txt: 31 bytes, unchanged"
    )


def test_extract_alone_writes_what_the_build_writes(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors")
    toy.build(*arguments)
    ran = toy.logos("extract", *arguments, "--out", "alone", "--json")
    assert json.loads(ran.out) == {"file": "alone/weights.safetensors", "bytes": 96}
    made = toy.folder / "build/p/toy/weights.safetensors"
    assert (toy.folder / "alone/weights.safetensors").read_bytes() == made.read_bytes()


def test_extracting_a_file_that_the_artifact_has_not_is_refused(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors", "--out", "alone")
    ran = toy.logos("extract", *arguments, "--file", "weight.safetensors")
    assert ran.code == 1
    assert "did you mean weights.safetensors? [no-such-weight-file]" in ran.err


def test_small_weight_files_are_extracted_several_at_a_time_and_long_ones_one_at_a_time(toy: Toy) -> None:
    toy.write("long.lg", PROGRAM.replace("2 by 3", "2 by 2097152"))
    selection = select(("p.lg", "long.lg"), Flags(("toy",), family="toy", defines={"weights": "raw"}))
    plan = make_plan(make_manager(), selection, preview=True)
    edges = re.split(r"\n(?=build )", ninja_text(plan, None))
    pools = {re.findall("title = (.*)", edge)[0]: "pool = weights" in edge for edge in edges if ": extract" in edge}
    assert pools == {"extract raw of p for toy": False, "extract raw of long for toy": True}


def test_numpy_makes_its_threads_for_long_steps_alone(toy: Toy, tmp_path: Path) -> None:
    toy.write("long.lg", PROGRAM.replace("2 by 3", "2 by 2097152"))
    selection = select(("p.lg", "long.lg"), Flags(("toy",), family="toy", defines={"weights": "raw"}))
    plan = make_plan(make_manager(), selection, preview=True)
    (tmp_path / "build.ninja").write_text(ninja_text(plan, None))
    said = subprocess.run([find_ninja(), "-C", tmp_path, "-t", "commands"], check=True, capture_output=True, text=True)
    threads = {}
    for line in said.stdout.splitlines():
        before, _, words = line.partition(f"{sys.executable} -m logos ")
        threads[" ".join((words.split()[0], Path(words.split()[1]).stem))] = before
    one = "OPENBLAS_NUM_THREADS=1 "
    assert threads == {"emit p": one, "extract p": one, "emit long": one, "extract long": ""}
