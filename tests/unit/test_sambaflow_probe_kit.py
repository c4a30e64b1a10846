"""Probes through the vendor's double, in this process: nothing of one breaks the documented contract."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import vendor_double

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos_sambaflow.emitted import run_probes
from logos_sambaflow.probing import probe_artifacts
from sambaflow_modules import load

OVERLOADS = {"eq": "Tensor", "gt": "Tensor", "masked_fill": "Scalar", "mean": "dim", "slice": "Tensor", "where": "self"}
PEF = "out/probe/probe.pef"


@cache
def texts() -> dict[str, str]:
    return {artifact.path: artifact.text for artifact in probe_artifacts()}


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., float]]:
    """Compiles and runs the probe of a folder; gives how far its values lie from what is due."""

    def probe(name: str, **modes: object) -> float:
        vendor_double.install(monkeypatch, **modes)
        monkeypatch.setattr(sys, "path", list(sys.path))
        folder = tmp_path / name
        folder.mkdir(parents=True)
        for file in ("module.py", "compile.py", "values.json"):
            (folder / file).write_text(texts()[f"{name}/{file}"], encoding="utf-8")
        monkeypatch.chdir(folder)
        sys.modules.pop("module", None)
        script = load(folder / "compile.py")
        assert script.main(["compile", "--inference", "--pef-name", "probe"]) == 0
        assert script.main(["run", "--inference", "--pef", PEF]) == 0
        fault, difference = run_probes.compared(str(folder))
        assert fault is None, name
        return float(difference)

    yield probe
    sys.modules.pop("module", None)


def test_arithmetic_in_bfloat16_shows_in_float32_alone(far: Callable[..., float]) -> None:
    assert 1e-3 < far("operators/mul-float32", bfloat16=True) < 1e-2
    assert far("operators/mul-bfloat16", bfloat16=True) < 1e-2
    assert far("operators/sub-float32") < 1e-8


@pytest.mark.slow
def test_every_probe_compiles_runs_and_gives_what_is_due(far: Callable[..., float]) -> None:
    probes = json.loads(texts()["probes.json"])["probes"]
    operators = {probe["name"] for probe in probes if probe["kind"] == "operator"}
    known = [f"aten.{name}.{OVERLOADS.get(name, 'default')}" for name in sorted(operators)]
    found = {probe["folder"]: (far(probe["folder"], known=known), probe["bound"]) for probe in probes}
    assert {name: one for name, one in found.items() if not one[0] <= one[1]} == {}
    assert len(found) > 200
