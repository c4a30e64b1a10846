"""Finding plugins and asking them. Made by a function, never a global."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import pluggy

from logos.grammar import Grammar, make_grammar
from logos.hookspecs import API, CheckpointFormat, Family, Specs, Target
from logos.near import suggestion
from logos.op import Op
from logos.refusal import Refused, refuse
from logos.source import Spot

GROUP = "logos"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """A plugin, or a part of one, that was left out: which, of which distribution, why; `trace` is for `-v`."""

    plugin: str
    distribution: str
    cause: str
    trace: str = ""

    def text(self) -> str:
        return f"plugin {self.plugin} of distribution {self.distribution} is left out: {self.cause}"


@dataclass(frozen=True, slots=True)
class Installed:
    """A plugin that was loaded."""

    plugin: str
    distribution: str
    version: str
    object: Any = field(repr=False)


@dataclass
class Manager:
    """The installed plugins and what they offer, asked once.

    `problems` grows as faults are found; the command line shows each once. A contested name is nobody's: asking for it
    is refused, naming both plugins.
    """

    plugins: tuple[Installed, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    contested: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def _hooks(self) -> pluggy.PluginManager:
        hooks = pluggy.PluginManager(GROUP)
        hooks.add_hookspecs(Specs)
        for installed in self.plugins:
            hooks.register(installed.object, name=installed.plugin)
        return hooks

    def _offers(self, hook: str, kind: type[T]) -> Iterable[tuple[Installed, T]]:
        """What every plugin returns for a hook, each by itself, so that one plugin's fault is its own."""
        by_name = {installed.plugin: installed for installed in self.plugins}
        for implementation in getattr(self._hooks.hook, hook).get_hookimpls():
            installed = by_name[implementation.plugin_name]
            try:
                offered = implementation.function()
            except (Exception, SystemExit) as error:
                self._leave_out(installed, f"{hook}() raised {_said(error)}", traceback.format_exc())
                continue
            if not isinstance(offered, Sequence) or isinstance(offered, str):
                self._leave_out(installed, f"{hook}() returned {type(offered).__name__}, not a list")
                continue
            for one in offered:
                if isinstance(one, kind):
                    yield installed, one
                else:
                    cause = f"{hook}() returned {type(one).__name__}, which is no {kind.__name__}"
                    self._leave_out(installed, cause)

    def offered(self, hook: str) -> dict[str, list[str]]:
        """For each plugin, the names of what it brings through a hook and what is in use."""
        kinds: dict[str, tuple[type[Any], Iterable[Any]]] = {
            "logos_targets": (Target, self.targets.values()),
            "logos_checkpoints": (CheckpointFormat, self.formats.values()),
            "logos_families": (Family, self.families.values()),
            "logos_ops": (Op, self.ops),
        }
        kind, used = kinds[hook]
        in_use, seen = list(used), len(self.problems)
        found: dict[str, list[str]] = {}
        for installed, one in self._offers(hook, kind):
            if any(one is other or one.name == other.name for other in in_use):
                found.setdefault(installed.plugin, []).append(one.name)
        del self.problems[seen:]  # already said when the hook was first asked
        return found

    def _leave_out(self, installed: Installed, cause: str, trace: str = "") -> None:
        self.problems.append(Problem(installed.plugin, installed.distribution, cause, trace))

    def _by_name(self, kind: str, offers: Iterable[tuple[Installed, T]], name: Callable[[T], str]) -> dict[str, T]:
        found: dict[str, tuple[Installed, T]] = {}
        for installed, one in offers:
            key = name(one)
            if key in found:
                first = found[key][0]
                self.contested[kind, key] = (first.plugin, installed.plugin)
                self._leave_out(installed, f"{kind} {key} is also offered by plugin {first.plugin}")
            else:
                found[key] = installed, one
        return {key: one for key, (_, one) in sorted(found.items()) if (kind, key) not in self.contested}

    @cached_property
    def targets(self) -> dict[str, Target]:
        """The targets, by name. A target for another version of the contract is left out, by name."""
        fitting = []
        for installed, target in self._offers("logos_targets", Target):  # type: ignore[type-abstract]
            if target.api == API:
                fitting.append((installed, target))
            else:
                cause = f"its target {target.name} is for contract version {target.api}; this is version {API}"
                self._leave_out(installed, cause)
        return self._by_name("target", fitting, lambda target: target.name)

    @cached_property
    def formats(self) -> dict[str, CheckpointFormat]:
        offers = self._offers("logos_checkpoints", CheckpointFormat)  # type: ignore[type-abstract]
        return self._by_name("checkpoint format", offers, lambda format: format.name)

    @cached_property
    def families(self) -> dict[str, Family]:
        offers = self._offers("logos_families", Family)  # type: ignore[type-abstract]
        return self._by_name("family", offers, lambda family: family.name)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The core's ops, then the plugins'. An op that would make the language ambiguous is left out, by name."""
        from logos.ops import OPS

        ops = OPS
        for installed, op in self._offers("logos_ops", Op):
            try:
                make_grammar((*ops, op))
            except Refused as refused:
                self._leave_out(installed, refused.refusals[0].what)
            else:
                ops = (*ops, op)
        return ops

    @cached_property
    def grammar(self) -> Grammar:
        return make_grammar(self.ops)

    def target(self, name: str) -> Target:
        """The target of a name. Refused: an unknown name, a contested one, one whose plugin was left out."""
        if name in self.targets:
            return self.targets[name]
        raise self._refuse("target", name, self.targets)

    def family(self, name: str) -> Family:
        """The family of a name; refused as for targets."""
        if name in self.families:
            return self.families[name]
        raise self._refuse("family", name, self.families)

    def _refuse(self, kind: str, name: str, known: Iterable[str]) -> Refused:
        names = sorted(known)
        where = Spot(f"{kind} {name}")
        if (kind, name) in self.contested:
            one, two = self.contested[kind, name]
            what = f"plugins {one} and {two} both offer the {kind} {name}"
            return refuse(f"contested-{kind}", what, where, "uninstall one of the two")
        for problem in self.problems:
            if name == problem.plugin or name in problem.cause.split():
                return refuse(f"broken-{kind}", problem.text(), where, "mend or reinstall that distribution")
        listed = ", ".join(names) or "none"
        what = f"no installed plugin offers the {kind} {name}{suggestion(name, names)}"
        return refuse(f"unknown-{kind}", what, where, f"installed: {listed}; `logos plugins` shows from where")


def make_manager(found: Iterable[EntryPoint] | None = None) -> Manager:
    """The manager of the installed plugins (entry points of the group `logos`), or of those given.

    A plugin that fails to load is named in `problems`, with its distribution, and left out.
    """
    points = entry_points(group=GROUP) if found is None else found
    problems: list[Problem] = []
    plugins: list[Installed] = []
    for point in sorted(points, key=lambda point: (_distribution(point), point.name)):
        distribution = _distribution(point)
        version = point.dist.version if point.dist else "?"
        name, taken = point.name, {installed.plugin for installed in plugins}
        if name in taken:
            name = f"{distribution}:{point.name}"
        try:
            plugin = point.load()
        except (Exception, SystemExit) as error:
            cause = f"{point.value} cannot be imported: {_said(error)}"
            problems.append(Problem(name, distribution, cause, traceback.format_exc()))
            continue
        fault = _hook_fault(plugin)
        if fault:
            problems.append(Problem(name, distribution, fault))
        else:
            plugins.append(Installed(name, distribution, version, plugin))
    return Manager(tuple(plugins), problems)


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _hook_fault(plugin: object) -> str | None:
    """A hook that nobody would call: a misspelt one, or one without its marker."""
    known = [name for name in dir(Specs) if name.startswith("logos_")]
    for name in dir(plugin):
        member = getattr(plugin, name, None)
        marked = getattr(member, "logos_impl", None) is not None
        if marked and name not in known:
            return f"{name} is no hook{suggestion(name, known)}"
        if name in known and callable(member) and not marked:
            return f"{name} has no marker: decorate it with logos.hookspecs.hookimpl"
    return None
