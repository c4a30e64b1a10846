"""A deliberately wrong plugin: what is wrong with it is found by the conformance kit, and named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from places import Place, install

MANY = re.MULTILINE


@pytest.fixture
def wrong(tmp_path: Path, place: Place) -> Place:
    installed = install("wrong-sample", "1.0", "wrong = wrong_sample", tmp_path / "wrong")
    return Place(place.folder, (*place.path, installed, Path(__file__).parent))


@pytest.mark.slow
def test_pytest_finds_and_names_each_mistake(wrong: Place) -> None:
    options = ("-p", "logos.conformance", "-p", "no:cacheprovider", "-q", "--logos-target", "wrong")
    tried = "swiglu or softmax or plus or determinism or refusals"
    ran = wrong.python("-m", "pytest", *options, "--logos-shapes", "3", "-k", tried)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "4 failed, 1 passed" in ran.stdout
    assert re.search(r"^swiglu fails: out_swiglu_\d+ in float32 has the difference .*, beyond ", ran.stdout, MANY)
    assert "next: save these lines as case.lg and run `logos verify case.lg --target wrong" in ran.stdout
    assert re.search(r"^softmax is accepted, but nothing spells it: KeyError: 'out_softmax_\d+'$", ran.stdout, MANY)
    for seed in (1, 2):
        where = f"between processes (PYTHONHASHSEED={seed}, another folder)"
        assert f"manifest.json differs {where}: line " in ran.stdout
    assert "emit leaves work/left.txt behind" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(
            ("wrong", "--logos-option", "binary"), "--logos-option binary: KEY=VALUE is due", marks=pytest.mark.slow
        ),
        (("wong",), "no installed plugin offers the target wong; did you mean wrong? [unknown-target]"),
    ],
)
def test_pytest_refuses_what_it_cannot_try(wrong: Place, arguments: tuple[str, ...], says: str) -> None:
    ran = wrong.python("-m", "pytest", "-p", "logos.conformance", "--logos-target", *arguments)
    assert ran.returncode == 4
    assert says in ran.stderr


@pytest.mark.slow
def test_the_command_finds_and_names_each_mistake(wrong: Place) -> None:
    ran = wrong.logos("conformance", "wrong", "--shapes", "3", "--json", code=4)
    records = [json.loads(line) for line in ran.stdout.splitlines()]
    failed = {one["op"]: one["fault"] for one in records if "op" in one and not one["holds"]}
    assert failed.keys() == {"swiglu", "softmax"}
    assert re.fullmatch(r"out_swiglu_\d+ in float32 has the difference .*, beyond 0\.0001", failed["swiglu"])
    checks = {one["check"]: one["faults"] for one in records if "check" in one}
    assert {name for name, faults in checks.items() if faults} == {"names", "determinism", "refusals"}
    assert [fault.partition(" of variables")[0] for fault in checks["names"]] == ["softmax", "swiglu"]
    assert (records[-1]["ops"], records[-1]["checks"], records[-1]["holds"]) == (11, 4, False)
