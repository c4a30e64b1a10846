"""The probes that rdu-sambaflow writes: complete, the same anywhere, and right on plain torch."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from test_sambaflow_compile import simple_statements, touches_sdk

from logos_sambaflow import TEMPLATE_MARK, VENDOR_HEADER, alternatives, probing, spelling
from logos_sambaflow.emitted import run_probes
from logos_sambaflow.options import Options
from logos_sambaflow.parts import VENDOR_PYTHON
from logos_sambaflow.target import SambaflowTarget


@cache
def texts() -> dict[str, str]:
    return {artifact.path: artifact.text for artifact in SambaflowTarget().probes(Options())}


@cache
def listed() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(texts()["probes.json"])["probes"])


def test_every_spelling_and_every_operator_has_its_probes() -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for probe in listed():
        found.setdefault((probe["kind"], probe["name"]), []).append(probe["dtype"])
    spelled = set(spelling.FIRST_OPS).union(*alternatives.ALTERNATIVES.values())
    assert {name for kind, name in found if kind == "spelling"} == spelled == set(spelling.HELPER_OPS)
    used = {name for helper in spelled for name in spelling.operators_of(helper, "listed")}
    used |= {name for helper in spelling.FIRST_OPS for name in spelling.operators_of(helper, "plain")}
    assert {name for kind, name in found if kind == "operator"} == used
    assert found["spelling", "silu"] == ["float32", "bfloat16"]
    assert found["spelling", "set_row"] == ["float32", "bfloat16", "int64"]
    assert found["operator", "minimum"] == ["float32", "bfloat16", "int32"]
    assert found["operator", "gt"] == found["operator", "eq"] == ["int32"]
    assert found["operator", "neg"] == ["float32", "bfloat16", "int32", "int64"]
    assert all(dtypes[:2] == ["float32", "bfloat16"] for (kind, _), dtypes in found.items() if kind == "spelling")


def test_first_spellings_are_probed_first_and_each_once() -> None:
    names = [(probe["kind"], probe["name"]) for probe in listed()]
    assert len({probe["folder"] for probe in listed()}) == len(names)
    kinds = list(dict.fromkeys("first" if name in spelling.FIRST_OPS else kind for kind, name in names))
    assert kinds[0] == "first"
    assert names[-1] == ("spelling", "gated_delta_by_softmax_and_pow")


@pytest.mark.parametrize("whole", [False, True])
def test_a_module_gives_what_is_due_on_plain_torch(whole: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    for probe in listed():
        if probe["dtype"].startswith("int") is not whole:
            continue
        values = json.loads(texts()[f"{probe['folder']}/values.json"])
        module = ModuleType("module")
        exec(compile(texts()[f"{probe['folder']}/module.py"], probe["folder"], "exec"), module.__dict__)

        def tensor(entry: dict[str, Any]) -> Any:
            return torch.tensor(entry["values"], dtype=getattr(torch, entry["dtype"]))

        made = module.Probe({entry["name"]: tensor(entry) for entry in values["parameters"]})
        assert not any(parameter.requires_grad for parameter in made.parameters())
        results = made(*map(tensor, values["inputs"]))
        assert type(results) is tuple
        assert len(results) == len(values["expected"])
        for result, due in zip(results, values["expected"], strict=True):
            assert result.dtype != torch.float64
            found = (result.double() if result.dtype.is_floating_point else result.long()).tolist()
            assert run_probes.shape(found) == run_probes.shape(due), probe["folder"]
            far = run_probes.difference(run_probes.flat(due), run_probes.flat(found))
            assert far <= probe["bound"], (probe["folder"], far)
            assert any(run_probes.flat(due)), f"{probe['folder']} would pass for an operator that gives zeros"


def test_row_numbers_are_none_that_a_constant_would_give() -> None:
    """A module is traced with ones: a row that was baked in is row 1, a lost one row 0."""
    rows = 0
    for probe in listed():
        values = json.loads(texts()[f"{probe['folder']}/values.json"])
        for entry in values["inputs"]:
            if entry["dtype"] == "int32" and probe["dtype"] != "int32":
                assert set(run_probes.flat(entry["values"])) <= {4, 5}
                rows += 1
    assert rows > 10


def test_values_are_held_exactly_and_float32_ones_not_by_bfloat16() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")
    for dtype in ("float32", "bfloat16"):
        array = probing.numbers("x", (3, 8), dtype)
        assert torch.tensor(array).to(getattr(torch, dtype)).double().tolist() == array.tolist()
        assert 0 < np.abs(array).min() < np.abs(array).max() < 1
    fine = probing.numbers("x", (3, 8), "float32")
    assert torch.tensor(fine).bfloat16().double().tolist() != fine.tolist()
    assert np.abs(probing.numbers("x", (3, 8), "int64")).max() > 2**24


def test_no_value_depends_on_the_last_digit_of_the_machine_that_computes_it() -> None:
    """An arithmetic of another last bit must not change a byte: no expected value lies near where rounding turns."""
    from logos import make_manager

    for probe in probing.probes(make_manager()):
        for array in probe.expected:
            if array.dtype.kind != "f":
                continue
            exact = array * 2**30 == np.rint(array * 2**30)  # sums and products of the inputs alone, the same anywhere
            turned = np.abs(array * 10**probing.DIGITS % 1 - 0.5)
            assert (exact | (turned > 1e-5)).all(), probe.folder


@pytest.mark.parametrize("name", ["run_probes.py", "spellings/silu-float32/compile.py"])
def test_scripts_are_the_vendors_python_and_mark_what_touches_the_sdk(name: str) -> None:
    text = texts()[name]
    tree = ast.parse(text, feature_version=VENDOR_PYTHON)
    assert text.startswith(VENDOR_HEADER + "\n")
    lines = text.split("\n")
    touching = [node for node in simple_statements(tree) if touches_sdk(node)]
    assert len(touching) == (2 if name == "run_probes.py" else 11)
    for node in touching:
        assert TEMPLATE_MARK in lines[node.lineno - 1] or TEMPLATE_MARK in lines[node.lineno - 2], ast.unparse(node)


def test_modules_are_the_vendors_python_and_every_compile_py_is_the_same() -> None:
    for probe in listed():
        ast.parse(texts()[f"{probe['folder']}/module.py"], feature_version=VENDOR_PYTHON)
    assert len({text for path, text in texts().items() if path.endswith("compile.py")}) == 1


def test_the_runner_needs_the_standard_library_alone() -> None:
    tree = ast.parse(texts()["run_probes.py"])
    names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert not names & {"torch", "numpy", "sambaflow"}


def test_probes_are_the_same_in_every_process() -> None:
    program = (
        "import hashlib, logos_sambaflow.probing as p\n"
        "print(hashlib.sha256(repr(p.probe_artifacts()).encode()).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == hashlib.sha256(repr(probing.probe_artifacts()).encode()).hexdigest()
