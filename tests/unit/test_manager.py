"""Plugins that break: each is left out by name with its cause, and everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from logos import Manager, Op, Refused, Rows, Shapes, TypeRule, hookimpl, make_manager
from logos.hookspecs import API, Specs
from logos.ops import OPS


@dataclass(frozen=True)
class Options:
    """No option."""


@dataclass(frozen=True)
class Fake:
    """An entry point that loads by calling a function; its distribution is in memory."""

    name: str
    load: Callable[[], Any]
    distribution: str = "strange"

    @property
    def value(self) -> str:
        return f"{self.name}_module"

    @property
    def dist(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.distribution, version="1.2")


def target(name: str = "board", **more: Any) -> SimpleNamespace:
    usual = {
        "name": name, "api": API, "spells": frozenset({"plus"}), "fuses": (), "stores": ("float32",),
        "options": Options, "refusals": lambda job: (), "emit": lambda job: (), "steps": lambda job: None,
        "outputs": lambda job: (), "dtypes": lambda job: ("float32",), "run": lambda job, inputs: {},
    }  # fmt: skip
    return SimpleNamespace(**{**usual, **more})


def plugin(**hooks: Callable[[], Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def point(name: str, made: Any, distribution: str = "strange") -> Fake:
    return Fake(name, lambda: made, distribution)


def offering(name: str, *targets: Any, distribution: str = "strange") -> Fake:
    return point(name, plugin(logos_targets=lambda: list(targets)), distribution)


GOOD = offering("good", target("good"), distribution="sound")


def raising(error: BaseException) -> Callable[[], Any]:
    def load() -> Any:
        raise error

    return load


def problem(manager: Manager) -> str:
    """The one problem, after everything was asked; the sound plugin's target is there."""
    assert list(manager.targets) == ["good"]
    assert manager.ops[: len(OPS)] == OPS
    assert manager.formats == manager.families == {}
    (one,) = manager.problems
    return one.text()


def refusal(manager: Manager, name: str, kind: str = "target") -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        getattr(manager, kind)(name)
    (one,) = refused.value.refusals
    return one.code, one.what


LEFT_OUT = "plugin odd of distribution strange is left out: "


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("No module named 'vendor'"), "ImportError: No module named 'vendor'"),
        (SyntaxError("invalid syntax"), "SyntaxError: invalid syntax"),
        (SystemExit(3), "SystemExit: 3"),
        (RuntimeError("two\nlines \x1b[2J of it"), "RuntimeError: two lines ?[2J of it"),
        (AttributeError(), "AttributeError"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_left_out(error: BaseException, said: str) -> None:
    manager = make_manager([Fake("odd", raising(error)), GOOD])
    assert problem(manager) == f"{LEFT_OUT}odd_module cannot be loaded: {said}"
    assert "raise error" in manager.problems[0].trace
    assert refusal(manager, "odd") == ("broken-target", problem(manager))
    assert refusal(manager, "odd", "family") == ("broken-family", problem(manager))
    assert refusal(manager, "god")[1] == "no installed plugin offers the target god; did you mean good?"


def test_an_interrupt_while_loading_is_no_fault_of_the_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        make_manager([Fake("odd", raising(KeyboardInterrupt()))])


def unmarked() -> list[Any]:
    return []


def unmarked_too() -> list[Any]:
    return []


def marked(name: str) -> Any:
    return hookimpl(specname=name)(lambda: [target("board")])


@hookimpl
def with_argument(job: object) -> list[Any]:
    return [job]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (plugin(logos_target=unmarked_too), "logos_target is no hook; did you mean logos_targets?"),
        (plugin(build=unmarked_too), "build is no hook"),
        (SimpleNamespace(logos_targets=unmarked), "logos_targets has no marker: decorate it with logos.hookimpl"),
        (SimpleNamespace(logos_target=unmarked),
         "logos_target is no hook and has no marker; did you mean logos_targets?"),
        (SimpleNamespace(logos_targets=with_argument), "odd_module cannot be loaded: PluginValidationError: "
         "Plugin 'odd' for hook 'logos_targets'"),
        (SimpleNamespace(logos_ops=hookimpl(lambda: [op("odd", "odd of X")]), logos_targets=with_argument),
         "odd_module cannot be loaded: PluginValidationError: "),
        (None, "odd_module cannot be loaded: "),
    ],
)  # fmt: skip
def test_a_hook_that_nobody_would_call_leaves_its_plugin_out(made: Any, said: str) -> None:
    if made is None:
        made = type("Odd", (), {"logos_targets": property(raising(RuntimeError("lazy")))})()
    manager = make_manager([point("odd", made), GOOD])
    assert problem(manager).startswith(LEFT_OUT + said)
    assert refusal(manager, "odd")[0] == "broken-target"


