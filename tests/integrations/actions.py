"""Bazel's actions as it tells of them (`bazel aquery`), to be run by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreign import ROOT

NOBODY = "65534"
_ALONE = f"""\
while [ "$1" != -- ]; do mount -t tmpfs tmpfs "$1" || exit 99; shift; done
shift
exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups env -i "$@"
"""


@dataclass(frozen=True)
class Action:
    """An action; its paths are relative to the folder that it runs in."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    inputs: Sequence[str]
    output: str


def read_action(text: str) -> Action:
    """The one action of what `aquery --output=jsonproto` prints."""
    record = json.loads(text)
    (action,) = record["actions"]
    fragments = {one["id"]: one for one in record["pathFragments"]}
    files = {one["id"]: _path(fragments, one["pathFragmentId"]) for one in record["artifacts"]}
    sets = {one["id"]: one for one in record["depSetOfFiles"]}
    inputs = dict.fromkeys(files[one] for key in action["inputDepSetIds"] for one in _members(sets, key))
    variables = {one["key"]: one["value"] for one in action.get("environmentVariables", ())}
    return Action(action["arguments"], variables, list(inputs), files[action["primaryOutputId"]])


def _path(fragments: Mapping[int, Any], key: int | None) -> str:
    parts = []
    while key is not None:
        parts.append(fragments[key]["label"])
        key = fragments[key].get("parentId")
    return "/".join(reversed(parts))


def _members(sets: Mapping[int, Any], key: int) -> Iterator[int]:
    yield from sets[key].get("directArtifactIds", ())
    for inner in sets[key].get("transitiveDepSetIds", ()):
        yield from _members(sets, inner)


def may_be_alone() -> bool:
    """Whether this user may hide files and the network from a command, and run it as another user."""
    command = ["unshare", "-nm", "sh", "-c", _ALONE, "sh", os.path.expanduser("~"), "--", "true"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


@contextmanager
def run_alone(action: Action, root: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """The folder that an action wrote, run in an empty folder that holds its declared inputs, from the `root` that they
    are relative to: with its own environment and no other, without a network, by nobody in particular. This repository,
    the tests' Python and `hidden` are not there."""
    folder = Path(tempfile.mkdtemp())
    try:
        for name in action.inputs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
        (folder / action.output).parent.mkdir(parents=True)
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, int(NOBODY), int(NOBODY))
        homes = [Path(one) for one in (sys.prefix, sys.base_prefix) if not one.startswith("/usr")]
        libraries = [Path(sysconfig.get_path("stdlib")), *Path("/usr/lib").glob("python3*")]
        places = [one.resolve() for one in (ROOT, *homes, *libraries, *hidden) if one.exists()]
        outer = [one for one in dict.fromkeys(places) if not any(other in one.parents for other in places)]
        variables = [f"{name}={value}" for name, value in action.environment.items()]
        command = ["unshare", "-nm", "sh", "-c", _ALONE, "sh", *map(os.fspath, outer), "--", *variables]
        ran = subprocess.run([*command, *action.arguments], cwd=folder, capture_output=True, encoding="utf-8")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
        yield folder / action.output
    finally:
        shutil.rmtree(folder)
