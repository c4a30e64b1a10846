"""Plugins: found through entry points, asked one by one; a faulty one is left out by name and the rest goes on."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from logos import Op, Refused, Shapes, hookimpl
from logos.grammar import make_grammar
from logos.manager import Manager, make_manager
from logos.ops import OPS


@dataclass(frozen=True)
class Distribution:
    name: str
    version: str = "1.0"


@dataclass(frozen=True)
class Point:
    """An entry point that loads by calling `make`."""

    name: str
    make: Callable[[], object]
    distribution: str = "strange"
    value: str = "strange.plugin"

    @property
    def dist(self) -> Distribution:
        return Distribution(self.distribution)

    def load(self) -> object:
        return self.make()


@dataclass(frozen=True)
class FakeTarget:
    name: str = "fake"
    api: int = 1
    spells: frozenset[str] = frozenset()
    fuses: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    options: type[Any] = Distribution

    def refusals(self, job: Any) -> list[Any]:
        return []

    def emit(self, job: Any) -> list[Any]:
        return []

    def steps(self, job: Any) -> None:
        return None

    def run(self, job: Any, inputs: Any) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class FakeFamily:
    name: str = "fake"

    def author(self, header: Any, options: Any) -> str:
        return ""

    def view(self, variable: str, graph: Any, checkpoint: Any) -> None:
        return None


def plugin(**hooks: Any) -> types.SimpleNamespace:
    """A plugin whose hooks return, or do, what is given."""
    namespace = types.SimpleNamespace()
    for name, value in hooks.items():
        function = value if callable(value) else (lambda value=value: value)
        setattr(namespace, name, hookimpl(function))
    return namespace


def manager(*points: Point) -> Manager:
    return make_manager(points)  # type: ignore[arg-type]


def raiser(error: BaseException) -> Callable[[], object]:
    def load() -> object:
        raise error

    return load


def problems(made: Manager) -> list[str]:
    assert made.targets is not None
    assert made.families is not None
    assert made.ops is not None
    return [problem.text() for problem in made.problems]


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(Refused) as found:
        ask()
    return str(found.value)


def test_what_a_plugin_offers_is_found_by_name() -> None:
    made = manager(Point("p", lambda: plugin(logos_targets=[FakeTarget()], logos_families=[FakeFamily()])))
    assert made.target("fake") == FakeTarget()
    assert made.family("fake") == FakeFamily()
    assert problems(made) == []


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ImportError("no module named nothing"), "ImportError: no module named nothing"),
        (SyntaxError("bad"), "SyntaxError: bad"),
        (SystemExit(3), "SystemExit: 3"),
        (ValueError(), "ValueError"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_left_out_and_the_rest_goes_on(error: BaseException, cause: str) -> None:
    made = manager(Point("bad", raiser(error)), Point("good", lambda: plugin(logos_targets=[FakeTarget()])))
    assert list(made.targets) == ["fake"]
    said = f"plugin bad of distribution strange is left out: strange.plugin cannot be imported: {cause}"
    assert problems(made) == [said]
    assert refused(lambda: made.target("bad")) == (
        f"target bad: {said} [broken-target]\n  next: mend or reinstall that distribution"
    )
    assert refused(lambda: made.family("bad")).startswith(f"family bad: {said} [broken-family]\n")


def test_an_interrupt_while_importing_a_plugin_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        manager(Point("bad", raiser(KeyboardInterrupt())))


@pytest.mark.parametrize(
    ("hooks", "cause"),
    [
        ({"logos_targets": raiser(ValueError("it broke"))}, "logos_targets() raised ValueError: it broke"),
        ({"logos_targets": raiser(SystemExit(1))}, "logos_targets() raised SystemExit: 1"),
        ({"logos_targets": None}, "logos_targets() returned NoneType, not a list"),
        ({"logos_targets": [3]}, "logos_targets() returned int, which is no Target"),
        ({"logos_families": [FakeTarget()]}, "logos_families() returned FakeTarget, which is no Family"),
        ({"logos_target": []}, "logos_target is no hook; did you mean logos_targets?"),
        (
            {"logos_targets": [FakeTarget(api=99)]},
            "its target fake is for contract version 99; this is version 1",
        ),
    ],
)
def test_a_faulty_hook_is_named(hooks: dict[str, Any], cause: str) -> None:
    made = manager(Point("bad", lambda: plugin(**hooks)), Point("good", lambda: plugin(logos_families=[FakeFamily()])))
    assert problems(made) == [f"plugin bad of distribution strange is left out: {cause}"]
    assert list(made.families) == ["fake"]


def test_a_hook_without_its_marker_is_named() -> None:
    made = manager(Point("bad", lambda: types.SimpleNamespace(logos_targets=lambda: [FakeTarget()])))
    (said,) = problems(made)
    assert said.endswith("logos_targets has no marker: decorate it with logos.hookspecs.hookimpl")


def test_a_name_that_two_plugins_offer_is_nobody_s() -> None:
    def load() -> object:
        return plugin(logos_targets=[FakeTarget()], logos_families=[FakeFamily()])

    made = manager(Point("one", load, "first"), Point("two", load, "second"))
    assert list(made.targets) == []
    assert refused(lambda: made.target("fake")) == (
        "target fake: plugins one and two both offer the target fake [contested-target]\n"
        "  next: uninstall one of the two"
    )
    assert "[contested-family]" in refused(lambda: made.family("fake"))
    assert "plugin two of distribution second is left out: target fake is also offered by plugin one" in problems(made)


def test_two_entry_points_of_one_name_are_both_loaded() -> None:
    made = manager(
        Point("same", lambda: plugin(logos_targets=[FakeTarget("a")]), "first"),
        Point("same", lambda: plugin(logos_targets=[FakeTarget("b")]), "second"),
    )
    assert list(made.targets) == ["a", "b"]
    assert [installed.plugin for installed in made.plugins] == ["same", "second:same"]


def doubled(X: Any) -> Any:
    """2 x."""
    return 2 * X


DOUBLE = Op("double", "double of X", (Shapes("X (r, c) -> (r, c)"),), doubled)


def test_a_plugin_s_op_joins_the_language() -> None:
    made = manager(Point("p", lambda: plugin(logos_ops=[DOUBLE])))
    assert made.grammar.op("double") is DOUBLE
    assert problems(made) == []


@pytest.mark.parametrize(
    ("op", "cause"),
    [
        (replace(DOUBLE, name="silu"), "two ops are named silu"),
        (replace(DOUBLE, pattern_text="silu of Y"), "silu and double could both be meant by `Let x be silu of x.`"),
    ],
)
def test_an_op_that_would_make_the_language_ambiguous_is_left_out(op: Op, cause: str) -> None:
    made = manager(Point("p", lambda: plugin(logos_ops=[op, replace(DOUBLE, name="other")])))
    assert problems(made) == [f"plugin p of distribution strange is left out: {cause}"]
    assert [op.name for op in made.ops[len(OPS) :]] == ["other"]


def test_an_op_declared_twice_is_refused() -> None:
    assert refused(lambda: make_grammar([DOUBLE, DOUBLE])) == (
        "op double: two ops are named double [op-declared-twice]\n"
        "  next: remove one of the plugins that bring it, or rename its op"
    )
