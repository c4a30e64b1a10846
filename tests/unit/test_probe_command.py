"""`logos probe`, and options that name files: read by LOGOS, relative to what names them, true inputs of a build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_build import Ran, Toy

from logos import Artifact
from logos_sambaflow.target import SambaflowTarget

PROGRAM = "Let x be a 1 by 2 tensor of Real.\nLet y be silu of x.\n"
SUPPORT = """\
schema = "logos.sambaflow.support"
version = 1

[operator.silu.float32]
finding = "{finding}"
"""


def test_the_probes_are_written_and_written_again_only_where_they_change(toy: Toy) -> None:
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes")
    written = toy.tree("probes")
    assert (ran.code, ran.out) == (0, f"probes: {len(written)} files, {len(written)} of them changed\n")
    assert {"run_probes.py", "probes.json", "spellings/silu-float32/module.py"} <= set(written)
    toy.write("probes/operators/add-int32/module.py", "edited")
    before = (toy.folder / "probes/run_probes.py").stat().st_mtime_ns
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes")
    assert ran.out == f"probes: {len(written)} files, 1 of them changed\n"
    assert (toy.folder / "probes/run_probes.py").stat().st_mtime_ns == before
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes", "--json")
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert [record["file"] for record in records] == [f"probes/{record['file'][7:]}" for record in records]
    assert {record["file"][7:] for record in records} == set(written)
    assert not any(record["changed"] for record in records)


def test_a_target_without_probes_is_refused_by_name_with_those_that_have(toy: Toy) -> None:
    ran = toy.logos("probe", "--target", "toy", "-o", "probes")
    assert ran.code == 1
    assert ran.err == (
        "target toy: the target toy has no probes [no-probes]\n  next: probe a target that has: rdu-sambaflow\n"
    )
    assert not (toy.folder / "probes").exists()


def test_options_of_a_probe_are_checked(toy: Toy) -> None:
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes", "-D", "dtipe=float32")
    assert ran.code == 1
    assert ran.err.startswith(
        "-D dtipe: target rdu-sambaflow has no option dtipe; did you mean dtype? [unknown-option]"
    )
    assert not (toy.folder / "probes").exists()


def test_a_probe_outside_its_folder_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SambaflowTarget, "probes", lambda self, options: (Artifact("../run.py", ""),))
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes")
    assert ran.code == 1
    assert ran.err.startswith(
        "target rdu-sambaflow: target rdu-sambaflow wants to write '../run.py', which does not stay inside the "
        "artifact's folder [bad-artifact-path]\n"
    )
    assert not (toy.folder / "run.py").exists()


def test_a_folder_that_cannot_be_made_is_refused(toy: Toy) -> None:
    toy.write("probes", "in the way")
    ran = toy.logos("probe", "--target", "rdu-sambaflow", "-o", "probes")
    assert (ran.code, "[unwritable-file]" in ran.err) == (1, True)


@pytest.fixture
def member(toy: Toy) -> Path:
    """A project in a folder of its own, its support.toml beside its logos.toml, called from above."""
    toy.write("member/silu.lg", PROGRAM)
    toy.write("member/support.toml", SUPPORT.format(finding="verified"))
    toy.write(
        "member/logos.toml",
        '[project]\nname = "silu"\nprogram = "silu.lg"\n[target.rdu-sambaflow]\nsupport = "support.toml"\n',
    )
    return toy.folder / "member"


def spelled(folder: Path) -> str:
    (line,) = [line.strip() for line in (folder / "model.py").read_text("utf-8").splitlines() if "  y = " in line]
    return line.partition("(")[0]


def built(toy: Toy, *arguments: str) -> Ran:
    ran = toy.build("member", *arguments)
    assert (ran.code, ran.err) == (0, "")
    return ran


def test_the_file_is_relative_to_the_logos_toml_and_its_change_builds_its_artifact_anew(toy: Toy, member: Path) -> None:
    artifact = member / "build/silu/rdu-sambaflow"
    built(toy)
    assert spelled(artifact) == "y = silu"
    assert "nothing to do: 1 artifact up to date" in built(toy).out
    (member / "support.toml").write_text(SUPPORT.format(finding="failed"), encoding="utf-8")
    assert "built 1 artifact in 1 step" in built(toy).out
    assert spelled(artifact) == "y = silu_by_softmax"
    (member / "support.toml").write_text(SUPPORT.format(finding="failed") + "\n# seen\n", encoding="utf-8")
    assert "nothing to do: 1 artifact up to date" in built(toy).out
    manifest = (artifact / "manifest.json").read_text("utf-8")
    assert str(toy.folder) not in manifest


def test_a_change_of_the_file_touches_no_other_artifact(toy: Toy, member: Path) -> None:
    toy.write("other/silu.lg", PROGRAM)
    toy.write("other/logos.toml", '[project]\nname = "other"\nprogram = "silu.lg"\n[target.rdu-sambaflow]\n')
    toy.write("logos.toml", '[workspace]\nmembers = ["member", "other"]\n')
    assert "built 2 artifacts in 2 steps" in toy.build().out
    (member / "support.toml").write_text(SUPPORT.format(finding="failed"), encoding="utf-8")
    assert "  emit silu for rdu-sambaflow\n" in toy.build("--dry-run").out
    assert "built 2 artifacts in 1 step" in toy.build().out
    assert spelled(toy.folder / "build/silu/rdu-sambaflow") == "y = silu_by_softmax"
    assert spelled(toy.folder / "build/other/rdu-sambaflow") == "y = silu"


def test_the_file_of_the_command_line_is_relative_to_here_and_none_takes_it_away(toy: Toy, member: Path) -> None:
    toy.write("other.toml", SUPPORT.format(finding="wrong"))
    artifact = member / "build/silu/rdu-sambaflow"
    built(toy, "-D", "support=other.toml")
    assert spelled(artifact) == "y = silu_by_softmax"
    built(toy, "-D", "support=none")
    assert spelled(artifact) == "y = silu"


def test_a_step_by_itself_reads_the_same_file(toy: Toy, member: Path) -> None:
    record = json.loads(toy.logos("deps", "member", "--json").out)
    (step,) = [step for step in record["steps"] if step["step"].startswith("emit")]
    assert str(member / "support.toml") in step["inputs"]
    assert f"support={member / 'support.toml'}" in step["command"]


def test_a_file_that_is_not_there_is_refused_at_its_key(toy: Toy, member: Path) -> None:
    (member / "support.toml").unlink()
    ran = toy.build("member")
    assert (ran.code, ran.err) == (
        1,
        "member/logos.toml:5:1: target.rdu-sambaflow.support: cannot read member/support.toml, which option support of "
        "target rdu-sambaflow names: No such file or directory [unreadable-file]\n"
        '    support = "support.toml"\n    ^^^^^^^\n  next: name a file that exists and may be read\n',
    )


def test_a_file_that_is_no_utf_8_is_refused_at_its_byte(toy: Toy, member: Path) -> None:
    (member / "support.toml").write_bytes(b'schema = "\xff"\n')
    ran = toy.build("member")
    assert ran.code == 1
    assert ran.err.startswith("member/support.toml:1:11: byte 10 (0xff) is not UTF-8 [not-utf-8]\n")
    assert ran.err.endswith("next: save the file as UTF-8\n")


def test_what_names_a_file_is_text(toy: Toy, member: Path) -> None:
    text = (member / "logos.toml").read_text("utf-8").replace('"support.toml"', "3")
    (member / "logos.toml").write_text(text, encoding="utf-8")
    ran = toy.build("member")
    assert ran.code == 1
    assert "option support of target rdu-sambaflow is 3; the path of a file is due [option-type]" in ran.err


def test_an_unsound_support_toml_stops_the_build_before_anything_is_written(toy: Toy, member: Path) -> None:
    (member / "support.toml").write_text("schema = 1\n", encoding="utf-8")
    ran = toy.build("member")
    assert (ran.code, "member/support.toml:1:1: schema: it is no support.toml" in ran.err) == (1, True)
    assert not (member / "build").exists()
