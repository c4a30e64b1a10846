"""Asking the installed plugins what they offer. Made by a function, never a global."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar, cast

import pluggy

from logos.contracts import fault
from logos.discovery import Installed, Problem, discover, said
from logos.grammar import Grammar, make_grammar
from logos.hookspecs import CheckpointFormat, Family, Target
from logos.near import suggestion
from logos.op import Op
from logos.refusal import Refused, refuse
from logos.source import Spot

T = TypeVar("T")

_KINDS: dict[str, tuple[type[Any], str]] = {
    "logos_targets": (Target, "target"),
    "logos_checkpoints": (CheckpointFormat, "checkpoint format"),
    "logos_families": (Family, "family"),
    "logos_ops": (Op, "op"),
}
"""For each hook, the contract of what it returns and what messages call it."""


@dataclass
class Manager:
    """The installed plugins and what they offer, each asked once.

    `problems` grows as faults are found; the command line shows each once. A contested name is nobody's: asking for it
    is refused, naming every plugin that offers it.
    """

    hooks: pluggy.PluginManager
    plugins: tuple[Installed, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    contested: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    _offers: dict[str, list[tuple[Installed, Any]]] = field(default_factory=dict)

    def offers(self, hook: str) -> list[tuple[Installed, Any]]:
        """What the plugins offer through a hook, each asked by itself, so that one plugin's fault is its own; without
        what breaks the contract, and without a name that several offer."""
        if hook not in self._offers:
            kind, noun = _KINDS[hook]
            sound = [(installed, one) for installed, one in self._ask(hook) if self._keeps(hook, installed, one, kind)]
            self._offers[hook] = self._uncontested(noun, sound)
        return self._offers[hook]

    def _ask(self, hook: str) -> Iterable[tuple[Installed, Any]]:
        by_name = {installed.plugin: installed for installed in self.plugins}
        for implementation in getattr(self.hooks.hook, hook).get_hookimpls():
            installed = by_name[implementation.plugin_name]
            try:
                with redirect_stdout(sys.stderr):
                    offered = implementation.function()
            except (Exception, SystemExit) as error:
                self._leave_out(installed, f"{hook}() raised {said(error)}", traceback.format_exc())
                continue
            if not isinstance(offered, Sequence) or isinstance(offered, str):
                self._leave_out(installed, f"{hook}() returned a {type(offered).__name__}, not a list")
                continue
            for one in offered:
                yield installed, one

    def _keeps(self, hook: str, installed: Installed, one: Any, kind: type[Any]) -> bool:
        cause = fault(one, kind)
        if cause is not None:
            name = getattr(one, "name", None)
            self._leave_out(installed, f"{hook}(): {cause}", lost=(name,) if isinstance(name, str) else ())
        return cause is None

    def _uncontested(self, noun: str, offers: list[tuple[Installed, Any]]) -> list[tuple[Installed, Any]]:
        by_name: dict[str, list[tuple[Installed, Any]]] = {}
        for installed, one in offers:
            by_name.setdefault(one.name, []).append((installed, one))
        for name, found in by_name.items():
            if len(found) > 1:
                plugins = tuple(installed.plugin for installed, _ in found)
                self.contested[noun, name] = plugins
                self._leave_out(found[-1][0], f"{noun} {name} is also offered by plugin {', '.join(plugins[:-1])}")
        return [found[0] for _, found in sorted(by_name.items()) if len(found) == 1]

    def _leave_out(self, installed: Installed, cause: str, trace: str = "", lost: tuple[str, ...] = ()) -> None:
        self.problems.append(Problem(installed.plugin, installed.distribution, cause, trace, lost))

    def offered(self, hook: str) -> dict[str, list[str]]:
        """For each plugin, the names of what it brings through a hook and what is in use."""
        found: dict[str, list[str]] = {}
        for installed, one in self._plugin_ops if hook == "logos_ops" else self.offers(hook):
            found.setdefault(installed.plugin, []).append(one.name)
        return found

    def _named(self, hook: str) -> dict[str, Any]:
        return {one.name: one for _, one in self.offers(hook)}

    @cached_property
    def targets(self) -> dict[str, Target]:
        """The targets, by name. A target for another version of the contract is left out, by name."""
        return cast("dict[str, Target]", self._named("logos_targets"))

    @cached_property
    def formats(self) -> dict[str, CheckpointFormat]:
        return cast("dict[str, CheckpointFormat]", self._named("logos_checkpoints"))

    def format_of(self, path: Path) -> CheckpointFormat | None:
        """The format that reads a file, or a folder; None where none does."""
        folder = path.is_dir()
        able = (one for one in self.formats.values() if not folder or getattr(one, "reads_folders", False))
        return next((one for one in able if one.reads(path)), None)

    @cached_property
    def families(self) -> dict[str, Family]:
        return cast("dict[str, Family]", self._named("logos_families"))

    @cached_property
    def _plugin_ops(self) -> list[tuple[Installed, Op]]:
        """The plugins' ops. One that could be taken for an op of the core is left out; two that could be taken for
        each other are both."""
        from logos.ops import OPS

        offers: list[tuple[Installed, Op]] = []
        for installed, op in self.offers("logos_ops"):
            clash = _clash((*OPS, op))
            if clash:
                self._leave_out(installed, f"its op {op.name}: {clash}", lost=(op.name,))
            else:
                offers.append((installed, op))
        out = set()
        for number, (installed, op) in enumerate(offers):
            for other, before in offers[:number]:
                clash = _clash((before, op))
                if clash:
                    out |= {before.name, op.name}
                    self._leave_out(installed, f"its op {op.name} and {before.name} of plugin {other.plugin}: {clash}")
        return [(installed, op) for installed, op in offers if op.name not in out]

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The core's ops, then the plugins', by name."""
        from logos.ops import OPS

        return (*OPS, *(op for _, op in self._plugin_ops))

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
            *most, last = self.contested[kind, name]
            what = f"the {kind} {name} is offered by the plugins {', '.join(most)} and {last}"
            return refuse(f"contested-{kind}", what, where, "uninstall all of them but one")
        for problem in self.problems:
            if name in problem.lost:
                return refuse(f"broken-{kind}", problem.text(), where, "mend or reinstall that distribution")
        what = f"no installed plugin offers the {kind} {name}{suggestion(name, names)}"
        next_ = f"installed: {', '.join(names) or 'none'}; `logos plugins` shows from where"
        if self.problems:
            left_out = dict.fromkeys(problem.plugin for problem in self.problems)
            next_ += f"; left out: {', '.join(left_out)}"
        return refuse(f"unknown-{kind}", what, where, next_)


def _clash(ops: tuple[Op, ...]) -> str | None:
    try:
        make_grammar(ops)
    except Refused as refused:
        return refused.refusals[0].what
    return None


def make_manager(found: Iterable[EntryPoint] | None = None) -> Manager:
    """The manager of the installed plugins (entry points of the group `logos`), or of those given.

    A plugin that fails to load is named in `problems`, with its distribution, and left out.
    """
    return Manager(*discover(found))
