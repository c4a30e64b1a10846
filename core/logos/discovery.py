"""Finding the installed plugins by their entry points, and leaving out, by name, those that cannot be loaded."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from importlib.metadata import EntryPoint, distributions, entry_points
from typing import Any

import pluggy

from logos.hookspecs import API, Specs
from logos.near import suggestion
from logos.refusal import Refusal
from logos.source import Spot, printable

GROUP = "logos"
OWN = "logos-build"
HOOKS = tuple(name for name in dir(Specs) if name.startswith("logos_"))
_MISSPELT = 0.85


@dataclass(frozen=True, slots=True)
class Problem:
    """A plugin, or a part of one, that was left out: which, of which distribution, why; `trace` is for `-v`. `lost`
    are the names that cannot be asked for because of it, where they are known."""

    plugin: str
    distribution: str
    cause: str
    trace: str = ""
    lost: tuple[str, ...] = ()

    def text(self) -> str:
        return printable(f"plugin {self.plugin} of distribution {self.distribution} is left out: {self.cause}")


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin that was loaded."""

    plugin: str
    distribution: str
    version: str
    object: Any = field(repr=False)


Found = tuple[pluggy.PluginManager, tuple[Installed, ...], list[Problem]]


def discover(found: Iterable[EntryPoint] | None = None) -> Found:
    """The plugins of the group `logos`, or of the entry points given, registered; and those left out."""
    hooks = pluggy.PluginManager(GROUP)
    hooks.add_hookspecs(Specs)
    problems: list[Problem] = []
    plugins: list[Installed] = []
    points = _entry_points(problems) if found is None else found
    for point in sorted(points, key=lambda point: (_distribution(point)[0], point.name)):
        distribution, version = _distribution(point)
        name = point.name
        if hooks.has_plugin(name):
            name = f"{distribution}:{name}"
        try:
            with redirect_stdout(sys.stderr):  # what a plugin prints is no part of a command's output
                plugin = point.load()
            twin = hooks.get_name(plugin)
            fault = hook_fault(plugin) if twin is None else f"{point.value} is what plugin {twin} names too"
            if fault is None:
                hooks.register(plugin, name=name)
        except (Exception, SystemExit) as error:
            if hooks.has_plugin(name):
                hooks.unregister(name=name)
            cause = f"{point.value} cannot be loaded: {said(error)}"
            problems.append(Problem(name, distribution, cause, traceback.format_exc(), (point.name,)))
            continue
        if fault:
            problems.append(Problem(name, distribution, fault, lost=(point.name,)))
        else:
            plugins.append(Installed(name, distribution, version, plugin))
    return hooks, tuple(plugins), problems


def _entry_points(problems: list[Problem]) -> list[EntryPoint]:
    try:
        return list(entry_points(group=GROUP))
    except Exception:
        return _sound_entry_points(problems)


def _sound_entry_points(problems: list[Problem]) -> list[EntryPoint]:
    """The entry points of every distribution whose own list can be read: a broken one spoils the common list."""
    points: list[EntryPoint] = []
    for distribution in distributions():
        try:
            points += distribution.entry_points.select(group=GROUP)
        except Exception as error:
            cause = f"its entry points cannot be read: {said(error)}"
            problems.append(Problem("?", str(distribution.metadata["Name"]), cause, traceback.format_exc()))
    return points


def _distribution(point: EntryPoint) -> tuple[str, str]:
    """The name and version of an entry point's distribution; a damaged one has neither."""
    try:
        return str(point.dist.name or "?"), str(point.dist.version or "?")  # type: ignore[union-attr]
    except Exception:
        return "?", "?"


def said(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def plugin_fault(error: BaseException) -> Refusal | None:
    """What to say of an exception that nobody caught and that arose in a plugin from outside: which plugin, and where
    in its code (`plugin-failed`). None for any other: that is LOGOS's own fault, whose traceback should be seen."""
    found: list[Problem] = []
    points = {re.split("[.:]", point.value)[0]: point for point in _entry_points(found)}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        point = points.get(str(frame.f_globals.get("__name__")).partition(".")[0])
        if point is not None and _distribution(point)[0] != OWN:
            what = printable(f"plugin {point.name} of distribution {_distribution(point)[0]} raised {said(error)}")
            where = Spot(f"{frame.f_code.co_filename}:{line}")
            return Refusal("plugin-failed", what, where, "tell its authors; -v shows the traceback")
    return None


def hook_fault(plugin: object) -> str | None:
    """What keeps a plugin from being asked: another version of the contract (`logos_api`); a hook that nobody would
    call, misspelt or without its marker."""
    version = getattr(plugin, "logos_api", API)
    if version != API:
        return f"it is for contract version {version!r}; this is version {API}"
    for name in dir(plugin):
        member = getattr(plugin, name, None)
        options = getattr(member, "logos_impl", None)
        if isinstance(options, dict):
            hook = options.get("specname") or name
            if hook not in HOOKS:
                return f"{hook} is no hook{suggestion(hook, HOOKS)}"
        elif name in HOOKS and callable(member):
            return f"{name} has no marker: decorate it with logos.hookimpl"
        elif name.startswith("logos_") and callable(member) and _near_a_hook(name):
            return f"{name} is no hook and has no marker{suggestion(name, HOOKS)}"
    return None


def _near_a_hook(name: str) -> bool:
    return any(SequenceMatcher(None, name, hook).ratio() > _MISSPELT for hook in HOOKS)