def test_a_helper_whose_name_is_far_from_every_hook_is_none() -> None:
    made = plugin(logos_targets=lambda: [target("board")])
    made.logos_version = unmarked
    manager = make_manager([point("odd", made)])
    assert (list(manager.targets), manager.problems) == (["board"], [])


def test_a_hook_may_be_given_by_specname() -> None:
    manager = make_manager([point("odd", SimpleNamespace(make=marked("logos_targets")))])
    assert (list(manager.targets), manager.problems) == (["board"], [])
    manager = make_manager([point("odd", SimpleNamespace(make=marked("aims"))), GOOD])
    assert problem(manager) == f"{LEFT_OUT}aims is no hook"


class Lazy:
    """A target whose attributes cost something, and fail."""

    name = "lazy"
    api = API

    @property
    def spells(self) -> frozenset[str]:
        raise OSError("no driver")


def generator() -> Any:
    yield target()


def twice(rows: Rows) -> Op:
    return Op("twice", "twice X at P", (Shapes("X (r, c) -> (r, c)"),), len, indexes={"P": "r"}, rows=rows)


@pytest.mark.parametrize(
    ("hook", "function", "said"),
    [
        ("logos_targets", lambda: None, "logos_targets() returned a NoneType, not a list"),
        ("logos_targets", lambda: target(), "logos_targets() returned a SimpleNamespace, not a list"),
        ("logos_targets", lambda: "board", "logos_targets() returned a str, not a list"),
        ("logos_targets", generator, "logos_targets() returned a generator, not a list"),
        ("logos_targets", raising(SystemExit()), "logos_targets() raised SystemExit"),
        ("logos_targets", raising(KeyError("spells")), "logos_targets() raised KeyError: 'spells'"),
        ("logos_targets", lambda: ["board"], "logos_targets(): a str is no Target: it has no api, dtypes, emit, "
         "fuses, name, options, outputs, refusals, run, spells, steps, stores"),
        ("logos_targets", lambda: [type("Board", (), vars(target()))],
         "logos_targets(): a type is no Target: it is a class, not an object"),
        ("logos_targets", lambda: [Lazy()], "logos_targets(): a Lazy raised OSError: no driver when it was looked at"),
        ("logos_targets", lambda: [target(name=3)], "logos_targets(): the name of a SimpleNamespace is 3, not a text"),
        ("logos_targets", lambda: [target(spells="plus")],
         "logos_targets(): `spells` of its target board is 'plus', not names"),
        ("logos_targets", lambda: [target(dtypes=("float32",))],
         "logos_targets(): `dtypes` of its target board is ('float32',), not a method"),
        ("logos_targets", lambda: [target(options=dict)],
         "logos_targets(): the options of its target board are no dataclass"),
        ("logos_targets", lambda: [target(api=API + 1)],
         f"logos_targets(): its target board is for contract version {API + 1}; this is version {API}"),
        ("logos_targets", lambda: [SimpleNamespace(name="board", api=API + 7)],
         f"logos_targets(): its target board is for contract version {API + 7}; this is version {API}"),
        ("logos_targets", lambda: [target(api=str(API))],
         f"logos_targets(): its target board is for contract version '{API}'; this is version {API}"),
        ("logos_checkpoints", lambda: [target()], "logos_checkpoints(): a SimpleNamespace is no CheckpointFormat: "
         "it has no open, reads"),
        ("logos_families", lambda: [target()],
         "logos_families(): a SimpleNamespace is no Family: it has no author, view"),
        ("logos_ops", lambda: [target()], "logos_ops(): a SimpleNamespace is no Op"),
        ("logos_ops", lambda: [Op("twice", "twice X", ("X (r, c)",), len)],  # type: ignore[arg-type]
         "logos_ops(): a Op raised AttributeError: 'str' object has no attribute 'operands' when it was looked at"),
        ("logos_ops", lambda: [Op("twice", "twice X", (Shapes("X (r, c) -> (r, c)"),), len, TypeRule.SAME)],
         "logos_ops(): its op twice has the type of its operands but is not exact on Int"),
        ("logos_ops", lambda: [Op("twice", "twice X", (), len)],
         "logos_ops(): its op twice lacks a sentence, shapes or a value"),
        ("logos_ops", lambda: [Op("twice", "twice X", (Shapes("X (r, c) -> (r, c)"),), len, counts=("N",))],
         "logos_ops(): its op twice has no hole N in its sentence"),
        ("logos_ops", lambda: [Op("twice", "twice X by Y", (Shapes("X (r, c) -> (r, c)"),), len)],
         "logos_ops(): its op twice has no shape for Y in `X (r, c) -> (r, c)`"),
        ("logos_ops", lambda: [Op("twice", "twice X [by Y]", (Shapes("X (r, c) -> (r, c)", given=("Y",)),), len)],
         "logos_ops(): its op twice has no shape for Y in `X (r, c) -> (r, c)`"),
        ("logos_ops", lambda: [twice(Rows(("Y",)))],
         "logos_ops(): the rule for many steps of its op twice holds ('Y',), not names of operands that it reads"),
        ("logos_ops", lambda: [twice(Rows("X"))],  # type: ignore[arg-type]
         "logos_ops(): the rule for many steps of its op twice holds 'X', not names of operands that it reads"),
        ("logos_ops", lambda: [twice(Rows(("X",), sets={"X": "P"}))],
         "logos_ops(): the rule for many steps of its op twice names rows or states that the op has not"),
        ("logos_ops", lambda: [twice(Rows(("P",), reads={"X": "X"}))],
         "logos_ops(): the rule for many steps of its op twice names rows or states that the op has not"),
        ("logos_ops", lambda: [twice(Rows(("P",), reads={"Y": "P"}))],
         "logos_ops(): the rule for many steps of its op twice reads rows of what is no operand"),
    ],
)  # fmt: skip
def test_what_breaks_its_contract_is_left_out(hook: str, function: Callable[[], Any], said: str) -> None:
    manager = make_manager([point("odd", plugin(**{hook: function})), GOOD])
    assert problem(manager).startswith(LEFT_OUT + said)


