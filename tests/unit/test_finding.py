"""Bisecting runs that err in known ways: which stage is named, and whose fault it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import Graph, Machine, Source, Value
from logos.check import read_program
from logos.finding import Bisection, Finding
from logos.grammar import make_grammar
from logos.measure import Gap, beyond_rounding, gap_between
from logos.ops import OPS
from logos.reference import each_step, evaluate

Array = NDArray[Any]
Change = Callable[[int, str, Array], Array]
INF, NAN = math.inf, math.nan


class Erring(Machine):
    """The reference machine with a change to what its nodes make: (step, tap, value) → value."""

    def __init__(self, graph: Graph, values: Mapping[str, Array], change: Change) -> None:
        super().__init__(graph, values)
        self.names = {value: name for name, value in graph.taps.items()}
        self.change, self.count = change, 0

    def step(self, inputs: Mapping[str, Array] | None = None) -> dict[Value, Array]:
        given = {**self.values, **(inputs or {}), **self.states}
        now = {leaf.value: given[leaf.name] for leaf in self.graph.leaves}
        for node in self.graph.nodes:
            made = evaluate(node, now)
            now.update({value: self.change(self.count, self.names[value], array) for value, array in made.items()})
        newest = self.graph.newest()
        self.states = {leaf.name: now[newest[leaf.name]] for leaf in self.graph.states}
        self.count += 1
        return now


@dataclass
class Case:
    """A program with values, and a run of it that differs: in what its nodes make, in its leaves, in what it shows."""

    text: str
    values: Mapping[str, Any]
    tokens: Sequence[int] = ()
    dtype: str = "float32"
    change: Change = lambda step, name, value: value
    leaves: Mapping[str, Any] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    room: int = 2**28
    reads: list[int] = field(default_factory=list)

    def find(self) -> Finding:
        graph = read_program(Source("p.lg", self.text), make_grammar(OPS))
        values = {name: np.array(value) for name, value in self.values.items()}
        held = {**values, **{name: np.array(value) for name, value in self.leaves.items()}}
        steps = list(each_step(Erring(graph, held, self.change), self.tokens))

        def read(wanted: Sequence[Value], once: bool) -> dict[Value, Array]:
            shown = [value for value in wanted if value.name not in self.hidden]
            found = {value: np.stack([now[value] for now in steps[: 1 if once else None]]) for value in shown}
            self.reads.append(sum(array.size for array in found.values()))
            return found

        kinds = dict.fromkeys(graph.taps.values(), self.dtype)
        return Bisection(graph, values, self.tokens, read, kinds, self.room).find()


def at(name: str, factor: float, only: int | None = None) -> Change:
    """Multiplies a variable, at every step or at one."""
    return lambda step, tap, value: value * factor if tap == name and only in (None, step) else value


def named(finding: Finding) -> tuple[int, int]:
    """(step, line) of the first stage."""
    assert finding.first is not None
    return finding.first.step, finding.first.node.line


CHAIN = "Let x be a 1 by 2 tensor of Real.\nLet b be a 1 by 2 tensor of Real.\n" + "".join(
    f"Let y{k + 1} be {f'y{k}' if k else 'x'} hadamard b.\n" for k in range(12)
)
ONES = {"x": [[1.0, 0.5]], "b": [[1.0, 1.0]]}


def test_rounding_that_adds_up_is_no_stages_fault() -> None:
    """Each stage adds 2.5e-5, the third more: the fourth is the first beyond 1e-4."""
    case = Case(CHAIN, ONES, change=lambda step, tap, value: value * (1 + (4e-5 if tap == "y3" else 2.5e-5)))
    finding = case.find()
    assert (named(finding), finding.fault, finding.cause) == ((0, 6), "rounding", None)
    assert finding.most is not None
    assert (finding.most[0], finding.most[1].value.name) == ((0, 2), "y3")
    assert finding.most[1].difference == pytest.approx(4e-5, rel=1e-3)


def test_a_leaf_that_is_off_by_less_than_shows_is_not_blamed() -> None:
    case = Case(CHAIN, ONES, change=lambda step, tap, value: value * (1 + 2.5e-5), leaves={"b": [[1 + 1e-6, 1.0]]})
    finding = case.find()
    assert finding.first is not None
    assert [measure.value.name for measure in finding.first.wrong_leaves] == ["b"]
    assert (named(finding), finding.fault) == ((0, 6), "rounding")


AMPLIFIED = """\
Let x be a 1 by 2 tensor of Real.
Let W be a 2 by 1 tensor of Real.
Let h be transpose of x.
Let g be transpose of h.
Let y be g matmul W.
"""
NEARLY_NOTHING = {"x": [[1.0, 1.0]], "W": [[1.0], [-0.9]]}


def test_a_stage_that_errs_within_the_models_bound_is_found_behind_the_one_beyond_it() -> None:
    """h is off by 0.05 in one element, which bfloat16 allows over a model and not for one op; y, nearly 0, shows it."""

    def off(step: int, tap: str, value: Array) -> Array:
        return value + np.array([[0.05], [0.0]]) if tap == "h" else value

    finding = Case(AMPLIFIED, NEARLY_NOTHING, dtype="bfloat16", change=off).find()
    assert (named(finding), finding.fault) == ((0, 5), "stage")
    assert finding.first is not None
    assert finding.first.right_alone is True
    assert finding.culprit is finding.cause is not None
    assert (finding.cause.node.line, finding.cause.worst.gap) == (3, Gap(pytest.approx(0.05), 0, 0, 1.05, 1.0))
    # Without the stage that shows it every stage holds, and the stage is still said.
    finding = Case(AMPLIFIED.rsplit("Let y", 1)[0], NEARLY_NOTHING, dtype="bfloat16", change=off).find()
    assert (finding.first, finding.fault) == (None, None)
    assert finding.cause is not None
    assert finding.cause.node.line == 3


TABLE = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 3 by 2 tensor of Real.
Let K be a 4 by 2 tensor of Real.
Let x be row tok of emb.
Set row pos of K to x.
Let a be attention of x over K and K with 1 heads 1 groups up to pos.
Let next be argmax of a.
"""
ROWS = {"emb": [[1e-3, 0.0], [1.0, 2.0], [0.5, 0.5]]}


