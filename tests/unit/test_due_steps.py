"""What a change makes again: just its steps; and a dry run says beforehand which."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from process import PLUGIN, logos, workspace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A built workspace with a copy of the toy plugin of its own."""
    shutil.copytree(PLUGIN, tmp_path / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    folder = workspace(tmp_path / "work")
    (folder / "given").mkdir()
    (folder / "given/W.f32").write_bytes(b"\0" * (4 * 64 * 64))
    run(folder, "build")
    return folder


def run(folder: Path, *arguments: str) -> list[str]:
    """The lines that a command prints to standard output."""
    ran = logos(folder, *arguments, changes={"PYTHONPATH": os.fspath(folder.parent / "plugin")})
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return ran.stdout.splitlines()


def events(folder: Path, kind: str, *flags: str) -> list[dict[str, object]]:
    found = map(json.loads, run(folder, "build", "--json", *flags))
    return [event for event in found if event["event"] == kind]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def upgrade(folder: Path) -> None:
    edit(folder.parent / "plugin/toy_plugin.py", 'f"{node.line}: {node.op.name}"', 'f"{node.line} = {node.op.name}"')


A, B = "for toy", "for rdu-sambaflow"
CHANGES: tuple[tuple[Callable[[Path], object], list[str]], ...] = (
    (lambda f: edit(f / "a/p.lg", "Let y be x matmul W.\n", "Let y be x matmul W.\nLet z be silu of y.\n"),
     [f"emit a {A}", f"copy copy.txt of a {A}"]),
    (lambda f: edit(f / "a/p.lg", "to 1.0", "to 3.0"), [f"extract raw of a {A}"]),
    (lambda f: edit(f / "b/p.lg", "to 1.0", "to 3.0"), [f"emit b {B}", f"extract weights.safetensors of b {B}"]),
    (lambda f: edit(f / "a/logos.toml", '"copy"', '"copy"\nstyle = "fancy"'),
     [f"emit a {A}", f"copy copy.txt of a {A}"]),
    (lambda f: edit(f / "a/logos.toml", '"copy"', '"copy"\npath = "other.txt"'), [f"emit a {A}"]),
    (lambda f: edit(f / "b/logos.toml", "[target.rdu-sambaflow]", '[target.rdu-sambaflow]\ndtype = "float32"'), []),
    (lambda f: edit(f / "logos.toml", "[workspace]", "# the whole\n[workspace]"), []),
    (lambda f: edit(f / "a/p.lg", "Let y", "\n\n# the one step\nLet y"), [f"emit a {A}", f"copy copy.txt of a {A}"]),
    (upgrade, [f"emit a {A}", f"copy copy.txt of a {A}", f"extract raw of a {A}"]),
    (lambda f: [os.utime(path) for path in f.rglob("*") if path.is_file() and "build" not in path.parts], []),
    (lambda f: [os.utime(path) for path in f.parent.rglob("*.py")], []),
)  # fmt: skip


@pytest.mark.slow
def test_a_change_makes_its_own_steps_due_and_no_others(place: Path) -> None:
    for number, (change, due) in enumerate(CHANGES):
        change(place)
        dry = events(place, "planned", "--dry-run")
        planned = [step for event in dry for step in event["steps"]]  # type: ignore[attr-defined]
        assert sorted(planned) == sorted(due), f"change {number}, foreseen"
        assert sorted(str(event["step"]) for event in events(place, "step")) == sorted(due), f"change {number}"
    assert "nothing to do: 2 artifacts up to date" in run(place, "build")
    assert "nothing to do: 2 artifacts up to date" in run(place, "build", "--dry-run")


def test_a_weight_file_that_was_touched_is_the_file_it_was(place: Path) -> None:
    flags = ("a", "--weights", "given")
    run(place, "build", *flags)
    os.utime(place / "given/W.f32")
    assert events(place, "step", *flags) == []
    (place / "given/W.f32").write_bytes(b"\1" * (4 * 64 * 64))
    assert [event["step"] for event in events(place, "step", *flags)] == ["extract raw of a for toy"]


def test_a_plugin_s_upgrade_leaves_other_targets_artifacts(place: Path) -> None:
    before = (place / "build/b/rdu-sambaflow/model.py").stat().st_mtime_ns
    edit(place.parent / "plugin/toy_plugin.py", 'yield Refusal("toy-refusal"', 'yield  Refusal("toy-refusal"')
    steps = [str(event["step"]) for event in events(place, "step")]
    assert not any(step.startswith("emit") for step in steps)
    assert (place / "build/b/rdu-sambaflow/model.py").stat().st_mtime_ns == before
