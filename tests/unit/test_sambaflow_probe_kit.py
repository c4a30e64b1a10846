"""Every probe through the vendor's double, in this process: nothing of one breaks the documented contract."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import vendor_double

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos_sambaflow.emitted import run_probes
from logos_sambaflow.probing import probe_artifacts
from sambaflow_modules import load

OVERLOADS = {"eq": "Tensor", "gt": "Tensor", "masked_fill": "Scalar", "mean": "dim", "slice": "Tensor", "where": "self"}
PEF = "out/probe/probe.pef"


@pytest.mark.slow
def test_every_probe_compiles_runs_and_gives_what_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {artifact.path: artifact.text for artifact in probe_artifacts()}
    probes = json.loads(texts["probes.json"])["probes"]
    operators = {probe["name"] for probe in probes if probe["kind"] == "operator"}
    known = [f"aten.{name}.{OVERLOADS.get(name, 'default')}" for name in sorted(operators)]
    vendor_double.install(monkeypatch, known=known)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for probe in probes:
        folder = tmp_path / probe["folder"]
        folder.mkdir(parents=True)
        for name in ("module.py", "compile.py", "values.json"):
            (folder / name).write_text(texts[f"{probe['folder']}/{name}"], encoding="utf-8")
        monkeypatch.chdir(folder)
        sys.modules.pop("module", None)
        script = load(folder / "compile.py")
        assert script.main(["compile", "--inference", "--pef-name", "probe"]) == 0
        assert script.main(["run", "--inference", "--pef", PEF]) == 0
        fault, far = run_probes.compared(str(folder))
        assert fault is None, probe["folder"]
        assert far <= probe["bound"], probe["folder"]
    sys.modules.pop("module", None)
    assert len(probes) > 200
