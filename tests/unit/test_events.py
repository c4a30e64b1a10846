"""Every line that builds print with --json is an event of the schema that LOGOS installs."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from toy_build import Ran, Toy

from logos.cli.events import EVENTS

SCHEMA = json.loads((files("logos") / "schemas/events.json").read_text("utf-8"))
KINDS = {one["properties"]["event"]["const"] for one in SCHEMA["oneOf"]}


def events(ran: Ran) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ran.out.splitlines()]
    for event in found:
        jsonschema.validate(event, SCHEMA)
    return found


def test_the_schema_is_a_schema_of_this_version() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {one["properties"]["schema"]["const"] for one in SCHEMA["oneOf"]} == {EVENTS}


def test_a_build_s_events_are_those_of_the_schema(toy: Toy) -> None:
    build = ("p.lg", "--target", "toy", "--family", "toy", "--json", "-D", "weights=raw")
    seen = []
    for arguments in (
        ("build", *build, "--dry-run"),
        ("build", *build),
        ("build", *build),
        ("build", *build, "--dry-run"),
        ("build", *build, "-D", "tool=fail"),
        ("build", "nowhere.lg", "--target", "toy", "--json"),
        ("check", "nowhere.lg", "--json"),
        ("deps", *build, "-D", "tool=copy"),
    ):
        seen.append([event["event"] for event in events(toy.logos(*arguments))])
    assert seen == [
        ["planned"],
        ["step", "step", "artifact", "built"],
        ["artifact", "built"],
        ["planned"],
        ["step", "failed"],
        ["refusal"],
        ["refusal"],
        ["deps"],
    ]
    (toy.folder / "build/p/toy/raw/W.f32").unlink()
    (toy.folder / "build/p/toy/raw").rmdir()
    toy.write("build/p/toy/raw", "a file where a folder is due")
    assert [event["event"] for event in events(toy.logos("build", *build))] == ["step", "refused"]
    told = {kind for kinds in seen for kind in kinds} | {"refused"}
    told |= {"waiting", "fetched", "warning"}  # test_locks.py and the next test see these
    assert told == KINDS


@pytest.mark.slow
def test_the_events_of_a_build_with_a_cache(toy: Toy) -> None:
    build = ("build", "p.lg", "--target", "toy", "--family", "toy", "--json", "-D", "weights=raw", "--cache", "c")
    assert events(toy.logos(*build))[-1]["steps"] == 2
    files = [path for path in (toy.folder / "c/build/files").rglob("*") if path.is_file()]
    (file,) = [path for path in files if b"matmul" in path.read_bytes()]
    file.write_bytes(b"")
    found = events(toy.logos(*build, "--out", "other"))
    assert [event["event"] for event in found] == ["warning", "fetched", "step", "artifact", "built"]
    assert (found[-1]["steps"], found[-1]["fetched"]) == (1, 1)


@pytest.mark.parametrize("change", [{"schema": 2}, {"event": "rebuilt"}, {"more": 1}])
def test_the_schema_refuses_what_is_no_event(change: dict[str, object]) -> None:
    good = {"event": "built", "schema": 1, "artifacts": 1, "steps": 0}
    jsonschema.validate(good, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, **change}, SCHEMA)


def test_deps_name_every_file_that_a_step_reads_and_its_command_makes_it(toy: Toy) -> None:
    build = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "-D", "tool=copy")
    (event,) = events(toy.logos("deps", *build, "--json"))
    assert not (toy.folder / "build").exists()
    emit, extract, copy = event["steps"]
    out = toy.folder / "build/p/toy"
    assert [emit["inputs"], extract["inputs"], copy["inputs"]] == [
        [str(toy.folder / "p.lg")], [str(toy.folder / "p.lg")], [str(out / "program.txt")]
    ]  # fmt: skip
    assert copy["command"] == f"cp {out / 'program.txt'} {out / 'copy.txt'}"
    for step in (emit, extract):
        words = step["command"].split()
        assert toy.logos(*words[1:]).code == 0
    assert toy.tree() == ["p/toy/notes/counts.txt", "p/toy/program.txt", "p/toy/raw/W.f32"]
    assert toy.logos("deps", *build).out.splitlines()[:4] == [
        "p for toy → build/p/toy",
        "  emit p for toy",
        "    ← p.lg",
        "    → build/p/toy/program.txt",
    ]
