"""`logos verify` against targets that are right, a little wrong, and broken."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import logos.discovery
from logos import API, OPS, Artifact, Inputs, Job, Machine, Role, Steps, WeightEntry, WeightFile, hookimpl, run_steps
from logos.cli.main import main
from logos.weights.files import find_weight_file, read_weight_file

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let K be a 8 by 4 tensor of Real.
Let x be row tok of emb.
Set row pos of K to x.
Let logits be attention of x over K and K with 2 heads 2 groups up to pos.
Let next be argmax of logits.
"""


@dataclass(frozen=True)
class Bend:
    """How the bent target errs: what it adds to `logits`, the tap it leaves out; and what it says of itself."""

    bend: float = 0.0
    leave_out: str = ""
    dtypes: tuple[str, ...] = ("float64", "float32")
    outputs: tuple[str, ...] = ()


class Bent:
    """Runs the reference machine on what the artifact's folder holds, then errs as its options say."""

    name, api, spells, fuses, stores, options = "bent", API, frozenset(op.name for op in OPS), (), ("float32",), Bend
    seen: Inputs

    def refusals(self, job: Job) -> tuple[()]:
        return ()

    def emit(self, job: Job) -> tuple[Artifact, ...]:
        return (Artifact("sub/bent.txt", f"{len(job.graph.nodes)}\n"),)

    def steps(self, job: Job) -> Steps:
        stored = [bound.name for bound in job.binding.leaves if bound.role in (Role.WEIGHT, Role.CONSTANT)]
        return Steps((WeightFile("weights.safetensors", tuple(WeightEntry(name, "F32") for name in stored)),))

    def outputs(self, job: Job) -> tuple[str, ...]:
        outputs: tuple[str, ...] = job.options.outputs
        return outputs

    def dtypes(self, job: Job) -> tuple[str, ...]:
        dtypes: tuple[str, ...] = job.options.dtypes
        return dtypes

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, Any]:
        self.seen = inputs
        assert (inputs.artifact / "sub/bent.txt").read_text() == f"{len(job.graph.nodes)}\n"
        values = dict(inputs.arrays)
        for bound in job.binding.leaves:
            file = find_weight_file(inputs.weights, bound.name)
            if file is not None:
                values[bound.name] = read_weight_file(file, bound.name, bound.leaf.value.shape, True)
        record = run_steps(Machine(job.graph, values), inputs.taps, inputs.tokens)
        found = {name: record.stacked(name) for name in inputs.taps if name != job.options.leave_out}
        if "logits" in found:
            found["logits"] = found["logits"] + job.options.bend * np.abs(found["logits"]).max()
        return found


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Verify = Callable[..., Ran]


@pytest.fixture
def bent() -> Bent:
    return Bent()


