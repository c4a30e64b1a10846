"""A build with nothing to do: what it costs, and everything that ends its being believed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from process import PLUGIN, environment, logos
from toy_build import PROGRAM

BUILD = ("build", "p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-D", "tool=copy")
IDLE = [
    "p for toy → build/p/toy",
    "nothing to do: 1 artifact up to date",
    "next: logos verify p.lg --target toy --family toy -D tool=copy -D weights=raw",
]
"""What BUILD prints where nothing is to do."""


def settle() -> None:
    """Lets what was written lie long enough for the next build to trust its times."""
    time.sleep(0.12)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    (tmp_path / "p.lg").write_text(PROGRAM)
    settle()
    assert logos(tmp_path, *BUILD).returncode == 0
    assert account(tmp_path).is_file()
    return tmp_path


def account(folder: Path) -> Path:
    return folder / "build/.logos/finished.txt"


def imports(folder: Path, *arguments: str) -> list[str]:
    """The modules that a command imports, and that it succeeds."""
    program = (
        "import sys\nfrom logos.entry import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print('LOADED', *sys.modules)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    return ran.stdout.rpartition("LOADED ")[2].split()


def test_nothing_heavy_is_imported_and_the_same_is_printed(built: Path) -> None:
    heavy = {"typing", "json", "numpy", "torch", "rich", "click", "pluggy", "ninja", "toy_plugin", "logos.cli.main"}
    # The first knows another way of starting, and so looks closely.
    first, second = imports(built, *BUILD), imports(built, *BUILD)
    assert heavy & set(first) >= {"click", "pluggy", "toy_plugin"}
    assert heavy & set(second) == set()
    for _ in range(2):
        assert logos(built, *BUILD).stdout.splitlines() == IDLE


def test_an_account_that_was_cut_short_is_not_believed(built: Path) -> None:
    lines = account(built).read_text().split("\n")
    read, listed = map(int, lines[2].split(" ")[:2])
    assert read > 0
    assert listed == 0
    # All that is left of it holds.
    account(built).write_text("\n".join(lines[: 3 + 2 * read + 1]))
    assert logos(built, *BUILD).stdout.splitlines() == IDLE


def test_what_ninja_complains_of_is_left_to_the_closer_look(built: Path) -> None:
    (built / "build/.logos/build.ninja").unlink()
    ran = logos(built, *BUILD)
    assert (ran.returncode, ran.stdout.splitlines(), ran.stderr) == (0, IDLE, "")


def test_the_command_that_has_the_process_alone_says_all_before_it_ends(built: Path) -> None:
    program = "import atexit\nfrom logos.entry import main\natexit.register(print, 'TAKEN DOWN')\n"
    for called, last in (("main()", IDLE[-1]), ("import sys\nmain(sys.argv[1:])", "TAKEN DOWN")):
        for _ in range(2):
            command = [sys.executable, "-c", program + called, *BUILD]
            ran = subprocess.run(command, cwd=built, env=environment(), capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines()[: len(IDLE)] == IDLE
        assert ran.stdout.splitlines()[-1] == last


def test_code_that_was_edited_in_place_and_dated_back_is_looked_at(built: Path) -> None:
    plugin = built / "plugin"
    shutil.copytree(PLUGIN, plugin, ignore=shutil.ignore_patterns("__pycache__"))
    changes = {"PYTHONPATH": os.pathsep.join([os.fspath(plugin), os.environ.get("PYTHONPATH", "")])}
    settle()
    for _ in range(2):
        assert logos(built, *BUILD, changes=changes).stdout.splitlines() == IDLE
    text = (plugin / "toy_plugin.py").read_text()
    (plugin / "toy_plugin.py").write_text(text.replace('f"{node.line}: {node.op.name}"', '"all new"'))
    os.utime(plugin / "toy_plugin.py", (1, 1))
    assert logos(built, *BUILD, changes=changes).returncode == 0
    assert "all new" in (built / "build/p/toy/program.txt").read_text()


@pytest.mark.parametrize("flag", ["-q", "--json", "-v"])
def test_what_is_printed_is_what_a_closer_look_prints(built: Path, flag: str) -> None:
    closer = logos(built, *BUILD, flag)
    assert closer.returncode == 0
    glance = logos(built, *BUILD, flag)
    assert (glance.stdout, glance.stderr) == (closer.stdout, "")
    if flag == "--json":
        assert [json.loads(line)["event"] for line in glance.stdout.splitlines()] == ["artifact", "built"]


def older_program(folder: Path) -> None:
    text = (folder / "p.lg").read_text().replace("2.5", "7.5")
    (folder / "new").write_text(text)
    os.utime(folder / "new", (1, 1))
    os.replace(folder / "new", folder / "p.lg")


def edited_output(folder: Path) -> None:
    with open(folder / "build/p/toy/program.txt", "a") as file:
        file.write("mine\n")


def truncated_weight(folder: Path) -> None:
    os.truncate(folder / "build/p/toy/raw/W.f32", 3)


def half_a_tool_s_output(folder: Path) -> None:
    (folder / "build/p/toy/copy.txt").write_text("4: mat")


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (older_program, ["extract raw of p for toy"]),
        (edited_output, ["emit p for toy", "copy copy.txt of p for toy"]),
        (truncated_weight, ["extract raw of p for toy"]),
        (half_a_tool_s_output, ["copy copy.txt of p for toy"]),
        (lambda folder: (folder / "build/p/toy/raw/W.f32").unlink(), ["extract raw of p for toy"]),
        (lambda folder: shutil.rmtree(folder / "build/p"), None),
        pytest.param(lambda folder: (folder / "build/.logos/.ninja_log").unlink(), None, marks=pytest.mark.slow),
        pytest.param(lambda folder: os.utime(folder / "p.lg", (2e9, 2e9)), [], marks=pytest.mark.slow),
        (lambda folder: os.utime(folder / "p.lg", (1, 1)), []),
    ],
)  # fmt: skip
def test_what_changed_is_found_and_just_its_steps_run(
    built: Path, change: Callable[[Path], object], steps: list[str] | None
) -> None:
    before = {path: path.read_bytes() for path in (built / "build/p").rglob("*") if path.is_file()}
    change(built)
    planned = json.loads(logos(built, *BUILD, "--dry-run", "--json").stdout)["steps"]
    ran = logos(built, *BUILD, "-v")
    assert ran.returncode == 0
    done = [line.split("] ", 1)[1] for line in ran.stderr.splitlines()]
    assert sorted(done) == sorted(planned)
    if steps is not None:
        assert sorted(done) == sorted(steps)
    after = {path: path.read_bytes() for path in (built / "build/p").rglob("*") if path.is_file()}
    changed = [path.name for path in before if before[path] != after.get(path)]
    assert changed == (["W.f32"] if change is older_program else [])
    assert "nothing to do" in logos(built, *BUILD).stdout


def test_a_project_file_that_appears_is_read(built: Path) -> None:
    (built / "logos.toml").write_text("[nonsense]\n")
    assert "unknown-key" in logos(built, *BUILD).stderr


@pytest.mark.slow
def test_a_member_that_appears_in_a_pattern_s_folder_is_built(tmp_path: Path) -> None:
    (tmp_path / "logos.toml").write_text('[workspace]\nmembers = ["all/*"]\n')

    def member(name: str) -> None:
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "p.lg").write_text(PROGRAM)
        text = f'[project]\nname = "{name}"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\n'
        (tmp_path / "all" / name / "logos.toml").write_text(text)

    member("one")
    settle()
    logos(tmp_path, "build")
    assert account(tmp_path).is_file()
    assert "nothing to do: 1 artifact" in logos(tmp_path, "build").stdout
    member("two")
    assert "two for toy" in logos(tmp_path, "build").stdout
    settle()
    logos(tmp_path, "build")
    (tmp_path / "all/two/logos.toml").unlink()
    assert "nothing to do: 1 artifact" in logos(tmp_path, "build").stdout


@pytest.mark.slow
def test_other_arguments_folders_and_plugins_are_looked_at_closely(built: Path, tmp_path: Path) -> None:
    assert logos(built, *BUILD, "-D", "style=fancy").returncode == 0
    assert "fancy" in (built / "build/p/toy/program.txt").read_text()
    settle()
    logos(built, *BUILD)
    info = tmp_path / "more" / "late_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    path = os.pathsep.join([environment()["PYTHONPATH"], os.fspath(info.parent)])
    logos(built, *BUILD, changes={"PYTHONPATH": path})
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[logos]\nlate = nowhere\n")
    ran = logos(built, *BUILD, changes={"PYTHONPATH": path})
    assert "plugin late of distribution late-plugin is left out" in ran.stderr


@pytest.mark.slow
def test_a_left_out_plugin_is_said_at_every_build(built: Path, tmp_path: Path) -> None:
    info = tmp_path / "more" / "bad_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[logos]\nbad = nowhere\n")
    path = os.pathsep.join([environment()["PYTHONPATH"], os.fspath(info.parent)])
    settle()
    for _ in range(3):
        ran = logos(built, *BUILD, changes={"PYTHONPATH": path})
        assert (ran.returncode, ran.stderr.count("warning: plugin bad of distribution bad-plugin")) == (0, 1)


def test_plain_ninja_builds_what_is_due_and_plans_anew(built: Path) -> None:
    from logos.ninja_run import find_ninja

    def ninja() -> str:
        ran = subprocess.run(
            [find_ninja(), "-C", "build/.logos"], cwd=built, env=environment(), capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    assert "no work to do" in ninja()
    text = (built / "p.lg").read_text()
    (built / "p.lg").write_text(text.replace("2.5", "4.5"))
    said = ninja()
    assert "plan the build" in said
    assert "extract raw of p for toy" in said
    assert "no work to do" in ninja()
    assert (built / "build/p/toy/raw/W.f32").read_bytes()[:4] == bytes.fromhex("00009040")
    (built / "p.lg").unlink()
    ran = subprocess.run(
        [find_ninja(), "-C", "build/.logos"], cwd=built, env=environment(), capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "[unknown-member]" in ran.stdout