@pytest.mark.parametrize("tokens", [(0, 1), (1, 0)])
def test_the_scale_is_that_of_all_steps(tokens: tuple[int, int]) -> None:
    """1e-4 of row 0 is far from it, and near by the measure of row 1."""
    small = tokens.index(0)

    def off(step: int, tap: str, value: Array) -> Array:
        return value + 1e-4 if tap == "x" and step == small else value

    finding = Case(TABLE, ROWS, tokens, change=off).find()
    assert finding.first is None
    assert finding.nearest is not None
    assert 0.4 < finding.nearest[1].part < 0.9
    assert named(Case(TABLE, ROWS, (0, 0), change=off).find()) == (small, 5)


def test_the_first_is_the_earliest_step_and_in_it_the_earliest_stage() -> None:
    def off(step: int, tap: str, value: Array) -> Array:
        return value * 1.5 if (step, tap) in ((1, "a"), (2, "x")) else value

    assert named(Case(TABLE, ROWS, (1, 2, 1), change=off).find()) == (1, 7)


@pytest.mark.parametrize("step", [0, 2])
def test_a_state_is_a_stage_and_what_the_step_before_left_is_read(step: int) -> None:
    def lost(now: int, tap: str, value: Array) -> Array:
        return np.roll(value, 1, axis=0) if tap == "K" and now == step else value

    finding = Case(TABLE, ROWS, (1, 2, 1), change=lost).find()
    assert (named(finding), finding.fault) == ((step, 6), "stage")
    assert finding.first is not None
    left = [measure for measure in finding.first.operands if measure.value.version == 0]
    assert [(measure.value.name, measure.holds) for measure in left] == ([("K", True)] if step else [])


@pytest.mark.parametrize(
    ("leaves", "line", "wrong"),
    [
        ({"emb": [[1e-3, 0.0], [1.0, 2.001], [0.5, 0.5]]}, 5, "emb"),
        ({"emb": [[1e-3, 0.0], [NAN, 2.0], [0.5, 0.5]]}, 5, "emb"),
        ({"K": [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [3.0, 0.0]]}, 6, "K"),
    ],
)
def test_a_wrong_leaf_is_named_where_it_is_read_first(leaves: dict[str, Any], line: int, wrong: str) -> None:
    finding = Case(TABLE.replace("Let next be argmax of a.\n", ""), ROWS, (1, 2), leaves=leaves).find()
    assert (named(finding), finding.fault) == ((0, line), "leaf")
    assert finding.first is not None
    assert [measure.value.name for measure in finding.first.wrong_leaves] == [wrong]


def test_what_tokens_feed_is_compared_at_the_stages_own_step() -> None:
    finding = Case(TABLE, ROWS, (1, 2), change=at("x", 1.5, only=1)).find()
    assert (named(finding), finding.fault) == ((1, 5), "stage")
    assert finding.first is not None
    assert {measure.value.name: measure.holds for measure in finding.first.leaves} == {"tok": True, "emb": True}


def test_a_wrong_leaf_is_not_taken_for_a_wrong_stage_whose_rounding_it_enlarges() -> None:
    large = {"emb": [[1e-3, 0.0], [1e4, 2e4], [0.5, 0.5]]}
    finding = Case(TABLE, ROWS, (1, 2), change=at("x", 1 + 1e-6), leaves=large).find()
    assert (named(finding), finding.fault) == ((0, 5), "leaf")


