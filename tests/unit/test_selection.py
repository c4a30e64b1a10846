"""What arguments and project files select for a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from logos.refusal import Refused
from logos.selection import Flags, select

PROJECT = '[project]\nname = "{name}"\nprogram = "p.lg"\n{more}[target.toy]\n'


def project(folder: Path, name: str, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p.lg").write_text("")
    (folder / "logos.toml").write_text(PROJECT.format(name=name, more=more))


def workspace(root: Path) -> None:
    project(root / "a", "one")
    project(root / "b", "two", 'out = "../elsewhere"\n')
    (root / "logos.toml").write_text('[workspace]\nmembers = ["a", "b"]\n')


def chosen(here: Path, *names: str, **flags: object) -> dict[str, str]:
    """Each order's title and folder, relative to `here`."""
    selection = select(names, Flags(**flags), here)  # type: ignore[arg-type]
    return {order.title: order.folder.resolve().relative_to(here.resolve()).as_posix() for order in selection.orders}


def codes(here: Path, *names: str, **flags: object) -> list[str]:
    with pytest.raises(Refused) as refused:
        chosen(here, *names, **flags)
    return [refusal.code for refusal in refused.value.refusals]


def test_without_arguments_every_member_is_selected(tmp_path: Path) -> None:
    workspace(tmp_path)
    assert chosen(tmp_path) == {"one for toy": "build/one/toy", "two for toy": "elsewhere/two/toy"}


@pytest.mark.parametrize("name", ["one", "a", "./a", "a/p.lg"])
def test_a_member_is_named_by_name_folder_or_program(tmp_path: Path, name: str) -> None:
    workspace(tmp_path)
    assert chosen(tmp_path, name) == {"one for toy": "build/one/toy"}


def test_a_member_named_twice_is_built_once(tmp_path: Path) -> None:
    workspace(tmp_path)
    assert chosen(tmp_path, "one", "a", "a/p.lg") == {"one for toy": "build/one/toy"}


def test_a_folder_with_a_project_file_is_built_beside_it(tmp_path: Path) -> None:
    project(tmp_path / "else/where", "far")
    assert chosen(tmp_path, "else/where") == {"far for toy": "else/where/build/far/toy"}


def test_a_program_alone_takes_its_name_and_the_flags(tmp_path: Path) -> None:
    (tmp_path / "model.v2.lg").write_text("")
    assert chosen(tmp_path, "model.v2.lg", targets=("toy", "other")) == {
        "model.v2 for toy": "build/model.v2/toy",
        "model.v2 for other": "build/model.v2/other",
    }


def test_out_is_the_artifact_itself_for_one_program_and_one_target(tmp_path: Path) -> None:
    workspace(tmp_path)
    assert chosen(tmp_path, "one", out=tmp_path / "o") == {"one for toy": "o"}
    assert chosen(tmp_path, "one", "two", out=tmp_path / "o") == {
        "one for toy": "o/one/toy",
        "two for toy": "o/two/toy",
    }
    assert chosen(tmp_path, "one", targets=("x", "y"), out=tmp_path / "o") == {
        "one for x": "o/one/x",
        "one for y": "o/one/y",
    }


def test_ninja_s_files_lie_in_the_one_out_folder_of_all(tmp_path: Path) -> None:
    workspace(tmp_path)
    assert select((), Flags(), tmp_path).out == tmp_path / "build"
    assert select(("two",), Flags(), tmp_path).out == tmp_path / "b/../elsewhere"
    assert select(("two",), Flags(out=tmp_path / "o"), tmp_path).out == tmp_path / "o"


def test_no_project_file_is_refused(tmp_path: Path) -> None:
    assert codes(tmp_path) == ["no-project-file"]


def test_names_of_nothing_are_refused_together(tmp_path: Path) -> None:
    workspace(tmp_path)
    with pytest.raises(Refused) as refused:
        select(("onee", "c/p.lg", "a"), Flags(), tmp_path)
    assert [refusal.what for refusal in refused.value.refusals] == [
        "no program, no folder with a logos.toml and no project has this name; did you mean one?",
        "no program, no folder with a logos.toml and no project has this name",
    ]
    assert {refusal.code for refusal in refused.value.refusals} == {"unknown-member"}


def test_a_program_without_a_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text("")
    assert codes(tmp_path, "p.lg") == ["no-target"]


def test_missing_files_are_refused_together(tmp_path: Path) -> None:
    project(tmp_path, "x", 'checkpoint = "x.gguf"\n')
    (tmp_path / "p.lg").unlink()
    assert codes(tmp_path) == ["missing-file", "missing-file"]
    assert codes(tmp_path, checkpoint=tmp_path / "y.gguf") == ["missing-file", "missing-file"]


def test_a_member_that_is_not_selected_may_lack_its_files(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / "b/p.lg").unlink()
    assert chosen(tmp_path, "one") == {"one for toy": "build/one/toy"}


def test_two_projects_of_one_name_are_refused(tmp_path: Path) -> None:
    workspace(tmp_path)
    project(tmp_path / "b", "one")
    assert codes(tmp_path) == ["same-name"]


def test_a_path_that_cannot_be_printed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a\nb.lg").write_text("")
    assert codes(tmp_path, "a\nb.lg", targets=("toy",)) == ["bad-path", "bad-path"]
