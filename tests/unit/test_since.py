"""--since: members whose inputs changed since a git revision, no others; what git does not know counts as changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from toy_build import PROGRAM, Toy

from logos.changes import Changes
from logos.manager import make_manager
from logos.refusal import Refused
from logos.selection import Flags, select
from logos.since import changed_since

MEMBER = '[project]\nname = "{name}"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\n'


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "a step")


@pytest.fixture
def repository(toy: Toy) -> Path:
    """Members a, b and c, committed."""
    for name in "abc":
        toy.write(f"{name}/p.lg", PROGRAM)
        toy.write(f"{name}/logos.toml", MEMBER.format(name=name))
    toy.write("logos.toml", '[workspace]\nmembers = ["*"]\nversions = ["uv.lock"]\n')
    toy.write("uv.lock", "logos-build 1\n")
    toy.write(".gitignore", "build\nignored*\n")
    git(toy.folder, "init", "-q")
    commit(toy.folder)
    return toy.folder


def changed(*names: str, since: str = "HEAD", **flags: object) -> dict[str, str]:
    """Each changed order's name, and what of it changed."""
    selection = select(names, Flags(**flags))  # type: ignore[arg-type]
    narrowed, reasons = changed_since(make_manager(), selection, since)
    assert [order.title for order in narrowed.orders] == list(reasons)
    return {title.partition(" ")[0]: reason for title, reason in reasons.items()}


def test_nothing_changed(repository: Path) -> None:
    (repository / "a/p.lg").touch()
    (repository / "unrelated").write_text("")
    assert changed() == {}
    assert changed("a", "b") == {}


def test_each_kind_of_input_counts(repository: Path) -> None:
    (repository / "a/p.lg").write_text(PROGRAM.replace("2.5", "3"))
    assert changed() == {"a": "a/p.lg"}
    git(repository, "add", "-A")
    assert changed() == {"a": "a/p.lg"}
    commit(repository)
    assert changed() == {}
    assert changed(since="HEAD~1") == {"a": "a/p.lg"}
    (repository / "b/logos.toml").write_text(MEMBER.format(name="b") + 'style = "fancy"\n')
    assert changed() == {"b": "b/logos.toml"}
    assert changed("a", "c") == {}


def test_a_member_that_is_new_counts(repository: Path) -> None:
    shutil.copytree(repository / "a", repository / "d")
    (repository / "d/logos.toml").write_text(MEMBER.format(name="d"))
    assert changed() == {"d": "d/logos.toml"}
    commit(repository)
    assert changed(since="HEAD~1") == {"d": "d/logos.toml"}


def test_files_of_options_and_checkpoints_count(repository: Path, oracles: Path) -> None:
    gguf = oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf"
    shutil.copy(gguf, repository / "b/model.gguf")
    (repository / "a/support.toml").write_text("")
    table = '[target.rdu-sambaflow]\nsupport = "support.toml"\n'
    (repository / "a/logos.toml").write_text('[project]\nname = "a"\nprogram = "p.lg"\n' + table)
    authored = '[project]\nname = "b"\nauthor = { checkpoint = "model.gguf" }\n[target.toy]\n'
    (repository / "b/logos.toml").write_text(authored)
    commit(repository)
    assert changed() == {}
    (repository / "a/support.toml").write_text("# other\n")
    with open(repository / "b/model.gguf", "ab") as file:
        file.write(b"\0")
    assert changed() == {"a": "a/support.toml", "b": "b/model.gguf"}


def test_a_file_that_joins_or_leaves_a_weight_folder_counts(repository: Path) -> None:
    (repository / "w").mkdir()
    for name in ("W.f32", "V.f32"):
        (repository / "w" / name).write_bytes(bytes(24))
    commit(repository)
    assert changed("a", weights=Path("w")) == {}
    (repository / "w/V.f32").unlink()
    assert changed("a", weights=Path("w")) == {"a": "w"}
    commit(repository)
    assert changed("a", weights=Path("w")) == {}
    (repository / "w/ignored.f32").write_bytes(bytes(24))
    assert changed("a", weights=Path("w")) == {"a": "w"}