def test_what_is_no_number_on_both_sides_is_the_programs_fault() -> None:
    program = "Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\nLet z be silu of y.\n"
    finding = Case(program, {"x": [[1.0, NAN, 2.0]]}).find()
    assert (named(finding), finding.fault, finding.cause) == ((0, 2), "program", None)


def test_the_choice_of_an_argmax_is_held_to_the_rule() -> None:
    program = "Let x be a 1 by 3 tensor of Real.\nLet h be silu of x.\nLet next be argmax of h.\n"
    chosen: Change = lambda step, tap, value: value * 0 + 2 if tap == "next" else value  # noqa: E731
    assert Case(program, {"x": [[1.0, 0.1, 1.00001]]}, change=chosen).find().first is None
    finding = Case(program, {"x": [[1.0, 0.1, 0.9]]}, change=chosen).find()
    assert (named(finding), finding.fault) == ((0, 3), "stage")
    assert finding.first is not None
    assert finding.first.worst.gap == Gap(INF, 0, 0, 2, 0)


def test_what_was_not_read_bounds_where_the_fault_lies() -> None:
    wrong = at("y5", 1.1)
    finding = Case(CHAIN, ONES, change=wrong, hidden=("y4", "y5", "y6")).find()
    assert (named(finding), finding.fault) == ((0, 9), "unread")
    assert [node.line for node in finding.inside] == [6, 7, 8, 9]
    assert [value.name for value in finding.border] == ["y3"]
    assert [value.name for value in finding.unread] == ["y4", "y5", "y6"]
    # A state that was not read leads to the step before; one that was read bounds it.
    wrong = at("K", 2.0, only=1)
    finding = Case(TABLE, ROWS, (1, 2, 1), change=wrong, hidden=("K",)).find()
    assert ([node.line for node in finding.inside], [value.name for value in finding.border]) == ([6, 7], ["x"])


@pytest.mark.parametrize("room", [1, 8 * 3 * 12])
def test_groups_find_the_same_in_less_room(room: int) -> None:
    whole = Case(TABLE, ROWS, (1, 2, 1), change=at("a", 1.5, only=1))
    grouped = replace(whole, room=room, reads=[])
    one, other = whole.find(), grouped.find()
    assert named(one) == named(other) == (1, 7)
    assert (one.fault, one.read, one.unread) == (other.fault, other.read, other.unread)
    assert len(grouped.reads) > len(whole.reads)
    assert max(grouped.reads) < max(whole.reads)


@pytest.mark.parametrize(
    ("due", "found", "gap"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], None),
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.5], [3.25, 4.0]], Gap(0.5, 0, 1, 2.5, 2.0)),
        ([[1.0, INF]], [[1.0, INF]], None),
        ([[1.0, INF]], [[1.0, -INF]], Gap(INF, 0, 1, -INF, INF)),
        ([[1.0, 5.0]], [[1.5, INF]], Gap(INF, 0, 1, INF, 5.0)),
        ([[1, 2]], [[1, 2]], None),
        ([[2**62, 2]], [[2**62, 3]], Gap(INF, 0, 1, 3, 2)),
        ([[2**62]], [[2**62 + 1]], Gap(INF, 0, 0, 2**62 + 1, 2**62)),
    ],
)
def test_the_gap_between_two_values(due: Any, found: Any, gap: Gap | None) -> None:
    assert gap_between(np.array(due), np.array(found)) == gap


def test_a_nan_agrees_with_nothing_but_where_its_operands_make_it() -> None:
    nan = np.array([[0.0, NAN]])
    gap = gap_between(nan, nan)
    assert gap is not None
    assert (gap.distance, gap.column) == (INF, 1)
    assert gap_between(nan, nan, nan_is_nan=True) is None
    for due, found in ((nan, nan * 0 + 1), (nan * 0 + 1, nan)):
        assert gap_between(due, found, nan_is_nan=True) is not None


@pytest.mark.parametrize(("dtype", "digits"), [("float64", 52), ("float32", 23), ("bfloat16", 8)])
def test_a_leaf_may_differ_by_its_dtypes_rounding(dtype: str, digits: int) -> None:
    due = np.array([[1.0, -3.0, 1e-3]])
    assert beyond_rounding(due, due * (1 + 2.0 ** -(digits + 1)), dtype) is None
    found = due.copy()
    found[0, 2] *= 1 + 2.0 ** (2 - digits)
    gap = beyond_rounding(due, found, dtype)
    assert gap is not None
    assert (gap.column, gap.found) == (2, found[0, 2])