@pytest.fixture
def verify(
    bent: Bent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Verify:
    """`logos verify` of p.lg for the bent target, with a family that names no weight."""
    family = SimpleNamespace(name="qwen35", author=lambda *_: "", view=lambda *_: None)
    plugin = SimpleNamespace(logos_targets=hookimpl(lambda: [bent]), logos_families=hookimpl(lambda: [family]))
    point = SimpleNamespace(name="bent", value="bent", dist=None, load=lambda: plugin)
    monkeypatch.setattr(logos.discovery, "entry_points", lambda group: [point])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")

    def run(*arguments: str, command: str = "verify") -> Ran:
        capfd.readouterr()
        target = ["--target", "bent"] if command == "verify" else []
        with pytest.raises(SystemExit) as exit:
            main([command, "p.lg", *target, *arguments])
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return Ran(exit.value.code, captured.out, captured.err)

    return run


def records(ran: Ran) -> dict[tuple[str, str], dict[str, Any]]:
    lines = [json.loads(line) for line in ran.out.splitlines()]
    return {(line["dtype"], line["variable"]): line for line in lines}


def test_what_agrees_is_listed_with_its_bound(verify: Verify) -> None:
    ran = verify("--tokens", "1,3,2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{dtype:8}  {name:16}  difference 0  bound {bound}  ok"
        for dtype, real in (("float64", "1e-09"), ("float32", "0.0001"))
        for name, bound in (("next", "0"), ("logits", real), ("K", real))
    ] + ["all 6 comparisons hold"]


def test_what_lies_beyond_its_bound_ends_with_4(verify: Verify) -> None:
    ran = verify("--tokens", "1,3,2", "-D", "bend=1e-6")
    assert ran.code == 4
    assert "float64   logits            difference 1e-06  bound 1e-09  BEYOND ITS BOUND" in ran.out
    assert ran.out.endswith("\n1 of 6 comparisons lie beyond their bounds; --bisect names the first stage that errs\n")
    assert verify("--tokens", "1,3,2", "-D", "bend=1e-6", "--dtype", "float32").code == 0


def test_values_that_are_no_numbers_are_infinitely_far(verify: Verify) -> None:
    ran = verify("--tokens", "1", "-D", "bend=nan", "--json")
    assert ran.code == 4
    assert records(ran)["float32", "logits"]["difference"] == "inf"
    assert records(ran)["float32", "K"]["holds"] is True


def test_the_dtypes_that_the_target_names_are_those_compared(verify: Verify, bent: Bent) -> None:
    ran = verify("--tokens", "1", "-D", "dtypes=bfloat16", "-D", "bend=0.1", "--json")
    assert (ran.code, bent.seen.dtype) == (0, "bfloat16")
    assert [key for key in records(ran) if key[0] != "bfloat16"] == []


def test_the_targets_outputs_are_compared(verify: Verify) -> None:
    ran = verify("--tokens", "1", "-D", "outputs=x", "--json")
    assert list(records(ran)) == [(dtype, name) for dtype in ("float64", "float32") for name in ("x", "K")]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("outputs=x,q", "`outputs` gave ('x', 'q'), not names of the program's variables"),
        ("dtypes=float8", "`dtypes` gave ('float8',), not some of float64, float32, bfloat16, float16, int8"),
        ("dtypes=", "`dtypes` gave (), not some of float64, float32, bfloat16, float16, int8"),
    ],
)
def test_a_target_that_says_what_the_contract_does_not_know_is_refused(verify: Verify, option: str, said: str) -> None:
    ran = verify("--tokens", "1", "-D", option)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"target bent: its {said} [broken-target]\n  next: tell its authors\n"


def test_a_tap_that_is_left_out_is_no_agreement(verify: Verify) -> None:
    with pytest.raises(KeyError, match="logits"):
        main(["verify", "p.lg", "--target", "bent", "--tokens", "1", "-D", "leave_out=logits"])


def test_without_tokens_inputs_and_states_are_noise_on_both_sides(verify: Verify, bent: Bent) -> None:
    assert verify().code == 0
    assert sorted(bent.seen.arrays) == ["K", "emb", "pos", "tok"]
    assert np.abs(bent.seen.arrays["K"]).min() > 0
    assert bent.seen.arrays["tok"].tolist() == [[0]]
    assert verify("--set", "tok=4", "--set", "emb=2").code == 0
    assert bent.seen.arrays["tok"].tolist() == [[4]]
    assert np.unique(bent.seen.arrays["emb"]).tolist() == [2.0]
    ran = verify("--tokens", "5")
    assert (ran.code, "[row-outside-table]" in ran.err) == (1, True)


def test_constants_reach_the_artifact_as_its_weight_file_says_and_given_ones_exactly(
    verify: Verify, bent: Bent, tmp_path: Path
) -> None:
    program = PROGRAM.replace("Let K be", "Set item 1 of emb to 0.1.\nLet K be")
    (tmp_path / "p.lg").write_text(program, encoding="utf-8")
    ran = verify("--tokens", "0", "--dtype", "float32", "--json")
    # 0.1 is stored as float32 and read back: a little off, and within its bound.
    assert 0 < records(ran)["float32", "K"]["difference"] < 1e-7
    ran = verify("--tokens", "0", "--set", "emb=0.1", "--json")
    assert records(ran)["float64", "K"]["difference"] == 0


