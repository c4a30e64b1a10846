"""Conformance: every op that a target spells, in many shapes, against the reference machine.

    report = conform(make_manager(), "NAME")
    assert report.holds
    for check in check_contract(make_manager(), "NAME", ops=report.ops):
        assert check.holds, check.faults

`cases` are drawn from an op's declaration, `Trials` runs them, `conform` does both and shrinks what fails;
`check_contract` looks at what a target does beside its ops. As a plugin of pytest: `pytest -p logos.conformance
--logos-target NAME`.
"""

from __future__ import annotations

from logos.conformance.cases import Case as Case
from logos.conformance.cases import Form as Form
from logos.conformance.cases import forms as forms
from logos.conformance.cases import make_case as make_case
from logos.conformance.cases import program as program
from logos.conformance.cases import variants as variants
from logos.conformance.checks import Check as Check
from logos.conformance.contract import CHECKS as CHECKS
from logos.conformance.contract import check_contract as check_contract
from logos.conformance.prepare import Prepared as Prepared
from logos.conformance.prepare import cases as cases
from logos.conformance.prepare import prepare as prepare
from logos.conformance.report import SHAPES as SHAPES
from logos.conformance.report import OpReport as OpReport
from logos.conformance.report import Report as Report
from logos.conformance.report import conform as conform
from logos.conformance.sizes import random_sizes as random_sizes
from logos.conformance.trials import Outcome as Outcome
from logos.conformance.trials import Trials as Trials

pytest_plugins = ("logos.conformance.pytest_plugin",)
"""What pytest loads besides when it is given `-p logos.conformance`."""
