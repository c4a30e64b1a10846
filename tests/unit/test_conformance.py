"""Conformance runs of targets that are right, a little wrong, picky and broken; `logos conformance`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conformance_target import Array, Erring, manager_of, plugin_of

import logos.discovery
from logos import Graph, Inputs, Job, Node, Refusal, Refused, Role, Spot, WeightEntry, refuse
from logos.cli.main import main
from logos.conformance import conform
from logos.conformance.pytest_plugin import OpItem
from logos.conformance.trials import TOGETHER
from logos.weights.q8 import BLOCK, quantize, split

Err = Callable[[Node, Array], Array]


def wrong(name: str, amount: float, where: Callable[[Node], bool] = lambda node: True) -> Err:
    """An error in the reals that an op makes, of an amount relative to their largest."""

    def err(node: Node, array: Array) -> Array:
        if node.op.name != name or array.dtype.kind == "i" or not where(node):
            return array
        return array + amount * np.abs(array).max()

    return err


def test_every_op_of_a_target_that_is_right_holds_in_few_runs() -> None:
    target = Erring()
    report = conform(manager_of(target), "erring")
    assert report.holds
    assert {one.op.name for one in report.ops} == target.spells
    assert report.unspelled == ()
    shapes = sum(len(one.outcomes) for one in report.ops)
    assert len(target.runs) == 2 * -(-shapes // TOGETHER)
    for one in report.ops:
        assert (len(one.outcomes) >= 20, one.failed, dict(one.refused), one.smallest) == (True, 0, {}, None)
        per_shape = 2 if one.op.writes or one.op.name == "argmax" else 1
        assert one.comparisons == 2 * per_shape * len(one.outcomes)
        assert {"float64", "float32"} == set(one.worst)
        assert 0 <= one.worst["float32"].difference <= 1e-5


def test_ops_shapes_and_seed_are_those_asked_for() -> None:
    target = Erring()
    report = conform(manager_of(target), "erring", ["silu", "matmul"], 33, 7, {"dtypes": ("float32",)})
    assert [one.op.name for one in report.ops] == ["matmul", "silu"]
    assert [len(one.outcomes) for one in report.ops] == [33, 33]
    assert len(target.runs) == 1
    assert (
        report.ops[0].outcomes[-1].case.text
        != conform(manager_of(target), "erring", ["matmul"], 33, 8).ops[0].outcomes[-1].case.text
    )


def test_an_error_in_some_shapes_is_found_and_shrunk_to_the_least_of_them() -> None:
    target = Erring(err=wrong("matmul", 2e-4, lambda node: node.sizes["k"] % 2 == 1 and node.sizes["n"] > 2))
    report = conform(manager_of(target), "erring", ["matmul", "plus", "rope"])
    assert [one.op.name for one in report.ops if not one.holds] == ["matmul"]
    (matmul,) = (one for one in report.ops if one.op.name == "matmul")
    assert 0 < matmul.failed < len(matmul.outcomes)
    assert matmul.smallest is not None
    assert dict(matmul.smallest.case.sizes) == {"m": 1, "k": 1, "n": 3}
    assert not matmul.smallest.case.form.stored
    assert {dtype for dtype, _ in matmul.smallest.failures} == {"float64", "float32"}


def test_optional_parts_that_do_not_matter_are_shrunk_away_and_one_that_does_stays() -> None:
    target = Erring(err=wrong("rmsnorm", 0.1, lambda node: node.operands["RES"] is not None))
    (report,) = conform(manager_of(target), "erring", ["rmsnorm"]).ops
    assert report.smallest is not None
    assert report.smallest.case.form.present == {"OUT", "X", "RES", "W"}
    assert set(report.smallest.case.sizes.values()) == {1}


@pytest.mark.parametrize(
    ("name", "node"),
    [("gated delta", "S"), ("causal conv", "CS"), ("set row", "T")],
)
def test_a_state_that_is_not_written_is_found(name: str, node: str) -> None:
    def err(made: Node, array: Array) -> Array:
        return np.zeros_like(array) if node in made.writes and array.shape == made.writes[node].shape else array

    (report,) = conform(manager_of(Erring(err=err)), "erring", [name]).ops
    assert report.failed > 0


class Misreading(Erring):
    """Takes every weight for twice what it is."""

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        weights = {bound.name for bound in job.binding.leaves if bound.role is Role.WEIGHT}
        self.err = lambda node, array: array * 2 if any(one.name in weights for one in node.inputs) else array
        return super().run(job, inputs)


def test_operands_come_as_weights_too_and_those_that_are_misread_are_found() -> None:
    (report,) = conform(manager_of(Misreading()), "erring", ["matmul"]).ops
    assert 0 < report.failed < len(report.outcomes)
    assert report.smallest is not None
    assert report.smallest.case.form.stored


def test_an_integer_off_by_one_is_found() -> None:
    def err(node: Node, array: Array) -> Array:
        return array + (array.dtype.kind == "i")

    (report,) = conform(manager_of(Erring(err=err)), "erring", ["plus"]).ops
    assert report.smallest is not None
    assert not report.smallest.case.form.real
    assert "of Int." in report.smallest.case.text


def test_what_is_left_out_of_the_results_does_not_pass() -> None:
    report = conform(manager_of(Erring(leave_out="out_silu_5")), "erring", ["silu", "gelu"])
    silu, gelu = (one for one in sorted(report.ops, key=lambda one: one.op.name, reverse=True))
    assert silu.failed >= 1
    assert gelu.holds


def limit(graph: Graph) -> Refusal | None:
    wide = [node for node in graph.nodes if node.op.name == "softmax" and node.sizes["c"] > 64]
    if not wide:
        return None
    return Refusal("erring-too-wide", "softmax of more than 64 columns", wide[0].span, "make it narrower")


def test_shapes_that_a_target_refuses_are_counted_with_the_reason() -> None:
    target = Erring(refuse=limit)
    report = conform(manager_of(target), "erring", ["softmax", "silu"])
    assert report.holds
    softmax, silu = report.ops
    assert (softmax.op.name, dict(silu.refused)) == ("softmax", {})
    wide = sum(outcome.case.sizes["c"] > 64 for outcome in softmax.outcomes)
    assert wide > 2
    assert dict(softmax.refused) == {"erring-too-wide": wide}
    assert dict(softmax.reasons) == {"erring-too-wide": "softmax of more than 64 columns"}
    assert softmax.comparisons == 2 * (len(softmax.outcomes) - wide)
    assert len(target.runs) == 2


def test_a_target_that_takes_one_operation_a_program_is_asked_one_by_one() -> None:
    def one_at_a_time(graph: Graph) -> Refusal | None:
        if len(graph.nodes) < 2:
            return None
        return Refusal("erring-one", "a program has one operation", None, "write two programs")

    target = Erring(refuse=one_at_a_time)
    report = conform(manager_of(target), "erring", ["softmax", "silu"])
    assert report.holds
    assert all(len(one.outcomes) * 2 == one.comparisons for one in report.ops)
    assert set(target.runs) == {1}


def test_what_breaks_a_run_is_told_from_what_runs_beside_it() -> None:
    def crash(graph: Graph) -> None:
        for node in graph.nodes:
            if node.op.name == "l2norm" and node.sizes.get("c", 0) > 100:
                raise ZeroDivisionError("no root")

    report = conform(manager_of(Erring(crash=crash)), "erring", ["l2norm", "silu", "gelu"])
    broken = {one.op.name: one for one in report.ops}["l2norm"]
    assert [one.op.name for one in report.ops if not one.holds] == ["l2norm"]
    assert 0 < broken.failed == sum(outcome.case.sizes.get("c", 0) > 100 for outcome in broken.outcomes)
    assert broken.smallest is not None
    assert broken.smallest.error == "ZeroDivisionError: no root"
    assert broken.smallest.case.sizes == {"r": 1, "c": 101}


def test_a_host_that_lacks_what_runs_take_is_refused_after_few_of_them() -> None:
    def crash(graph: Graph) -> None:
        raise refuse("erring-no-card", "this machine has no card", None, "buy one")

    target = Erring(crash=crash)
    with pytest.raises(Refused, match="this machine has no card"):
        conform(manager_of(target), "erring", ["silu", "gelu"])
    assert len(target.runs) <= 3


def test_a_target_that_breaks_whatever_it_runs_is_refused_after_few_runs() -> None:
    def crash(graph: Graph) -> None:
        raise OSError("gone")

    target = Erring(crash=crash)
    with pytest.raises(Refused, match="target erring failed when it was asked to emit and run: OSError: gone"):
        conform(manager_of(target), "erring", ["silu", "gelu"])
    assert len(target.runs) <= 3


def test_a_run_that_compares_nothing_ends_with_the_target_s_refusal() -> None:
    refusal = Refusal("erring-never", "it takes nothing", Spot("erring"), "leave it")
    with pytest.raises(Refused, match="it takes nothing"):
        conform(manager_of(Erring(refuse=lambda graph: refusal)), "erring", ["silu"])


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """`logos` where a target is all that is installed, beside a family that names no weight."""
    monkeypatch.chdir(tmp_path)

    def run(target: Erring, *arguments: str) -> Ran:
        monkeypatch.setattr(logos.discovery, "entry_points", lambda group: [plugin_of(target)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(list(arguments))
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return Ran(exit.value.code, captured.out, captured.err)

    return run


def never_softmax(graph: Graph) -> Refusal | None:
    found = [node for node in graph.nodes if node.op.name == "softmax"]
    return Refusal("erring-no-softmax", "softmax never", found[0].span, "do without") if found else None


def test_an_op_that_is_refused_in_every_shape_is_not_said_to_be_ok(command: Command) -> None:
    target = Erring(spells=frozenset({"plus", "softmax"}), refuse=never_softmax)
    ran = command(target, "conformance", "erring", "--shapes", "2")
    plus, softmax, refused, *_, summary = ran.out.splitlines()
    assert plus.endswith("  ok")
    shapes = softmax.split()[1]
    assert softmax == f"softmax      {shapes} shapes  0 comparisons  nothing compared"
    assert refused == f"    refused in {shapes} shapes: softmax never [erring-no-softmax]"
    assert f", {shapes} refused, nothing compared of softmax, 4 checks, all hold; " in summary


def test_pytest_skips_an_op_that_is_refused_in_every_shape() -> None:
    report = conform(manager_of(Erring(refuse=never_softmax)), "erring", ["softmax", "silu"], 2)
    items = [
        SimpleNamespace(run=SimpleNamespace(op=lambda name, one=one: one), tried=one.op.name) for one in report.ops
    ]
    OpItem.runtest(cast("OpItem", items[1]))
    with pytest.raises(pytest.skip.Exception, match=r"^nothing compared: softmax never$"):
        OpItem.runtest(cast("OpItem", items[0]))


def test_the_command_prints_a_line_an_op_and_a_summary(command: Command) -> None:
    ran = command(Erring(spells=frozenset({"plus", "softmax"}), refuse=limit), "conformance", "erring")
    plus, softmax, refused, *checks, summary = ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert plus.startswith("plus         20 shapes  40 comparisons  float64 0 of 1e-09  float32 ")
    assert plus.endswith(" of 0.0001  ok")
    assert softmax.startswith("softmax      20 shapes  ")
    assert refused.startswith("    refused in ")
    assert refused.endswith(": softmax of more than 64 columns [erring-too-wide]")
    assert checks == [
        "fusion       no step  ok",
        "names        2 ops under 5 hostile names  ok",
        "determinism  2 emissions of 1 file  ok",
        "    not tried in other processes, which do not know the target erring",
        "refusals     20 ops not spelled, 2 spelled  ok",
        "    no build was tried: other processes do not know the target erring",
    ]
    assert summary.startswith("erring: 2 ops, 40 shapes, ")
    assert " refused, 4 checks, all hold; not spelled: matmul, " in summary


def test_a_failure_prints_a_program_and_the_command_that_shows_it(command: Command, tmp_path: Path) -> None:
    target = Erring(err=wrong("matmul", 2e-4, lambda node: node.sizes["n"] > 1))
    ran = command(target, "conformance", "erring", "--op", "matmul", "--op", "silu", "-D", "dtypes=float32", "-q")
    lines = ran.out.splitlines()
    assert ran.code == 4
    assert lines[0].startswith("matmul  20 shapes  20 comparisons  float32 0.0002 of 0.0001  FAILED in ")
    assert lines[2].endswith(" in float32 has the difference 0.0002, beyond 0.0001")
    program = [line[4:] for line in lines if line.startswith("    ")]
    assert program[0] == "# matmul: A (m, k), B (k, n) -> (m, n)"
    assert program[2].endswith(" be a 1 by 2 tensor of Real.")
    assert "silu" not in ran.out.partition("; not spelled")[0]
    again = command(target, *saved(ran, tmp_path))
    assert (again.code, again.err) == (4, "")
    assert "BEYOND ITS BOUND" in again.out


def saved(ran: Ran, folder: Path) -> list[str]:
    """Does what a failure's last line says: saves the program, and returns the command's arguments."""
    lines = ran.out.splitlines()
    program = [line[4:] for line in lines if line.startswith("    ")]
    (folder / "case.lg").write_text("\n".join(program) + "\n", encoding="utf-8")
    (next_,) = (line for line in lines if line.startswith("  next: "))
    arguments = shlex.split(next_.split("`")[1])
    assert arguments[0] == "logos"
    return arguments[1:]


def test_the_command_of_a_failure_with_weights_says_that_they_are_weights(command: Command, tmp_path: Path) -> None:
    ran = command(Misreading(), "conformance", "erring", "--op", "embedding")
    arguments = saved(ran, tmp_path)
    again = command(Misreading(), *arguments)
    assert "--tensor" in arguments
    assert again.code == 4
    without = [word for word in arguments if not word.startswith(("--tensor", "table_"))]
    assert command(Misreading(), *without).code == 0


def test_the_command_prints_json(command: Command) -> None:
    target = Erring(err=wrong("silu", 0.5), refuse=limit)
    ran = command(target, "conformance", "erring", "--op", "silu", "--op", "softmax", "--shapes", "5", "--json")
    softmax, silu, summary = map(json.loads, ran.out.splitlines())
    assert (ran.code, summary["holds"], summary["ops"]) == (4, False, 2)
    assert (silu["op"], silu["holds"], silu["shapes"], silu["failed"]) == ("silu", False, 5, 5)
    assert silu["program"].startswith("# silu: X (r, c) -> (r, c)\nLet x_silu_")
    assert silu["command"].startswith("logos verify case.lg --target erring --dtype float64")
    assert (softmax["holds"], softmax["refused"][0]["code"]) == (True, "erring-too-wide")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("erring", "--op", "silo"), 1, "--op silo: there is no op silo; did you mean silu? [unknown-op]"),
        (("erring", "--op", "moe"), 1, "--op moe: target erring does not spell the op moe [op-not-spelled]"),
        (("erring", "-D", "colour=red"), 1, "-D colour: target erring has no option colour [unknown-option]"),
        (("earring",), 1, "target earring: no installed plugin offers the target earring; did you mean erring?"),
        (("erring", "--shapes", "0"), 2, "0 is not in the range x>=1"),
    ],
)
def test_what_the_command_refuses(command: Command, arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = command(Erring(spells=frozenset({"silu"})), "conformance", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err


def test_a_target_that_spells_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="target erring spells no installed op"):
        conform(manager_of(Erring(spells=frozenset())), "erring")


def test_progress_hears_of_cases_done() -> None:
    heard: list[tuple[int, int]] = []
    conform(manager_of(Erring()), "erring", ["silu"], progress=lambda done, total: heard.append((done, total)))
    assert heard == [(0, 20), (20, 20)]


@dataclass
class Rounding(Erring):
    """A target that keeps what a matmul multiplies by in Q8_0, where its rows hold whole blocks."""

    def quantized(self, job: Job) -> tuple[WeightEntry, ...]:
        kept = {node.operands["B"] for node in job.graph.nodes if node.op.name == "matmul"}
        weights = (bound for bound in job.binding.leaves if bound.role is Role.WEIGHT)
        values = {bound.name: bound.leaf.value for bound in weights if bound.leaf.value in kept}
        whole = (name for name, value in values.items() if value.real and value.shape[0] % BLOCK == 0)
        return tuple(WeightEntry(name, "Q8_0", True) for name in whole)

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        for entry in self.quantized(job):
            file = inputs.weights / f"{entry.variable}.f64"
            rows = np.fromfile(file, "<f8").reshape(job.binding[entry.variable].leaf.value.shape).T
            quants, scales = split(quantize(rows).view(np.uint8))
            (quants * np.repeat(scales.astype(np.float64), BLOCK, axis=1)).T.tofile(file)
            self.rounded.append(entry.variable)
        return super().run(job, inputs)

    rounded: list[str] = field(default_factory=list)


def test_a_target_that_rounds_weights_is_held_to_the_weights_that_it_keeps() -> None:
    target = Rounding()
    report = conform(manager_of(target), "erring", ["matmul"], 40)
    assert report.holds
    assert target.rounded