def test_a_plugin_for_another_contract_is_left_out_by_name_before_it_is_asked() -> None:
    newer = plugin(logos_targets=lambda: pytest.fail("asked"))
    newer.logos_api = API + 1
    same = plugin(logos_targets=lambda: [target("plank")])
    same.logos_api = API
    manager = make_manager([point("newer", newer), point("same", same), GOOD])
    assert list(manager.targets) == ["good", "plank"]
    (found,) = manager.problems
    assert found.text() == (
        f"plugin newer of distribution strange is left out: it is for contract version {API + 1}; this is version {API}"
    )


def test_a_target_for_another_contract_is_refused_by_name_when_asked_for() -> None:
    manager = make_manager([offering("odd", target("board", api=API + 1), target("plank")), GOOD])
    code, what = refusal(manager, "board")
    assert code == "broken-target"
    assert f"its target board is for contract version {API + 1}; this is version {API}" in what
    assert list(manager.targets) == ["good", "plank"]


def test_a_name_that_several_plugins_offer_is_nobodys() -> None:
    points = [offering(name, target("board"), distribution=f"dist-{name}") for name in ("one", "two", "three")]
    manager = make_manager([*points, GOOD])
    assert problem(manager) == (
        "plugin two of distribution dist-two is left out: target board is also offered by plugin one, three"
    )
    assert refusal(manager, "board") == (
        "contested-target", "the target board is offered by the plugins one, three and two"
    )  # fmt: skip
    family = SimpleNamespace(name="kin", author=lambda *_: "", view=lambda *_: None)
    points = [point(name, plugin(logos_families=lambda: [family])) for name in ("one", "two")]
    assert refusal(make_manager(points), "kin", "family")[0] == "contested-family"


