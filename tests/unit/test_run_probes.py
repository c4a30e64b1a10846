"""run_probes.py on probes whose compile.py is a stand-in: what becomes a finding, and that nothing stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from logos import Source, read_toml
from logos_sambaflow.emitted import run_probes
from logos_sambaflow.parts import text
from logos_sambaflow.support import read_support

COMPILE = """\
import json, os, subprocess, sys, time
command = sys.argv[1]
with open("calls.txt", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
doing = DOING
print(doing.get(command + " says", "no fallback was needed"))
if command in doing.get("hangs", ""):
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
    with open("hanging.part", "w") as file:
        file.write(str(started.pid))
    os.rename("hanging.part", "hanging")
    time.sleep(20)
if command == doing.get("fails"):
    raise RuntimeError(doing["message"])
if command == doing.get("crashes"):
    os.kill(os.getpid(), 9)
if command == "run" and "gives" in doing:
    json.dump(doing["gives"], open("outputs.json", "w"))
"""
DUE = [[[1.0, 2.0], [3.0, -4.0]]]
RIGHT: dict[str, Any] = {"gives": DUE}


class Kit:
    """A folder of probes, each doing as told, and a package called sambaflow that can be imported."""

    def __init__(self, folder: Path, doings: dict[str, dict[str, Any]]) -> None:
        self.folder, self.doings = folder, doings
        (folder / "run_probes.py").write_text(text("run_probes.py"), encoding="utf-8")
        probes = []
        for name, doing in doings.items():
            probe = folder / "spellings" / f"{name}-float32"
            probe.mkdir(parents=True)
            self.tell(name, doing)
            (probe / "module.py").write_text("", encoding="utf-8")
            (probe / "values.json").write_text(json.dumps({"expected": DUE}), encoding="utf-8")
            named = {"kind": "spelling", "name": name, "op": "silu", "digest": "d1", "dtype": "float32"}
            probes.append({**named, "bound": 1e-4, "folder": f"spellings/{name}-float32"})
        index = {"schema": "logos.sambaflow.support", "version": 1, "generator": "logos", "probes": probes}
        (folder / "probes.json").write_text(json.dumps(index), encoding="utf-8")
        for package in ("sambaflow", "torch"):
            self.package(package)

    def tell(self, name: str, doing: dict[str, Any]) -> None:
        script = self.folder / "spellings" / f"{name}-float32" / "compile.py"
        script.write_text(COMPILE.replace("DOING", repr(doing).replace("inf]", "1e999]")), encoding="utf-8")

    def package(self, name: str, source: str = '__version__ = "1.2"\n') -> None:
        (self.folder / "packages").mkdir(exist_ok=True)
        (self.folder / "packages" / f"{name}.py").write_text(source, encoding="utf-8")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder / "packages"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(self.folder / "run_probes.py"), *arguments]
        return subprocess.run(command, cwd="/", env=self.environment, capture_output=True, text=True)

    def calls(self, name: str) -> list[str]:
        file = self.folder / "spellings" / f"{name}-float32" / "calls.txt"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def support(self) -> dict[str, Any]:
        source = Source("support.toml", (self.folder / "support.toml").read_text("utf-8"))
        read_support(source)  # what the runner writes, LOGOS reads
        return read_toml(source).values

    def found(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.support()["spelling"][name]["float32"]
        assert found.pop("seconds") >= 0
        return found


def kit(folder: Path, **doings: dict[str, Any]) -> Kit:
    return Kit(folder, doings)


def test_every_end_of_a_probe_is_a_finding_and_the_next_follows(tmp_path: Path) -> None:
    message = 'no "kernel" for C:\\rdu\u2028\x07 \ud83d here'
    made = kit(
        tmp_path,
        right=RIGHT,
        unfit={"fails": "compile", "message": "operator aten.cumsum is not supported"},
        odd={"fails": "run", "message": message},
        killed={"crashes": "compile"},
        fallen={**RIGHT, "compile says": "[Warning] silu has no implementation, falling back to CPU"},
        wrong={"gives": [[[1.0, 2.0], [3.0, -4.1]]]},
        both={"gives": [[[1.0, 2.0], [3.0, 0.0]]], "run says": "Fell back to host"},
        infinite={"gives": [[[1.0, float("inf")], [3.0, -4.0]]]},
        shaped={"gives": [[1.0, 2.0]]},
        silent={},
        fewer={"gives": []},
        last=RIGHT,
    )
    ran = made.run()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert made.found("right") == {
        "op": "silu", "digest": "d1", "finding": "verified", "compiled": True, "fell_back": False, "difference": 0.0,
        "bound": 1e-4,
    }  # fmt: skip
    unfit = made.found("unfit")
    assert (unfit["finding"], unfit["compiled"]) == ("failed", False)
    assert unfit["message"] == "compile: RuntimeError: operator aten.cumsum is not supported"
    assert made.found("odd")["message"].startswith('run: RuntimeError: no "kernel" for C:\\rdu')
    assert made.found("odd")["compiled"] is True
    assert made.found("killed")["message"] == "compile: ended by signal 9"
    fallen = made.found("fallen")
    assert (fallen["finding"], fallen["fell_back"]) == ("falls back", True)
    assert fallen["log"] == "[Warning] silu has no implementation, falling back to CPU"
    assert (made.found("wrong")["finding"], made.found("wrong")["difference"]) == ("wrong", pytest.approx(0.025))
    assert made.found("both") == {
        "op": "silu", "digest": "d1", "finding": "wrong", "compiled": True, "fell_back": True, "difference": 1.0,
        "bound": 1e-4, "log": "Fell back to host",
    }  # fmt: skip
    assert made.found("infinite")["difference"] == float("inf")
    assert made.found("shaped")["message"] == "run: output 0 has shape [2]; [2, 2] is due"
    assert made.found("silent")["message"].startswith("run: no outputs were written")
    assert made.found("fewer")["message"] == "run: 0 outputs; 1 are due"
    assert made.found("last")["finding"] == "verified"
    assert ran.stdout.splitlines()[-1] == "2 verified, 1 falls back, 3 wrong, 6 failed"
    assert "[6/12] spelling wrong float32: wrong, 0.025 of 0.0001, " in ran.stdout


def test_the_machine_and_the_arguments_are_recorded_and_handed_on(tmp_path: Path) -> None:
    made = kit(tmp_path, right=RIGHT)
    assert made.run("--", "--graphamp-preset", "mp0").returncode == 0
    assert made.support()["machine"] == {"python": sys.version.split()[0], "torch": "1.2", "sambaflow": "1.2"}
    assert made.support()["arguments"] == ["--graphamp-preset", "mp0"]
    assert made.calls("right") == [
        "compile --inference --pef-name probe --graphamp-preset mp0",
        "run --inference --pef out/probe/probe.pef --graphamp-preset mp0",
    ]
    other = made.run()
    assert other.returncode == 1
    assert other.stderr == (
        "results.json is of another argument: ['--graphamp-preset', 'mp0'], not []; move it away with support.toml to "
        "keep both, or give --fresh\n"
    )
    assert made.run("--fresh").returncode == 0
    assert made.support()["arguments"] == []


def alive(process: int) -> bool:
    """Whether a process runs: what has ended may wait for a parent that does not ask (state Z)."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_probe_that_does_not_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    made = kit(tmp_path, hangs={"hangs": "compile"}, right=RIGHT)
    began = time.monotonic()
    assert made.run("--timeout", "2").returncode == 0
    assert time.monotonic() - began < 15
    started = int((tmp_path / "spellings/hangs-float32/hanging").read_text("utf-8"))
    assert not alive(started)
    assert made.found("hangs")["message"] == "compile did not end within 2 s"
    assert made.found("right")["finding"] == "verified"


def test_what_was_found_is_not_probed_again_unless_it_changed_or_failed(tmp_path: Path) -> None:
    made = kit(tmp_path, right=RIGHT, failing={"fails": "compile", "message": "no"})
    made.run()
    first = (tmp_path / "support.toml").read_text("utf-8")
    assert "0 of 2 probes to run" in made.run().stdout
    assert (len(made.calls("right")), len(made.calls("failing"))) == (2, 1)
    assert (tmp_path / "support.toml").read_text("utf-8") == first
    made.run("--retry")
    assert (len(made.calls("right")), len(made.calls("failing"))) == (2, 2)
    made.tell("failing", RIGHT)
    made.run()
    assert (len(made.calls("right")), made.found("failing")["finding"]) == (2, "verified")


def test_only_runs_what_is_named_and_the_order_stays(tmp_path: Path) -> None:
    made = kit(tmp_path, one=RIGHT, two=RIGHT, three=RIGHT)
    made.run("--only", "three-float32", "--only", "two")
    assert list(made.support()["spelling"]) == ["two", "three"]
    made.run("--only", "spellings/one-float32")
    assert list(made.support()["spelling"]) == ["one", "two", "three"]
    ran = made.run("--only", "four")
    assert (ran.returncode, ran.stderr) == (1, "--only four: there is no such probe; probes.json lists them\n")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_goes_on_where_it_was_stopped(tmp_path: Path, stop: int) -> None:
    made = kit(tmp_path, right=RIGHT, hangs={"hangs": "compile"}, last=RIGHT)
    command = [sys.executable, str(tmp_path / "run_probes.py")]
    running = subprocess.Popen(command, env=made.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    flag = tmp_path / "spellings/hangs-float32/hanging"
    for _ in range(600):
        if flag.exists():
            break
        time.sleep(0.05)
    running.send_signal(stop)
    _, said = running.communicate(timeout=30)
    if stop != signal.SIGKILL:
        assert (running.returncode, said) == (130, "interrupted; run it again to go on\n")
        assert not alive(int(flag.read_text("utf-8")))
    assert made.found("right")["finding"] == "verified"
    assert "hangs" not in made.support()["spelling"]
    made.tell("hangs", RIGHT)
    assert "2 of 3 probes to run" in made.run().stdout
    assert [made.found(name)["finding"] for name in ("right", "hangs", "last")] == ["verified"] * 3
    assert len(made.calls("right")) == 2


@pytest.mark.parametrize(
    "results",
    ["{", "[]", '{"results": []}', '{"results": {"spellings/right-float32": {}}}'],
)
def test_results_that_cannot_be_read_are_said(results: str, tmp_path: Path) -> None:
    made = kit(tmp_path, right=RIGHT)
    (tmp_path / "results.json").write_text(results, encoding="utf-8")
    ran = made.run()
    assert ran.returncode == 1
    assert ran.stderr.startswith("results.json cannot be read (")
    assert ran.stderr.endswith("); give --fresh to begin anew\n")
    assert ran.stderr.count("\n") == 1
    assert made.run("--fresh").returncode == 0


@pytest.mark.parametrize("lost", ["probes.json", "spellings/last-float32/values.json"])
def test_a_folder_that_is_not_whole_probes_nothing(lost: str, tmp_path: Path) -> None:
    made = kit(tmp_path, right=RIGHT, last=RIGHT)
    (tmp_path / lost).unlink()
    ran = made.run()
    assert (ran.returncode, ran.stdout, made.calls("right")) == (1, "", [])
    assert ran.stderr.startswith("the folder is not whole (FileNotFoundError(")
    assert ran.stderr.endswith("); copy it anew\n")


def test_a_python_without_the_vendor_s_package_probes_nothing(tmp_path: Path) -> None:
    made = kit(tmp_path, right=RIGHT)
    made.package("sambaflow", "raise ImportError('libsamba.so is missing')\n")
    ran = made.run()
    assert ran.returncode == 1
    assert ran.stderr == "this Python cannot import torch and sambaflow: ImportError: libsamba.so is missing\n"
    assert not (tmp_path / "support.toml").exists()


@pytest.mark.parametrize(
    ("line", "speaks"),
    [
        ("aten.silu: falling back to CPU", True),
        ("Op fell back to host", True),
        ("CPU fallback for silu", True),
        ("will fall-back", True),
        ("operator falls back", True),
        ("no fallback was needed", False),
        ("0 fallbacks", False),
        ("compiled without any fallback", False),
        ("background", False),
    ],
)
def test_a_log_speaks_of_a_fallback_in_these_words(line: str, speaks: bool) -> None:
    assert bool(run_probes.FALLBACK.search(line) and not run_probes.NO_FALLBACK.search(line)) is speaks


def test_a_difference_is_the_rule_of_verification() -> None:
    assert run_probes.difference([0.0, 0.0], [0.0, 0.0]) == 0
    assert run_probes.difference([0.0], [1e-30]) == float("inf")
    assert run_probes.difference([2.0, -8.0], [2.0, -7.0]) == 0.125
    assert run_probes.difference([1.0], [float("nan")]) == float("inf")
    assert run_probes.difference([2**60], [2**60 + 1]) > 0
