"""logos.toml: what it says, and every wrong key by its dotted name and line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logos.author import Author
from logos.project import Project
from logos.project_file import read_workspace
from logos.refusal import Refused
from logos.source import Source
from logos.toml_places import key_places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GOOD = """\
[project]
name = "small"
program = "small.lg"
checkpoint = "../models/small.gguf"
family = "llama"
out = "made here"

[weights]
Wq0 = "blk.0.attn_q.weight"

[target.rdu-sambaflow]
dtype = "bfloat16"
outputs = ["logits", "next"]
"""


def read(folder: Path, text: str) -> Project:
    file = folder / "logos.toml"
    file.write_text(text, encoding="utf-8", newline="")
    (project,) = read_workspace(file).projects
    return project


def messages(folder: Path, text: str) -> list[str]:
    """Each refusal as `line dotted: what [code]`."""
    with pytest.raises(Refused) as refused:
        read(folder, text)
    prefix = f"{folder / 'logos.toml'}"
    return [refusal.text().split("\n")[0].removeprefix(prefix).lstrip(":") for refusal in refused.value.refusals]


def test_a_project_is_read_with_paths_relative_to_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "a $b: 'ü'"
    folder.mkdir()
    project = read(folder, GOOD)
    assert project.name == "small"
    assert project.program == folder / "small.lg"
    assert project.checkpoint == folder / "../models/small.gguf"
    assert project.family == "llama"
    assert project.out == folder / "made here"
    assert project.weights == {"Wq0": "blk.0.attn_q.weight"}
    assert project.targets == {"rdu-sambaflow": {"dtype": "bfloat16", "outputs": ["logits", "next"]}}


def test_the_place_of_an_option_is_its_dotted_name_and_line(tmp_path: Path) -> None:
    place = read(tmp_path, GOOD).place("target", "rdu-sambaflow", "outputs")
    assert place.label() == f"{tmp_path / 'logos.toml'}:13:1: target.rdu-sambaflow.outputs"
    assert place.excerpt() == ('outputs = ["logits", "next"]', "^^^^^^^")


def test_a_key_that_is_not_there_has_the_place_of_its_table(tmp_path: Path) -> None:
    place = read(tmp_path, GOOD).place("target", "rdu-sambaflow", "weights")
    assert place.label() == f"{tmp_path / 'logos.toml'}:11:2: target.rdu-sambaflow"


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    project = read(tmp_path, "\ufeff" + GOOD.replace("\n", "\r\n"))
    assert project.place("project", "family").label().endswith("logos.toml:5:1: project.family")


def test_an_author_stands_for_a_program(tmp_path: Path) -> None:
    text = '[project]\nname = "m"\nauthor = { checkpoint = "m.gguf", context = 256, layers = 2 }\n'
    project = read(tmp_path, text)
    assert project.program is None
    assert project.author == Author(tmp_path / "m.gguf", 256, 2)


def test_everything_wrong_is_said_at_once_in_order_of_line(tmp_path: Path) -> None:
    text = """\