def test_one_plugin_that_offers_a_name_twice_is_contested_with_itself() -> None:
    manager = make_manager([offering("odd", target("board"), target("board")), GOOD])
    assert problem(manager) == f"{LEFT_OUT}target board is also offered by plugin odd"


def test_entry_points_of_one_name_are_told_apart_by_their_distributions() -> None:
    manager = make_manager([
        offering("odd", target("board"), distribution="b"), offering("odd", target("plank"), distribution="a")
    ])  # fmt: skip
    assert [installed.plugin for installed in manager.plugins] == ["odd", "b:odd"]
    assert list(manager.targets) == ["board", "plank"]


def test_two_entry_points_of_one_module_are_one_plugin() -> None:
    made = plugin(logos_targets=lambda: [target("board")])
    manager = make_manager([point("odd", made), point("even", made)])
    assert [installed.plugin for installed in manager.plugins] == ["even"]
    assert [one.text() for one in manager.problems] == [f"{LEFT_OUT}odd_module is what plugin even names too"]


def op(name: str, sentence: str) -> Op:
    return Op(name, sentence, (Shapes("X (r, c) -> (r, c)"),), lambda X: X)


def test_an_op_that_could_be_taken_for_one_of_the_core_is_left_out() -> None:
    for sentence, said in (
        ("silu of X", "silu and odd could both be meant by `Let x be silu of x.`"),
        ("softly X [softly Y] [softly Z]", "odd and odd could both be meant by"),
    ):
        manager = make_manager([point("odd", plugin(logos_ops=lambda s=sentence: [op("odd", s)])), GOOD])
        assert problem(manager).startswith(f"{LEFT_OUT}its op odd: {said}")
        assert manager.ops == OPS
    manager = make_manager([point("odd", plugin(logos_ops=lambda: [op("matmul", "product of X")])), GOOD])
    assert problem(manager) == f"{LEFT_OUT}its op matmul: two ops are named matmul"


def test_two_plugins_ops_that_could_be_taken_for_each_other_are_both_left_out() -> None:
    points = [point(f"p-{name}", plugin(logos_ops=lambda n=name: [op(n, "relu of X")])) for name in ("a", "b")]
    manager = make_manager([*points, point("c", plugin(logos_ops=lambda: [op("c", "cube of X")])), GOOD])
    assert problem(manager) == (
        "plugin p-b of distribution strange is left out: its op b and a of plugin p-a: a and b could both be meant by "
        "`Let x be relu of x.`"
    )
    assert [one.name for one in manager.ops[len(OPS) :]] == ["c"]
    assert manager.offered("logos_ops") == {"c": ["c"]}


def test_what_is_not_there_is_refused_with_what_is() -> None:
    manager = make_manager([Fake("odd", raising(ImportError("gone"))), GOOD])
    with pytest.raises(Refused) as refused:
        manager.target("god")
    assert str(refused.value) == (
        "target god: no installed plugin offers the target god; did you mean good? [unknown-target]\n"
        "  next: installed: good; `logos plugins` shows from where; left out: odd"
    )


def test_every_hook_is_documented() -> None:
    for name in dir(Specs):
        if name.startswith("logos_"):
            assert getattr(Specs, name).__doc__