def test_what_all_members_depend_on_counts_for_all(repository: Path) -> None:
    (repository / "uv.lock").write_text("logos-build 2\n")
    assert changed() == dict.fromkeys("abc", "uv.lock")
    git(repository, "checkout", "uv.lock")
    (repository / "logos.toml").write_text('[workspace]\nmembers = ["a", "b"]\n')
    assert changed() == dict.fromkeys("ab", "logos.toml")


@pytest.mark.parametrize("hidden", ["ignored", "link", "outside", "overlooked", "sparse"])
def test_what_git_does_not_compare_counts_as_changed(repository: Path, tmp_path: Path, hidden: str) -> None:
    name = {"ignored": "ignored.lg", "link": "link.lg", "outside": "../../outside.lg"}.get(hidden, "p.lg")
    if hidden == "link":
        (repository / "a/link.lg").symlink_to("p.lg")
    elif name != "p.lg":
        (repository / "a" / name).write_text(PROGRAM)
    (repository / "a/logos.toml").write_text(MEMBER.format(name="a").replace("p.lg", name))
    commit(repository)
    if name == "p.lg":
        flag = "--assume-unchanged" if hidden == "overlooked" else "--skip-worktree"
        git(repository, "update-index", flag, "a/p.lg")
        (repository / "a/p.lg").write_text(PROGRAM.replace("2.5", "3"))
    assert changed() == {"a": os.path.relpath(repository / "a" / name)}


def test_settings_of_git_s_user_change_nothing(repository: Path) -> None:
    for setting in ("diff.relative=true", "diff.external=false", "core.quotePath=true", "status.renames=true"):
        git(repository, "config", *setting.split("="))
    name = "größe 模型\t.lg"
    (repository / "a" / name).write_text(PROGRAM)
    commit(repository)
    found = Changes("HEAD", repository / "a")
    assert not found.changed(repository / "a" / name)
    (repository / "a" / name).write_text("")
    assert Changes("HEAD", repository / "a").changed(repository / "a" / name)


def test_a_build_of_which_nothing_changed_writes_nothing(toy: Toy, repository: Path) -> None:
    ran = toy.build("--since", "HEAD")
    assert (ran.code, ran.out, ran.err) == (0, "nothing to do\n", "0 of 3 artifacts changed since HEAD\n")
    assert not (repository / "build").exists()


def test_a_depfile_names_what_was_looked_at_though_nothing_changed(toy: Toy, repository: Path) -> None:
    for name, target in (("a", "toy"), ("b", "nowhere")):
        toy.write(f"{name}/weights/deep/W.f32", "")
        toy.write(f"{name}/support.toml", "")
        table = f'[target.{target}]\n' + ('[target.rdu-sambaflow]\nsupport = "support.toml"\n' if name == "a" else "")
        toy.write(f"{name}/logos.toml", MEMBER.format(name=name).replace("[target.toy]\n", table))
    commit(repository)
    ran = toy.build("a", "--weights", "a/weights", "--since", "HEAD", "--depfile", "made.d")
    assert (ran.code, ran.out) == (0, "nothing to do\n")
    text = toy.folder.joinpath("made.d").read_text()
    assert text.startswith("made: ")
    named = {os.path.relpath(path, repository) for path in text.removeprefix("made:").replace("\\\n", "").split()}
    inside = {"logos.toml", "uv.lock", "a/p.lg", "a/weights", "a/weights/deep/W.f32", "a/support.toml", "c/logos.toml"}
    assert inside <= named
    assert "b/p.lg" not in named
    assert {"since.py", "toy_plugin.py"} <= {os.path.basename(path) for path in named}
    assert not (repository / "build").exists()


