"""A build hook of hatchling: what `logos build` makes of a project's logos.toml goes into its wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl
from packaging.tags import sys_tags


class LogosBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """`[tool.hatch.build.hooks.logos]`; its keys, none of them needed:

    members  what `logos build` is given: programs' or members' names; by default everything in logos.toml
    into     the folder of the wheel that takes the artifacts, as <into>/<name>/<target>/; by default the project's name
    """

    PLUGIN_NAME = "logos"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds, and adds the artifacts to the wheel; with a program in them it is a wheel of this platform."""
        if self.target_name != "wheel" or version == "editable":
            return
        members = self._texts("members")
        into = self.config.get("into", self.metadata.core.name.replace("-", "_"))
        if self._logos("build", *members, "-q").returncode != 0:
            self.app.abort("logos build made nothing for the wheel; what it refuses stands above")
        for path, inner in _artifacts(self._logos("build", *members, "--json").stdout):
            file = os.path.join(self.root, path)
            build_data["force_include"][file] = f"{into}/{inner}"
            if os.access(file, os.X_OK):
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{next(sys_tags()).platform}"

    def _texts(self, key: str) -> Sequence[str]:
        given = self.config.get(key, [])
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            self.app.abort(f"tool.hatch.build.hooks.logos.{key} is to be a list of strings, not {given!r}")
        return list(given)

    def _logos(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Runs `logos`; what is wrong goes to standard error."""
        return subprocess.run([sys.executable, "-m", "logos", *words], cwd=self.root, stdout=subprocess.PIPE)


def _artifacts(events: bytes) -> Iterator[tuple[str, str]]:
    """The files of the artifacts of a build, and what they are called below <into>."""
    for event in map(json.loads, events.splitlines()):
        if event["event"] == "artifact":
            for file in event["files"]:
                yield f"{event['folder']}/{file['path']}", f"{event['name']}/{event['target']}/{file['path']}"


@hookimpl
def hatch_register_build_hook() -> type[LogosBuildHook]:
    """What hatchling's plugin manager asks for."""
    return LogosBuildHook