def test_arrays_made_elsewhere_are_compared(verify: Verify, tmp_path: Path) -> None:
    noise = ("--tokens", "1,3,2", "--fill", "noise")
    assert verify(*noise, "--get", "logits,next", "--npy", "made", command="run").code == 0
    ran = verify("--tokens", "1,3,2", "--against", "made", "--json")
    assert ran.code == 0
    assert list(records(ran)) == [("float64", "next"), ("float64", "logits")]
    logits = np.load("made/logits.npy")
    np.save("made/logits.npy", logits * (1 + 1e-6))
    assert verify("--tokens", "1,3,2", "--against", "made").code == 4
    np.save("made/logits.npy", logits[:2])
    assert verify("--tokens", "1,3,2", "--against", "made").code == 4
    for array in (np.array(["a"]), logits + 1j, logits.astype(np.float16)):
        np.save("made/logits.npy", array)
        ran = verify("--tokens", "1,3,2", "--against", "made")
        assert (ran.code, "[value-type]" in ran.err) == (1, True)
    for data in (b"", b"\x93NUMPY", b"PK\x03\x04", b"\x80\x04N."):
        Path("made/logits.npy").write_bytes(data)
        ran = verify("--tokens", "1,3,2", "--against", "made")
        assert (ran.code, "[bad-value]" in ran.err) == (1, True)
    ran = verify("--against", "nowhere")
    assert (ran.code, "[nothing-to-compare]" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("change", "asked", "held"),
    [
        (lambda logits: logits.astype(np.float32), (), ("float32", 1e-4, True)),
        (lambda logits: logits.astype(">f4"), (), ("float32", 1e-4, True)),
        (lambda logits: logits.astype(np.float32).astype(np.float64), (), ("float64", 1e-9, False)),
        (lambda logits: logits.astype(np.float32).astype(np.float64), ("--dtype", "float32"), ("float32", 1e-4, True)),
        (lambda logits: logits.astype(np.float16), ("--dtype", "bfloat16"), ("bfloat16", 0.2, True)),
        (lambda logits: np.zeros(logits.shape, np.int32), (), ("integer", 0.0, False)),
    ],
)
def test_an_array_made_elsewhere_is_held_to_its_own_dtype(
    verify: Verify, change: Callable[[Any], Any], asked: tuple[str, ...], held: tuple[str, float, bool]
) -> None:
    noise = ("--tokens", "1,3,2", "--fill", "noise")
    assert verify(*noise, "--get", "logits,next", "--npy", "made", command="run").code == 0
    np.save("made/logits.npy", change(np.load("made/logits.npy")))
    ran = verify("--tokens", "1,3,2", "--against", "made", *asked, "--json")
    found = {name: (dtype, line["bound"], line["holds"]) for (dtype, name), line in records(ran).items()}
    # The choice of an argmax is judged as the operand is that it was made from.
    assert found == {"logits": held, "next": (held[0], 0.0, True)}
    assert ran.code == (0 if held[2] else 4)


def test_integers_made_elsewhere_agree_exactly_or_not(verify: Verify) -> None:
    noise = ("--tokens", "1,3,2", "--fill", "noise")
    assert verify(*noise, "--get", "next", "--npy", "made", command="run").code == 0
    ran = verify("--tokens", "1,3,2", "--against", "made", "--json")
    assert (ran.code, list(records(ran))) == (0, [("integer", "next")])
    np.save("made/next.npy", (np.load("made/next.npy") + 1) % 4)
    assert verify("--tokens", "1,3,2", "--against", "made").code == 4


def test_what_is_not_a_number_on_both_sides_does_not_hold(verify: Verify, tmp_path: Path) -> None:
    program = "Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\n"
    (tmp_path / "p.lg").write_text(program, encoding="utf-8")
    ran = verify("--set", "x=[[1, NaN, 2]]", "--json")
    assert ran.code == 4
    assert {(line["difference"], line["holds"]) for line in records(ran).values()} == {("inf", False)}


def test_what_build_prints_next_verifies_that_very_build(tmp_path: Path) -> None:
    """The options and `[weights]` of logos.toml are in the command: without them another build would be verified."""
    (tmp_path / "p.lg").write_text(
        "Let x be a 1 by 2 tensor of Real.\nLet W be a 2 by 2 tensor of Real.\nLet y be x matmul W.\n"
    )
    (tmp_path / "logos.toml").write_text(
        '[project]\nname = "p"\nprogram = "p.lg"\n[weights]\nW = "a tensor"\n'
        '[target.rdu-sambaflow]\ndtype = "bfloat16"\nweights = "none"\n'
    )
    logos = [sys.executable, "-m", "logos"]
    built = subprocess.run([*logos, "build"], cwd=tmp_path, capture_output=True, text=True, check=True)
    line = built.stdout.splitlines()[-1]
    assert line == (
        "next: logos verify p.lg --target rdu-sambaflow --tensor 'W=a tensor' -D dtype=bfloat16 -D weights=none"
    )
    words = [*logos, *shlex.split(line.removeprefix("next: logos "))]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("bfloat16  y ")
