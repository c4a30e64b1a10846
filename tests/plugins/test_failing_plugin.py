"""A plugin that raises what nobody expects: the command ends with the plugin's name and the place, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from places import Place, install

PLUGIN = """\
from dataclasses import make_dataclass

from logos import API, hookimpl


class Target:
    name, api, options = "failing", API, make_dataclass("Options", ())
    spells, fuses, stores = frozenset(["plus"]), (), ("float64",)

    def emit(self, job):
        return {}["a key"]

    refusals = lambda self, job: ()
    steps = outputs = dtypes = run = None.__init__


@hookimpl
def logos_targets():
    return [Target()]
"""


@pytest.fixture
def failing(tmp_path: Path) -> Place:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/failing_plugin.py").write_text(PLUGIN, "utf-8")
    install("failing", "1.0", "mine = failing_plugin", tmp_path / "site")
    (tmp_path / "p.lg").write_text("Let x be a 1 by 2 tensor of Real.\nLet y be x plus x.\n", "utf-8")
    return Place(tmp_path, (tmp_path / "site",))


def test_the_plugin_is_named_with_the_place(failing: Place) -> None:
    build = ("build", "p.lg", "--target", "failing", "--out", "made")
    where = f"{failing.folder / 'site/failing_plugin.py'}:11"
    what = "plugin mine of distribution failing raised KeyError: 'a key'"
    next_ = "tell its authors; -v shows the traceback"
    assert failing.logos(*build, code=3).stderr == f"{where}: {what} [plugin-failed]\n  next: {next_}\n"
    assert "Traceback" in failing.logos(*build, "-v", code=3).stderr
    record = json.loads(failing.logos(*build, "--json", code=3).stdout.splitlines()[-1])
    assert (record["refusal"], record["what"], record["where"]) == ("plugin-failed", what, where)
    assert not (failing.folder / "made").exists()
