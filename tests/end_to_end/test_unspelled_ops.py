"""A program with two ops that a target does not spell, one of them a plugin's: one report, and nothing is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PLUGIN = Path(__file__).parents[1] / "abacus_plugin"
PROGRAM = """\
Let x be a 2 by 4 tensor of Real.
Let R be a 3 by 4 tensor of Real.
Let G be a 6 by 4 tensor of Real.
Let D be a 12 by 2 tensor of Real.
Let a be moe of x with router R gate G up G down D top 2 of 3 experts.
Let b be relu of a.
Let c be b plus x.
Let d be moe of c with router R gate G up G down D top 1 of 3 experts.
"""
SPELLED = (
    "argmax, attention, causal conv, decay, embedding, full attention, gated delta, gelu, hadamard, l2norm, layernorm, "
    "matmul, plus, rmsnorm, rope, set row, sigmoid, silu, softmax, swiglu, transpose"
)
REPORT = f"""\
p.lg:5:1: target rdu-sambaflow does not spell the op moe (spelled by the installed target abacus, cpu, cuda)\
 [op-not-spelled]
    Let a be moe of x with router R gate G up G down D top 2 of 3 experts.
    {"^" * 69}
  also p.lg:8:1
    Let d be moe of c with router R gate G up G down D top 1 of 3 experts.
    {"^" * 69}
  next: build for abacus or cpu or cuda, or use what rdu-sambaflow spells: {SPELLED}
p.lg:6:1: target rdu-sambaflow does not spell the op relu (spelled by the installed target abacus) [op-not-spelled]
    Let b be relu of a.
    {"^" * 18}
  next: build for abacus, or use what rdu-sambaflow spells: {SPELLED}
2 refusals
"""


def logos(folder: Path, *arguments: str, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    (folder / "p.lg").write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.fspath(PLUGIN) if plugin else ""}
    command = [sys.executable, "-m", "logos", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def listing(folder: Path) -> list[tuple[str, int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path.relative_to(folder)), path.stat().st_mtime_ns, path.read_bytes()) for path in files]


def test_every_place_of_every_unspelled_op_is_in_one_report(tmp_path: Path) -> None:
    ran = logos(tmp_path, "build", "p.lg", "--target", "rdu-sambaflow", "--out", "out")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", REPORT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.lg"]


def test_the_artifact_of_an_earlier_build_is_left_as_it_is(tmp_path: Path) -> None:
    assert logos(tmp_path, "build", "p.lg", "--target", "abacus", "--out", "out").returncode == 0
    before = listing(tmp_path / "out")
    assert ("beads.txt", b"moe\nrelu\nplus\nmoe\n") in [(name, data) for name, _, data in before]
    ran = logos(tmp_path, "build", "p.lg", "--target", "rdu-sambaflow", "--target", "abacus", "--out", "out")
    assert (ran.returncode, ran.stderr) == (1, REPORT)
    assert listing(tmp_path / "out") == before


def test_check_asks_every_installed_target(tmp_path: Path) -> None:
    ran = logos(tmp_path, "check", "p.lg", "--json")
    targets = json.loads(ran.stdout)["targets"]
    assert (ran.returncode, targets["abacus"]) == (0, [])
    assert [(one["refusal"], one["where"], one["also"]) for one in targets["rdu-sambaflow"]] == [
        ("op-not-spelled", "p.lg:5:1", ["p.lg:8:1"]),
        ("op-not-spelled", "p.lg:6:1", []),
    ]


def test_the_target_that_spells_both_verifies(tmp_path: Path) -> None:
    ran = logos(tmp_path, "verify", "p.lg", "--target", "abacus")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_without_the_plugin_its_sentence_is_unknown(tmp_path: Path) -> None:
    ran = logos(tmp_path, "build", "p.lg", "--target", "rdu-sambaflow", "--out", "out", plugin=False)
    assert ran.returncode == 1
    assert "p.lg:6:10: this is no sentence of the language: the word relu is unknown" in ran.stderr
    assert "1 refusals" not in ran.stderr
