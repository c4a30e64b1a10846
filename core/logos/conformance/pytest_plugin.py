"""Conformance as a plugin of pytest: `pytest -p logos.conformance --logos-target NAME`.

One test for each op that the target spells, `logos::NAME::matmul`, and one for each check of its contract,
`logos::NAME::names`, beside whatever else pytest collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from logos.conformance.checks import Check
from logos.conformance.contract import CHECKS, check_contract
from logos.conformance.report import SHAPES, OpReport, Report, chosen_ops, conform
from logos.conformance.words import failure_lines
from logos.manager import make_manager
from logos.refusal import Refused


class NotConforming(Exception):
    """What a target does against its contract, in lines."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("logos", "conformance of LOGOS's targets")
    group.addoption("--logos-target", action="append", default=[], metavar="NAME", help="check this target; repeatable")
    group.addoption("--logos-option", action="append", default=[], metavar="KEY=VALUE", help="an option of the targets")
    group.addoption("--logos-shapes", type=int, default=SHAPES, metavar="N", help="shapes of each op, at least")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for target in config.getoption("--logos-target"):
        try:
            items.extend(_items(session, config, target))
        except Refused as refused:
            raise pytest.UsageError(str(refused)) from None


def _items(session: pytest.Session, config: pytest.Config, target: str) -> Iterator[pytest.Item]:
    run = _Run(target, dict(_pairs(config)), config.getoption("--logos-shapes"))
    for op in chosen_ops(make_manager(), target, ()):
        yield OpItem.from_parent(session, name=f"logos::{target}::{op.name}", run=run, tried=op.name)
    for check in CHECKS:
        yield CheckItem.from_parent(session, name=f"logos::{target}::{check}", run=run, tried=check)


def _pairs(config: pytest.Config) -> Iterator[tuple[str, str]]:
    for pair in config.getoption("--logos-option"):
        key, equals, value = pair.partition("=")
        if not equals:
            raise pytest.UsageError(f"--logos-option {pair}: KEY=VALUE is due")
        yield key, value


class _Run:
    """One conformance run, made when the first of its tests is: the ops' programs run side by side."""

    def __init__(self, target: str, options: dict[str, str], shapes: int) -> None:
        self.target, self.options, self.shapes = target, options, shapes
        self.manager = make_manager()
        self._report: Report | None = None

    def report(self) -> Report:
        if self._report is None:
            self._report = conform(self.manager, self.target, (), self.shapes, options=self.options)
        return self._report

    def op(self, name: str) -> OpReport:
        return next(one for one in self.report().ops if one.op.name == name)

    def check(self, name: str) -> Check:
        ops = self.report().ops if name == "refusals" else ()
        return next(check_contract(self.manager, self.target, self.options, (name,), ops))


class _Item(pytest.Item):
    def __init__(self, *, run: _Run, tried: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.run, self.tried = run, tried

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return "logos", None, self.name

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, NotConforming) else super().repr_failure(excinfo, style)


class OpItem(_Item):
    """An op in all its shapes."""

    def runtest(self) -> None:
        one = self.run.op(self.tried)
        if one.smallest is not None:
            raise NotConforming("\n".join(failure_lines(self.run.target, one.smallest, self.run.options)))
        if not one.comparisons:
            pytest.skip(f"nothing compared: {'; '.join(one.reasons.values())}")


class CheckItem(_Item):
    """A check of the contract."""

    def runtest(self) -> None:
        check = self.run.check(self.tried)
        if not check.holds:
            raise NotConforming("\n".join(check.faults))
        for note in check.notes:
            self.add_report_section("call", "logos", note)
