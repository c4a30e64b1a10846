"""The JSON Schemas that LOGOS installs, against real files, and against what LOGOS itself refuses."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from logos import Refused, Spot, make_manager
from logos.cli.main import cli
from logos.cli.schema import NAMES
from logos.job import target_options
from logos.project_file import read_workspace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/sambaflow"


def schema(name: str) -> Any:
    return json.loads((files("logos") / f"schemas/{name}.json").read_text("utf-8"))


def printed(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, ["schema", *arguments])
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_is_printed_and_located(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert json.loads(printed(name)) == schema(name)
    assert json.loads(Path(printed(name, "--path").rstrip("\n")).read_text("utf-8")) == schema(name)
    assert f"{name}: {printed(name, '--path')}" in printed()


def test_every_schema_is_offered() -> None:
    assert {path.name for path in (ROOT / "core/logos/schemas").iterdir()} == {f"{name}.json" for name in NAMES}


@pytest.mark.parametrize("path", [ROOT / "logos.toml", *ROOT.glob("examples/*/logos.toml")], ids=str)
def test_project_files_keep_the_schema(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text("utf-8")), schema("project"))
    jsonschema.validate(tomllib.loads(path.read_text("utf-8")), json.loads(printed("project", "--installed")))


PROJECT = '[project]\nname = "m"\nprogram = "m.lg"\n'
WRONG = (
    "",
    "[project]\n",
    '[project]\nname = "m"\n',
    f"{PROJECT}author = {{ checkpoint = 'm.gguf' }}\n",
    f"{PROJECT}nam = 'x'\n",
    f"{PROJECT}checkpoint = 3\n",
    f"{PROJECT}out = ''\n",
    '[project]\nname = "a/b"\nprogram = "m.lg"\n',
    '[project]\nname = ".."\nprogram = "m.lg"\n',
    '[project]\nname = "-x"\nprogram = "m.lg"\n',
    '[project]\nname = "a\\nb"\nprogram = "m.lg"\n',
    '[project]\nname = "m"\nauthor = { context = 3 }\n',
    '[project]\nname = "m"\nauthor = { checkpoint = "m.gguf", context = 0 }\n',
    '[project]\nname = "m"\nauthor = { checkpoint = "m.gguf", context = true }\n',
    f"{PROJECT}[target]\ncuda = 1\n",
    f"{PROJECT}[other]\n",
    '[workspace]\nmembers = "a"\n',
)


@pytest.mark.parametrize("text", WRONG)
def test_what_logos_refuses_breaks_the_schema_too(text: str, tmp_path: Path) -> None:
    (tmp_path / "logos.toml").write_text(text, "utf-8")
    with pytest.raises(Refused):
        read_workspace(tmp_path / "logos.toml")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), schema("project"))


def test_a_project_with_everything_keeps_the_schema(tmp_path: Path) -> None:
    text = """\
[workspace]
members = []
[project]
name = "m"
author = { checkpoint = "m.gguf", context = 24, layers = 2 }
checkpoint = "m.gguf"
family = "llama"
out = "out"
[weights]
Wq0 = "blk.0.attn_q.weight"
[target.rdu-sambaflow]
dtype = "bfloat16"
outputs = ["logits"]
prefill = 4
[target.cuda]
arch = ["sm_90"]
"""
    (tmp_path / "logos.toml").write_text(text, "utf-8")
    assert len(read_workspace(tmp_path / "logos.toml").projects) == 1
    jsonschema.validate(tomllib.loads(text), schema("project"))
    jsonschema.validate(tomllib.loads(text), json.loads(printed("project", "--installed")))


@pytest.mark.parametrize(
    "target", ["[target.cudo]", "[target.cuda]\nkin = 1", "[target.cuda]\nkind = 1", "[target.cuda]\narch = 90"]
)
def test_the_installed_targets_options_are_in_the_schema_that_is_asked_for(target: str) -> None:
    record = tomllib.loads(f"{PROJECT}{target}\n")
    jsonschema.validate(record, {**schema("project"), "properties": {"project": {}, "target": {"type": "object"}}})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, json.loads(printed("project", "--installed")))


@pytest.mark.parametrize(
    ("target", "option", "sound", "wrong"),
    [
        ("cuda", "arch", ("'sm_90'", "'sm_80,sm_90'", "['sm_90']"), ("90", "[90]")),
        ("cuda", "prefill", ("4", "'4'", "'none'"), ("'four'", "true", "[4]")),
        ("rdu-sambaflow", "selftest", ("2", "'2'"), ("'none'", "'2.5'")),
        ("rdu-sambaflow", "state", ("'host'",), ("'hosts'",)),
    ],
)
def test_an_option_keeps_the_schema_where_logos_takes_it(
    target: str, option: str, sound: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    """A list may be the text that `-D` would have, and so may a number."""
    asked, installed = json.loads(printed("project", "--installed")), make_manager().targets[target]
    for text in (*sound, *wrong):
        value = tomllib.loads(f"value = {text}\n")["value"]
        record = tomllib.loads(f"{PROJECT}[target.{target}]\n{option} = {text}\n")
        if text in sound:
            jsonschema.validate(record, asked)
            target_options(installed, {option: value}, Spot)
        else:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(record, asked)
            with pytest.raises(Refused):
                target_options(installed, {option: value}, Spot)


def manifests() -> Iterator[Any]:
    yield from (json.loads((GOLDEN / name).read_text("utf-8")) for name in ("manifest.json", "prefill.json"))


def test_manifests_keep_the_schema() -> None:
    for manifest in manifests():
        jsonschema.validate(manifest, schema("manifest"))


def broken(manifest: Any) -> Iterator[Any]:
    """A manifest with one thing wrong, by turns: any field missing, or of another kind."""
    for key in manifest:
        if key not in ("prefill", "prefill_ops"):
            yield {name: value for name, value in manifest.items() if name != key}
    for key, value in (("version", "1"), ("version", 2), ("inputs", "tok"), ("output", None), ("program", "x")):
        yield {**manifest, key: value}
    for part in ("tensors", "ops"):
        for key in ("shape", "dtype", "var", "python_name") if part == "tensors" else ("line", "operators", "torch"):
            changed = copy.deepcopy(manifest)
            del changed[part][0][key]
            yield changed
        changed = copy.deepcopy(manifest)
        changed[part][0]["more"] = 1
        yield changed


def test_broken_manifests_break_the_schema() -> None:
    manifest = next(manifests())
    found, validator = list(broken(manifest)), jsonschema.Draft202012Validator(schema("manifest"))
    assert len(found) > 20
    assert [one for one in found if validator.is_valid(one)] == []


def test_a_manifest_of_another_target_may_say_more() -> None:
    tensor = {"var": "x", "shape": [1, 2], "dtype": "F32", "role": "input", "onnx": "v0_x"}
    mine = {"schema": "my.manifest", "version": 7, "generator": "mine 1", "inputs": ["x"], "states": []}
    jsonschema.validate({**mine, "output": "y", "outputs": ["y"], "tensors": [tensor], "mine": 1}, schema("manifest"))
