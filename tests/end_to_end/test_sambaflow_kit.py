"""The bring-up kit of a whole hybrid model: small, checked where only it is, and carried by the double of the SDK."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

sys.path.insert(0, os.fspath(Path(__file__).parents[1] / "unit"))

import vendor_double

from logos.entry import main
from sambaflow_modules import load

MEGABYTES = 10_000_000
PROGRAM = """
Let tok be a 1 by 1 tensor of Int.
Let emb be a 5 by 3 tensor of Real.
Let K0 be a 4 by 3 tensor of Real.
Let pos be a 1 by 1 tensor of Int.
Let x be row tok of emb.
Set row pos of K0 to x.
Let next be argmax of x.
"""


def logos(*arguments: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code == 0


@pytest.fixture(scope="module", params=[pytest.param("host", marks=pytest.mark.slow), "region"])
def kit(request: pytest.FixtureRequest, oracles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of qwen35-tiny's artifact."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = oracles / "qwen35-tiny" / "qwen35-tiny-q8_0.gguf"
    logos("author", checkpoint, "-o", folder / "m.lg", "-q")
    options = ["-D", "selftest=4", "-D", f"state={request.param}"]
    target = ["--target", "rdu-sambaflow", "--checkpoint", checkpoint]
    logos("build", folder / "m.lg", *target, *options, "--out", folder / "kit", "-q")
    return folder / "kit"


def selftest(folder: Path, dtype: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    module = load(folder / "model.py")
    capsys.readouterr()
    code = module.main(module.PROGRAM, ["--selftest", "--dtype", dtype], module.selftest)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_kit_is_small_and_right(kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in kit.iterdir() if path.is_file()]
    assert sorted(path.name for path in files) == [
        "README.md",
        "compile.py",
        "manifest.json",
        "model.py",
        "selftest.safetensors",
        "weights.safetensors",
    ]
    assert sum(path.stat().st_size for path in files) < MEGABYTES
    for dtype in ("float64", "float32", "bfloat16"):
        code, record = selftest(kit, dtype, capsys)
        assert (code, record["selftest"], record["steps"], record["variables"]) == (0, "ok", 4, 16)


Run = Callable[..., tuple[int, str]]
PEF = ("--inference", "--pef", "out/step/step.pef")


@pytest.fixture
def run(kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """compile.py with a command, and with modes of the double: the exit code and the last line."""
    monkeypatch.chdir(tmp_path)

    def one(*arguments: str, **modes: object) -> tuple[int, str]:
        vendor_double.install(monkeypatch, **modes)
        monkeypatch.delitem(sys.modules, "model", raising=False)
        capsys.readouterr()
        try:
            code = load(kit / "compile.py").main(list(arguments))
        finally:
            sys.modules.pop("model", None)
        return code, capsys.readouterr().out.splitlines()[-1]

    return one


def test_the_double_carries_its_commands(run: Run) -> None:
    assert run("compile", "--inference", "--pef-name", "step")[0] == 0
    code, last = run("test", *PEF)
    assert (code, json.loads(last)["selftest"]) == (0, "ok")


@pytest.mark.slow
def test_the_double_shows_what_a_device_may_do_wrong(run: Run) -> None:
    run("compile", "--inference", "--pef-name", "step")
    assert run("run", *PEF, "--tokens", "1,2,3") == (0, '{"output": "next", "shape": [1, 1]}')
    code, last = run("test", *PEF, wrong={"aten.exp.default": 0.01})
    assert (code, json.loads(last)["first"]["variable"]) == (4, "S0")
    assert run("test", *PEF, "--bound", "bfloat16", bfloat16=True)[0] == 0
    with pytest.raises(RuntimeError, match=r"operator aten\.silu\.default is not supported"):
        run("compile", "--inference", "--pef-name", "step", fail=["aten.silu.default"])


@pytest.mark.slow
def test_a_build_makes_a_recording_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program, out = tmp_path / "p.lg", tmp_path / "out"
    program.write_text(PROGRAM, "utf-8")
    made = out / "selftest.safetensors"

    def built(*options: str) -> list[str]:
        """The steps that a build runs."""
        capfd.readouterr()
        logos("build", program, "--target", "rdu-sambaflow", "--out", out, "-v", *options)
        said = capfd.readouterr().err.splitlines()
        return sorted(line.split("] ")[1].split(" of ")[0] for line in said if "] " in line)

    record = f"record {made.name}"
    assert built("-D", "selftest=2") == ["emit p for rdu-sambaflow", record]
    first = made.read_bytes()
    assert built("-D", "selftest=2") == []
    assert built("-D", "selftest=2", "-D", "state=region") == ["emit p for rdu-sambaflow"]
    assert made.read_bytes() == first
    made.unlink()
    assert built("-D", "selftest=2", "-D", "state=region") == [record]
    assert made.read_bytes() == first
    assert record in built("-D", "selftest=3")
    program.write_text(PROGRAM.replace("5 by 3", "6 by 3"), "utf-8")
    assert record in built("-D", "selftest=3")
    assert built() == ["emit p for rdu-sambaflow"]
    assert not made.exists()


def test_the_recording_is_a_stage_that_explain_shows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM, "utf-8")
    logos("explain", tmp_path / "p.lg", "--target", "rdu-sambaflow", "-D", "selftest=3")
    assert "record 3 steps of the reference machine" in capfd.readouterr().out
