"""`logos build`: what it refuses, tools that fail, and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from toy_build import Toy, stamps

from logos import Edge, Refused, Rule, Steps
from logos.artifacts import check_commands


def test_an_unknown_fusion_step_is_refused_with_the_known(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "--hold", "glu")
    assert ran.code == 1
    assert ran.err == (
        "--hold: target toy has no fusion step glu; did you mean glue? [unknown-fusion-step]\n"
        "  next: its fusion steps: glue\n"
    )
    assert not (toy.folder / "build").exists()


def test_everything_refused_is_said_in_one_run_and_nothing_is_written(toy: Toy) -> None:
    toy.write("moe.lg", "Let x be a 1 by 2 tensor of Real.\nLet y be z plus x.\n")
    toy.write(
        "logos.toml",
        '[workspace]\nmembers = ["m"]\n[project]\nname = "a"\nprogram = "moe.lg"\nfamily = "toy"\n'
        "[target.toy]\n[target.toi]\n",
    )
    toy.write(
        "m/logos.toml",
        '[project]\nname = "m"\nprogram = "../p.lg"\nfamily = "toy"\n[target.toy]\nlowd = true\nstyle = 3\n',
    )
    ran = toy.build()
    assert ran.code == 1
    heads = [line for line in ran.err.splitlines() if line.endswith("]") and not line.startswith(" ")]
    assert [head.rsplit("[", 1)[1] for head in heads] == [
        "undeclared-name]",
        "unknown-target]",
        "unknown-option]",
        "option-type]",
    ]
    assert heads[1].startswith("logos.toml:8:2: target.toi: ")
    assert heads[2].startswith("m/logos.toml:6:1: target.toy.lowd: ")
    assert heads[3].startswith("m/logos.toml:7:1: target.toy.style: ")
    assert not (toy.folder / "build").exists()


def test_a_weight_of_a_wrong_type_hides_nothing_else(toy: Toy) -> None:
    toy.write(
        "logos.toml",
        '[project]\nname = "a"\nprogram = "p.lg"\nfamily = "toy"\n[weights]\nW = 3\nz = "q"\n'
        "[target.toy]\nlowd = true\n",
    )
    ran = toy.build()
    assert ran.code == 1
    heads = [line for line in ran.err.splitlines() if line.endswith("]") and not line.startswith(" ")]
    assert heads == [
        "logos.toml:6:1: weights.W: an integer is the wrong type [wrong-type]",
        "logos.toml:9:1: target.toy.lowd: target toy has no option lowd; did you mean loud? [unknown-option]",
        "logos.toml:7:1: weights.z: the program has no leaf z [unknown-variable]",
    ]
    toy.write("logos.toml", '[project]\nname = "a"\nprogram = "p.lg"\nfamily = "toy"\n[weights]\nW = 3\n[target.toy]\n')
    assert (toy.build().code, toy.tree()) == (1, [])
    toy.write("logos.toml", '[project]\nname = "a"\nprogram = "p.lgg"\n[weights]\nW = 3\n[target.toy]\n')
    assert [line.rsplit("[", 1)[1] for line in toy.build().err.splitlines() if line.endswith("]")] == [
        "wrong-type]", "missing-file]"
    ]  # fmt: skip


def test_a_family_that_is_none_is_refused_at_its_key(toy: Toy) -> None:
    toy.write("logos.toml", '[project]\nname = "it"\nprogram = "p.lg"\nfamily = "toi"\n[target.toy]\n')
    ran = toy.build()
    assert ran.err.startswith("logos.toml:4:1: project.family: no installed plugin offers the family toi; did you mean")
    assert "[unknown-family]\n    family = " in ran.err
    ran = toy.build("--family", "tou")
    assert ran.err.startswith(
        "family tou: no installed plugin offers the family tou; did you mean toy? [unknown-family]"
    )


def test_what_a_target_refuses_leaves_an_earlier_artifact_as_it_was(toy: Toy) -> None:
    arguments = ("p.lg", "--target", "toy", "--family", "toy")
    toy.build(*arguments)
    before = stamps(toy.folder)
    ran = toy.build(*arguments, "-D", "words=refuse")
    assert ran.code == 1
    assert "[toy-refusal]" in ran.err
    assert stamps(toy.folder) == before


def test_a_failing_tool_shows_its_own_words_its_code_and_its_command(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "tool=fail")
    assert ran.code == 3
    assert ran.out == ""
    assert ran.err == (
        "toy tool: line 3: it broke\n"
        "fail no.txt of p for toy failed with exit code 7\n"
        f"  by hand: echo half > {toy.folder}/build/p/toy/no.txt; echo 'toy tool: line 3: it broke' >&2; exit 7\n"
    )
    assert toy.tree() == ["p/toy/notes/counts.txt", "p/toy/program.txt"], "half a file under a final name"
    assert toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "tool=fail").code == 3


def test_a_tool_that_the_system_ended_is_explained(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "tool=starve")
    assert ran.code == 3
    assert ran.err.splitlines()[0] == (
        "starve no.txt of p for toy failed with exit code 137: the system ended it, as it does when memory runs out"
    )


def test_a_weight_without_a_value_is_refused_before_anything_is_written(toy: Toy) -> None:
    toy.write("p.lg", (toy.folder / "p.lg").read_text().replace("Set item 1 of W to 2.5.\n", ""))
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=safetensors")
    assert ran.code == 1
    assert ran.err.startswith("p.lg:2:1: W (weight) has no value to extract [weight-without-value]\n")
    assert not (toy.folder / "build").exists()


def test_a_step_s_refusal_is_shown_as_it_is_and_the_build_is_refused(toy: Toy) -> None:
    toy.write("build/p/toy/raw", "a file where a folder is due")
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw")
    assert ran.code == 1
    assert "[unwritable-file]\n  next: free space" in ran.err
    assert "by hand" not in ran.err


def test_a_folder_where_a_file_is_due_is_refused(toy: Toy) -> None:
    toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw")
    (toy.folder / "build/p/toy/raw/W.f32").unlink()
    toy.write("build/p/toy/raw/W.f32/mine", "")
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw")
    assert ran.code == 1
    assert "build/p/toy/raw/W.f32: cannot write the file: Is a directory [unwritable-file]" in ran.err
    assert (toy.folder / "build/p/toy/raw/W.f32/mine").exists()


def test_a_step_in_which_a_plugin_breaks_names_the_plugin_and_the_command(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "words=crash")
    assert ran.code == 3
    broke = "plugin toy of distribution toy-plugin raised RuntimeError: the toy broke [plugin-failed]\n"
    assert f": {broke}  next: tell its authors; -v shows the traceback\nemit p for toy failed with exit" in ran.err
    assert "\n  by hand: " in ran.err


def test_every_failure_of_a_run_is_shown(toy: Toy) -> None:
    for name in ("a", "b"):
        text = f'[project]\nname = "{name}"\nprogram = "../p.lg"\nfamily = "toy"\n[target.toy]\ntool = "fail"\n'
        toy.write(f"{name}/logos.toml", text)
    ran = toy.build("a", "b", "--out", "made")
    assert ran.code == 3
    assert ran.err.count("toy tool: line 3: it broke\n") == 2
    for name in ("a", "b"):
        assert f"fail no.txt of {name} for toy failed with exit code 7\n" in ran.err


def test_an_interrupt_stops_the_tools_and_leaves_nothing_half_done(toy: Toy) -> None:
    command = [sys.executable, "-m", "logos", "build", "p.lg", "--target", "toy", "--family", "toy", "-D", "tool=slow"]
    half = toy.folder / "build/p/toy/slow.txt"
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True) as process:
        deadline = time.monotonic() + 30
        while not half.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert half.exists()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert not half.exists()


def test_no_ninja_is_refused_with_how_to_install_it(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    import ninja

    monkeypatch.setattr(ninja, "BIN_DIR", str(toy.folder))
    monkeypatch.setenv("PATH", str(toy.folder))
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy")
    assert ran.code == 1
    assert ran.err == "ninja: ninja is not installed [no-ninja]\n  next: install it: pip install ninja\n"


def test_a_text_that_is_no_line_never_reaches_ninja(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", "words=a\n  command = touch made-by-ninja\n")
    assert ran.err == (
        "-D words: option words of target toy holds a character that cannot be printed [bad-value]\n"
        "  next: write it in one line of printable characters\n"
    )
    toy.write(
        "logos.toml",
        '[project]\nname = "it"\nprogram = "p.lg"\nfamily = "toy"\n[weights]\nx = "a\\nbuild q: touch"\n'
        '[target.toy]\ntool = "say"\nwords = ["fine", "x\\n y"]\n',
    )
    ran = toy.build()
    assert ran.code == 1
    assert "logos.toml:9:1: target.toy.words: option words of target toy holds a character" in ran.err
    assert "logos.toml:6:1: weights.x: the tensor of x holds a character that cannot be printed [bad-value]" in ran.err
    assert sorted(path.name for path in toy.folder.iterdir()) == ["logos.toml", "p.lg"]


@pytest.mark.parametrize(
    "steps", [Steps(rules=(Rule("r", "a\nb", ""),)), Steps(edges=(Edge("r", ("o",), (), {"v": "\r"}),))]
)
def test_a_target_s_command_of_several_lines_is_refused(steps: Steps) -> None:
    with pytest.raises(Refused) as refused:
        check_commands(SimpleNamespace(name="toy"), steps)  # type: ignore[arg-type]
    assert "target toy wants to run a command with a line break in it" in str(refused.value)
    assert "[bad-command]\n  next: this is a fault of the plugin that brings the target" in str(refused.value)


def test_a_path_out_of_the_artifact_s_folder_is_refused(toy: Toy) -> None:
    for path in ("../x", "/tmp/x", "a/../../x", ".logos/x", "program.txt", "a\\x"):
        ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "-D", f"path={path}")
        assert (ran.code, "[bad-artifact-path]" in ran.err) == (1, True), path
    assert not (toy.folder / "build").exists()


def test_an_out_folder_that_cannot_be_made_is_refused(toy: Toy) -> None:
    ran = toy.build("p.lg", "--target", "toy", "--family", "toy", "--out", "p.lg/x")
    assert (ran.code, "[unwritable-file]" in ran.err) == (1, True)
