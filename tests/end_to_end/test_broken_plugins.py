"""A third party's plugin in any state of disrepair, installed for real: every other command goes on with one warning,
and its target, asked for, gets one refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "from logos import hookimpl\n"
HOOK = "def logos_targets():\n    return [Odd()]\n"
TARGET = """\
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    pass


class Odd:
    name, api, spells, fuses, stores, options = "NAME", 1, frozenset(), (), (), Options

    def refusals(self, job): return ()
    def emit(self, job): return ()
    def steps(self, job): return None
    def run(self, job, inputs): return {}
    def outputs(self, job): return ()
    def dtypes(self, job): return ("float64",)


"""

FAULTS = {
    "import-error": ("import vendor_sdk\n", "odd", "No module named 'vendor_sdk'"),
    "syntax-error": ("def broken(:\n", "odd", "SyntaxError"),
    "system-exit": ("raise SystemExit('no licence')\n", "odd", "SystemExit: no licence"),
    "misspelt-hook": (
        f"{HEAD}{TARGET}@hookimpl\n{HOOK.replace('targets', 'target')}",
        "odd",
        "did you mean logos_targets?",
    ),
    "no-marker": (f"{TARGET}{HOOK}", "odd", "logos_targets has no marker"),
    "taken-name": (
        f"{HEAD}{TARGET.replace('NAME', 'rdu-sambaflow')}@hookimpl\n{HOOK}",
        "rdu-sambaflow",
        "target rdu-sambaflow is also offered by plugin",
    ),
    "wrong-type": (f"{HEAD}@hookimpl\ndef logos_targets():\n    return ['odd']\n", "odd", "a str is no Target"),
    "wrong-list": (f"{HEAD}@hookimpl\ndef logos_targets():\n    return 7\n", "odd", "returned a int, not a list"),
    "raises": (f"{HEAD}@hookimpl\ndef logos_targets():\n    raise KeyError('x')\n", "odd", "raised KeyError: 'x'"),
}


def install(folder: Path, name: str, module: str) -> None:
    info = folder / f"{name}-3.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text(f"[logos]\nodd = {name}_module\n")
    (folder / f"{name}_module.py").write_text(module.replace("NAME", "odd"))


FAST = ("system-exit", "no-marker", "taken-name")
SLOW = [pytest.param(fault, marks=pytest.mark.slow) for fault in FAULTS if fault not in FAST]


@pytest.mark.parametrize("fault", [*FAST, *SLOW])
def test_a_broken_plugin_breaks_its_own_target_alone(tmp_path: Path, fault: str) -> None:
    module, target, cause = FAULTS[fault]
    install(tmp_path / "site", "strange", module)
    toy = Path(__file__).parents[1] / "toy_plugin"
    path = os.pathsep.join([os.fspath(tmp_path / "site"), os.fspath(toy)])
    (tmp_path / "p.lg").write_text("Let x be a 1 by 1 tensor of Real.\nLet y be silu of x.\n")

    def logos(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "logos", *arguments]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    for arguments in (("build", "p.lg", "--target", "toy", "--family", "toy"), ("targets",)):
        ran = logos(*arguments)
        assert ran.returncode == 0, ran.stderr
        (warning,) = ran.stderr.splitlines()
        assert warning.startswith("warning: plugin ")
        assert "of distribution strange is left out: " in warning
        assert cause in warning
    asked = logos("build", "p.lg", "--target", target, "--out", "other")
    assert asked.returncode == 1
    assert asked.stderr.count("\n  next: ") == 1
    assert asked.stdout == ""
    assert not (tmp_path / "other").exists()
