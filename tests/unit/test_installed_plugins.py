"""Plugins that are installed for real: a distribution's folder on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(folder: Path, name: str, module: str, entry_points: str | None = None) -> None:
    info = folder / f"{name}-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\n", encoding="utf-8")
    listed = f"[logos]\n{name} = {name}_module\n" if entry_points is None else entry_points
    (info / "entry_points.txt").write_text(listed, encoding="utf-8")
    (folder / f"{name}_module.py").write_text(module, encoding="utf-8")


def logos(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.fspath(folder)}
    command = [sys.executable, "-m", "logos", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


TARGETLESS = "import sys\nfrom logos import hookimpl\n\n\n@hookimpl\ndef logos_targets():\n    return []\n"


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("import vendor_sdk\n", "ModuleNotFoundError: No module named 'vendor_sdk'"),
        pytest.param("def broken(:\n", "SyntaxError: ", marks=pytest.mark.slow),
        pytest.param("raise SystemExit('no licence')\n", "SystemExit: no licence", marks=pytest.mark.slow),
        (f"{TARGETLESS}\nlogos_familes = logos_targets\n", "logos_familes is no hook; did you mean logos_families?"),
    ],
)
def test_a_broken_installed_plugin_is_one_warning_and_every_command_goes_on(
    tmp_path: Path, module: str, cause: str
) -> None:
    install(tmp_path, "odd", module)
    ran = logos(tmp_path, "ops")
    assert ran.returncode == 0
    assert "matmul" in ran.stdout
    (warning,) = ran.stderr.splitlines()
    assert warning.startswith("warning: plugin odd of distribution odd is left out: ")
    assert cause in warning
    verbose = logos(tmp_path, "ops", "-v")
    assert (verbose.returncode, "Traceback" in verbose.stderr) == (0, "is no hook" not in cause)
    (tmp_path / "p.lg").write_text("Let x be a 1 by 1 tensor of Real.\nLet y be silu of x.\n", encoding="utf-8")
    out = tmp_path / "out"
    asked = logos(tmp_path, "build", f"{tmp_path}/p.lg", "--target", "odd", "--out", os.fspath(out))
    assert asked.returncode == 1
    assert asked.stderr.count("[broken-target]") == 1
    assert not out.exists()


def test_a_damaged_distribution_does_not_hide_the_others(tmp_path: Path) -> None:
    install(tmp_path, "odd", "", entry_points="[logos]\nno equals sign\n")
    install(tmp_path, "even", TARGETLESS)
    ran = logos(tmp_path, "plugins", "--json")
    assert ran.returncode == 0
    assert {"even", "gguf", "rdu-sambaflow"} <= {json.loads(line)["plugin"] for line in ran.stdout.splitlines()}


def test_a_plugin_that_prints_on_import_does_not_spoil_the_output(tmp_path: Path) -> None:
    install(tmp_path, "odd", f"print('welcome')\n{TARGETLESS}")
    ran = logos(tmp_path, "plugins", "--json")
    assert [json.loads(line)["plugin"] for line in ran.stdout.splitlines()]
    assert "welcome" in ran.stderr