@pytest.mark.slow
def test_a_depfile_with_since_names_what_was_not_built_too(toy: Toy, repository: Path) -> None:
    toy.write("a/p.lg", PROGRAM.replace("2.5", "3"))
    assert "built 1 artifact" in toy.build("--since", "HEAD", "--depfile", "made.d").out
    text = (repository / "made.d").read_text()
    assert all(str(repository / path) in text for path in ("a/p.lg", "b/p.lg", "build/a/toy/program.txt"))
    assert str(repository / "build/b") not in text


@pytest.mark.slow
def test_a_build_makes_what_changed_and_that_alone(toy: Toy, repository: Path) -> None:
    assert toy.build("-q").code == 0
    before = {path: path.stat().st_mtime_ns for path in (repository / "build").glob("*/toy/*")}
    toy.write("b/p.lg", PROGRAM.replace("y be", "z be") + "Let y be silu of z.\n")
    toy.write("c/p.lg", PROGRAM + "Let z be silu of y.\n")
    ran = toy.build("b", "c", "--since", "HEAD", "-v")
    assert ran.err.startswith("2 of 2 artifacts changed since HEAD\n  b for toy: b/p.lg\n  c for toy: c/p.lg\n")
    assert "built 2 artifacts in 2 steps\n" in ran.out
    after = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert {path.parts[-3] for path in after} == {"b", "c"}
    commit(repository)
    assert toy.build("--since", "HEAD", "--json").out == '{"event": "built", "schema": 1, "artifacts": 0, "steps": 0}\n'
    shown = toy.logos("deps", "--since", "HEAD~1", "--json").out.splitlines()
    assert [json.loads(line)["name"] for line in shown] == ["b", "c"]
    assert "nothing to do: 3 artifacts up to date" in toy.build().out


@pytest.mark.slow
def test_other_code_than_an_artifact_s_last_build_ran_counts(toy: Toy, repository: Path) -> None:
    assert toy.build("a", "b", "-q").code == 0
    record = repository / "build/.logos/made.json"
    whole = json.loads(record.read_text())
    whole["code"][os.fspath(repository / "build/a/toy")] = "of another version"
    record.write_text(json.dumps(whole))
    assert changed() == {"a": "LOGOS or a plugin"}
    assert toy.build("--since", "HEAD", "-q").code == 0
    assert changed() == {}


@pytest.mark.slow
def test_a_moved_commit_is_asked_for_again(toy: Toy, repository: Path) -> None:
    """No account of a finished build is believed with --since: the revision's name may mean another commit by now."""
    toy.write("a/p.lg", PROGRAM.replace("2.5", "3"))
    commit(repository)
    assert "built 1 artifact" in toy.build("--since", "HEAD~1").out
    toy.write("b/p.lg", PROGRAM.replace("2.5", "4"))
    git(repository, "reset", "-q", "--soft", "HEAD~1")
    commit(repository)
    assert "built 2 artifacts in 1 step" in toy.build("--since", "HEAD~1").out


def refused(toy: Toy, *arguments: str) -> str:
    ran = toy.build(*arguments)
    assert (ran.code, ran.out) == (1, "")
    return ran.err


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "HEAD:a/p.lg", "HEAD~99", "a\nb", ""])
def test_an_unknown_revision_is_refused(toy: Toy, repository: Path, revision: str) -> None:
    told = refused(toy, f"--since={revision}")
    assert "[unknown-revision]\n  next: give a commit, branch or tag of this repository; a shallow clone" in told
    assert not (repository / "x").exists()


def test_outside_of_git_it_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(toy.folder.parent))
    told = refused(toy, "p.lg", "--target", "toy", "--since", "HEAD")
    assert told.startswith(".: git finds no repository here: not a git repository")
    assert "[not-a-repository]\n  next: run in a folder of a git repository, or build without --since" in told


def test_without_git_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(Refused) as error:
        Changes("HEAD", tmp_path)
    assert error.value.refusals[0].text() == (
        "--since: --since asks git, which is not installed [no-git]\n  next: install git, or build without --since"
    )