[project]
nam = "m"
program = "m.lg"
family = 3
out = ""
author = { checkpoint = "q", contxt = 3, layers = 0, context = true }
[weights]
Wq0 = 1.5
[target]
cuda = "sm_80"
[targets.cuda]
arch = 2026-01-01
"""
    assert messages(tmp_path, text) == [
        "1:2: project: [project] has no name [missing-key]",
        "2:1: project.nam: unknown key [unknown-key]",
        "4:1: project.family: an integer is the wrong type [wrong-type]",
        "5:1: project.out: an empty string is the wrong type [wrong-type]",
        "6:1: project.author: program and author exclude each other: a project has one program [conflicting-keys]",
        "6:30: project.author.contxt: unknown key [unknown-key]",
        "6:42: project.author.layers: 0 is no count [bad-value]",
        "6:54: project.author.context: a boolean is the wrong type [wrong-type]",
        "8:1: weights.Wq0: a number is the wrong type [wrong-type]",
        "10:1: target.cuda: a string is the wrong type [wrong-type]",
        "11:2: targets: unknown key [unknown-key]",
    ]


def test_an_unknown_key_is_answered_with_the_nearest_known(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        read(tmp_path, '[project]\nname = "m"\nprogram = "m.lg"\ncheckpont = "x"\n')
    (refusal,) = refused.value.refusals
    assert refusal.text() == (
        f"{tmp_path / 'logos.toml'}:4:1: project.checkpont: unknown key [unknown-key]\n"
        '    checkpont = "x"\n'
        "    ^^^^^^^^^\n"
        "  next: did you mean checkpoint? known here: name, program, author, checkpoint, family, out"
    )


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\\\b", "-x", "a\\nb", "x" * 201])
def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    (message,) = messages(tmp_path, f'[project]\nname = "{name}"\nprogram = "m.lg"\n')
    assert message.startswith("2:1: project.name: ")
    assert message.endswith(" cannot name a folder [bad-value]")


def test_a_syntax_error_has_its_line_and_column(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, '[project]\nname = "m\n')
    assert message.startswith("2:10: not TOML: ")
    assert message.endswith(" [bad-toml]")


def test_deep_nesting_is_refused_not_a_crash(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, "a = " + "[" * 100_000)
    assert message.endswith("[bad-toml]")


def test_a_number_of_too_many_digits_is_refused_not_a_crash(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, "a = " + "1" * 10_000)
    assert message.endswith("[bad-toml]")


def test_a_file_without_a_project_says_what_to_add(tmp_path: Path) -> None:
    assert messages(tmp_path, "") == [" logos.toml has no [project] [missing-key]"]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        read_workspace(tmp_path / "logos.toml")
    assert [refusal.code for refusal in refused.value.refusals] == ["unreadable-file"]


def test_a_file_that_is_not_utf_8_is_refused_at_its_byte(tmp_path: Path) -> None:
    (tmp_path / "logos.toml").write_bytes(b'[project]\nname = "\xff"\n')
    with pytest.raises(Refused) as refused:
        read_workspace(tmp_path / "logos.toml")
    (refusal,) = refused.value.refusals
    assert refusal.code == "not-utf-8"
    assert refusal.where is not None
    assert refusal.where.label() == f"{tmp_path / 'logos.toml'}:2:9"


def test_files_that_are_not_there_are_named_with_their_key(tmp_path: Path) -> None:
    project = read(tmp_path, '[project]\nname = "m"\nprogram = "."\ncheckpoint = "m.gguf"\n')
    assert [refusal.text().split("\n")[0] for refusal in project.missing_files()] == [
        f"{tmp_path / 'logos.toml'}:3:1: project.program: {tmp_path} is a folder [missing-file]",
        f"{tmp_path / 'logos.toml'}:4:1: project.checkpoint: {tmp_path / 'm.gguf'} is not there [missing-file]",
    ]


def member(root: Path, name: str, text: str | None = None) -> None:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "logos.toml").write_text(text or f'[project]\nname = "{Path(name).name}"\nprogram = "m.lg"\n')


def workspace(root: Path, members: str) -> list[str]:
    (root / "logos.toml").write_text(f"[workspace]\nmembers = {members}\n")
    return [project.name for project in read_workspace(root / "logos.toml").projects]


def test_members_come_in_the_order_given_and_a_pattern_s_by_name(tmp_path: Path) -> None:
    for name in ("examples/b", "examples/a", "z"):
        member(tmp_path, name)
    (tmp_path / "examples/no-project").mkdir()
    assert workspace(tmp_path, '["z", "examples/*", "examples/a"]') == ["z", "a", "b"]


def test_a_member_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    member(tmp_path, "a")
    with pytest.raises(Refused) as refused:
        workspace(tmp_path, '["a", "b", "c*"]')
    assert [(refusal.code, refusal.what) for refusal in refused.value.refusals] == [
        ("missing-file", "'b' matches no folder that holds a logos.toml"),
        ("missing-file", "'c*' matches no folder that holds a logos.toml"),
    ]


def test_what_is_excluded_is_no_member(tmp_path: Path) -> None:
    for name in ("examples/a", "examples/b", "examples/old-c", "z"):
        member(tmp_path, name)
    assert workspace(tmp_path, '["examples/*", "./z"]\nexclude = ["examples/old-*", "examples/b/", "z"]') == ["a"]


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ('["a", "**/a"]', "bad-value"),
        ('["a"]\nexclude = 3', "wrong-type"),
        ('["a"]\nversions = [""]', "wrong-type"),
        ('["a"]\nversions = ["uv.lock"]', "missing-file"),
    ],
)
def test_patterns_and_files_of_a_workspace_that_will_not_do(tmp_path: Path, table: str, code: str) -> None:
    member(tmp_path, "a")
    with pytest.raises(Refused) as refused:
        workspace(tmp_path, table)
    assert [refusal.code for refusal in refused.value.refusals] == [code]


def test_the_faults_of_every_member_are_said_at_once(tmp_path: Path) -> None:
    member(tmp_path, "a", '[project]\nname = "a"\n')
    member(tmp_path, "b", "[project")
    member(tmp_path, "c", '[workspace]\nmembers = ["d"]\n[project]\nname = "c"\nprogram = "m.lg"\n')
    with pytest.raises(Refused) as refused:
        workspace(tmp_path, '["a", "b", "c"]')
    assert [refusal.code for refusal in refused.value.refusals] == ["missing-key", "bad-toml", "bad-value"]


def test_a_workspace_may_have_a_project_of_its_own(tmp_path: Path) -> None:
    member(tmp_path, "a")
    assert workspace(tmp_path, '["a"]\n[project]\nname = "root"\nprogram = "m.lg"') == ["root", "a"]


@pytest.mark.parametrize("members", ["3", '"a"', "[1]"])
def test_members_must_be_an_array_of_strings(tmp_path: Path, members: str) -> None:
    with pytest.raises(Refused) as refused:
        workspace(tmp_path, members)
    assert [refusal.code for refusal in refused.value.refusals] == ["wrong-type"]


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def table_of(pairs: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + " }"


def array_of(items: list[str]) -> str:
    return "[\n" + ",\n".join(items) + " # c ]\n]"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
KEY = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True), TEXT.map(quoted), st.sampled_from(["'a = b'", '"#"'])
)
SIMPLE = ("1", "-2.5", "true", "1979-05-27", "'a = 1 # ['", '"""x\n[y]\nz = 1\n"""', "'''\nq = 1\n'''")
VALUE = st.recursive(
    st.one_of(st.sampled_from(SIMPLE), TEXT.map(quoted)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(array_of), st.dictionaries(KEY, inner, max_size=3).map(table_of)
    ),
    max_leaves=6,
)
PAIRS = st.lists(st.tuples(st.lists(KEY, min_size=1, max_size=2).map(".".join), VALUE), max_size=4).map(
    lambda pairs: "".join(f"{key} = {value}\n" for key, value in pairs)
)
TABLES = st.lists(st.tuples(st.lists(KEY, min_size=1, max_size=3).map(" . ".join), PAIRS), max_size=4).map(
    lambda tables: "".join(f"[{key}] # c\n{text}" for key, text in tables)
)


def key_paths(value: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not isinstance(value, dict):
        return {path}
    return {path} | {found for key, inner in value.items() for found in key_paths(inner, (*path, key))}


@given(PAIRS, TABLES)
def test_every_key_of_a_document_has_its_place(pairs: str, tables: str) -> None:
    source = Source("x.toml", pairs + tables)
    try:
        values = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError:
        assume(False)
    places = key_places(source)
    assert key_paths(values) - {()} <= set(places)
    for path, place in places.items():
        span = place.span
        text = source.lines[span.line - 1][span.column - 1 :][: span.length]
        assert any(name in text for name in (path[-1], quoted(path[-1])))


PIECES = st.one_of(
    st.text(max_size=3),
    st.sampled_from(['"', "'", '"""', "[", "]", "{", "}", "=", ".", "\n", "[project]\n", "\\", "1e9999", "\x00"]),
)
EDITS = st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 6), PIECES), min_size=1, max_size=4)


@given(EDITS)
def test_a_mutated_file_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, str]]
) -> None:
    text = GOOD
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    file = tmp_path_factory.getbasetemp() / "logos.toml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_workspace(file)
    except Refused as refused:
        found = refused.refusals
    else:
        found = ()
    assert all(refusal.what and refusal.next and refusal.where for refusal in found)
