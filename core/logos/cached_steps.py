"""A plan's steps and the shared cache: what of the due ones is fetched before ninja runs, what is kept after."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from logos.journal import Journal
from logos.ninja_run import find_ninja, run_ninja
from logos.plan import Plan
from logos.step_cache import FORMAT, StepCache
from logos.steps import Step

_AT_ONCE = 200


class CachedSteps:
    """LOGOS's own steps of a plan (author, emit, extract), by the keys of a cache."""

    def __init__(self, plan: Plan, cache: StepCache, journal: Journal) -> None:
        self.cache, self.journal, self.private = cache, journal, plan.private
        records = plan.records
        self.keys = {step.title: step_key(step, records[step.record]) for step in plan.steps if step.record is not None}
        self.steps = {step.title: step for step in plan.steps if step.title in self.keys}

    def fetch(self, hear: Callable[[str], None]) -> tuple[str, ...]:
        """The titles of the steps that ninja would run and whose outputs the cache has: they are in place, and ninja
        finds them made. `hear` is told of each."""
        due = run_ninja(self.private, lambda progress: None, ("-n",)).steps
        found = []
        for title in due:
            if title in self.steps and self._fetched(self.steps[title]):
                found.append(title)
                hear(title)
        self._settle([path for title in found for path in self.steps[title].outputs])
        return tuple(found)

    def keep(self, titles: Iterable[str]) -> None:
        """Takes what steps that ended well made, where nobody changed it since."""
        for title in titles:
            step = self.steps.get(title)
            if step is not None and all(self.journal.sound(path, None) for path in step.outputs):
                self.cache.keep(self.keys[title], step.outputs)
        self.cache.bound()

    def _fetched(self, step: Step) -> bool:
        if not self.cache.fetch(self.keys[step.title], step.outputs, step.digests):
            return False
        self.journal.add(step)
        return True

    def _settle(self, paths: Sequence[Path]) -> None:
        """Tells ninja's log, where it knows of outputs, how new they are now."""
        for first in range(0, len(paths), _AT_ONCE):
            some = map(os.fspath, paths[first : first + _AT_ONCE])
            subprocess.run([find_ninja(), "-C", self.private, "-t", "restat", *some], capture_output=True)


def step_key(step: Step, record: str) -> str:
    """The digest of what decides a step's bytes, wherever it runs: its record with sources by their contents instead of
    their paths, and what computes beside LOGOS's code."""
    said = json.loads(record)
    sources = said.get("sources", {}) if isinstance(said, dict) else {}
    by = [version("numpy"), platform.machine(), platform.python_version_tuple()[:2]]
    decided = [FORMAT, step.rule, _by_contents(said, sources), [] if step.rule in ("author", "emit") else by]
    return hashlib.sha256(json.dumps(decided).encode()).hexdigest()


def _by_contents(said: Any, sources: dict[str, str]) -> Any:
    if isinstance(said, str):
        return sources.get(said, said)
    if isinstance(said, dict):
        # In the order of the record, which is that of the outputs.
        return [[sources.get(key, key), _by_contents(value, sources)] for key, value in said.items()]
    return [_by_contents(one, sources) for one in said] if isinstance(said, list) else said
