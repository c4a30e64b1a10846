"""`logos verify --bisect`: faults planted in an artifact are named; each fault is a way in which artifacts do err."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

import logos_sambaflow.host
from logos import Inputs, Job
from logos.cli.main import main
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import load

EXAMPLES = Path(__file__).parents[2] / "examples"
HYBRID = EXAMPLES / "hybrid/hybrid.lg"
LLAMA = EXAMPLES / "llama/llama.lg"
TOKENS = ("--tokens", "3,1,4,1,5")
Plant = Callable[[Path], None]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.out.splitlines()[0])
        return record


Bisect = Callable[..., Ran]


def in_this_process(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """model.py as a program, without the seconds that a Python with torch takes to start."""
    module = load(Path(command[2]))
    code = module.main(module.PROGRAM, command[3:])
    return subprocess.CompletedProcess(command, code, "", "it ended so")


@pytest.fixture
def bisect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bisect:
    """`logos verify --bisect` of a program, with a fault planted in its artifact."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logos_sambaflow.host.subprocess, "run", in_this_process)
    runs = SambaflowTarget.run

    def bisected(program: Path, plant: Plant | None = None, *arguments: object) -> Ran:
        done: set[Path] = set()

        def planted(self: SambaflowTarget, job: Job, inputs: Inputs) -> Any:
            if plant is not None and inputs.artifact not in done:
                plant(inputs.artifact)
                done.add(inputs.artifact)
            return runs(self, job, inputs)

        monkeypatch.setattr(SambaflowTarget, "run", planted)
        words = ["verify", str(program), "--target", "rdu-sambaflow", "--bisect", *map(str, arguments)]
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main(words)
        captured = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        said = [line for line in captured.out.splitlines() if not line.startswith('{"output"')]
        return Ran(exit.value.code, "\n".join(said), captured.err)

    return bisected


def helper(old: str, new: str) -> Plant:
    """Plants another text in a helper of model.py."""

    def plant(artifact: Path) -> None:
        text = (artifact / "model.py").read_text("utf-8")
        assert text.count(old) == 1, text.count(old)
        (artifact / "model.py").write_text(text.replace(old, new), encoding="utf-8")

    return plant


@pytest.mark.parametrize(
    ("program", "old", "new", "due"),
    [
        # (step, sentence, what it made wrong)
        (HYBRID, "return F.silu(X)", "return X * torch.tanh(X)", (0, "Let aq0 be silu of cq0.", ["aq0"])),
        pytest.param(HYBRID, "return torch.exp(AL * F", "return torch.exp(-AL * F",
                     (0, "Let a0 be decay of wa0", ["a0"]), marks=pytest.mark.slow),
        # The ring starts at zero: until a row has moved up, nothing shows.
        (HYBRID, "[1, TAPS - 1], dim=0)[1], X]", "[TAPS - 1, 1], dim=0)[0], X]",
         (1, "Let cq0 be causal conv of uq0", ["cq0", "Cq0"])),
        # A memory that forgets too little shows when there is something to forget.
        pytest.param(HYBRID, "new = alpha * s +", "new = s +",
                     (1, "Let o0 be gated delta of q0", ["o0", "S0"]), marks=pytest.mark.slow),
        (LLAMA, "d = T_numbers - P\n", "d = T_numbers - P - 1\n", (0, "Set row pos of K0 to k0.", ["K0"])),
        pytest.param(LLAMA, "+ hot * R", "+ hot * R * 1.001",
                     (0, "Set row pos of K0 to k0.", ["K0"]), marks=pytest.mark.slow),
        pytest.param(LLAMA, "scores + later * -1e30", "scores",
                     (0, "Let a0 be attention of q0", ["a0"]), marks=pytest.mark.slow),
        # What is no number is found at its stage: an argmax behind it does not end the run.
        (LLAMA, "F.silu(GATE) * UP", "F.silu(GATE) * UP * math.nan", (0, "Let s0 be swiglu of g0", ["s0"])),
    ],
    ids=["silu", "decay", "ring", "delta", "row", "state", "mask", "nan"],
)  # fmt: skip
def test_a_wrong_helper_is_named_at_the_first_stage_that_shows_it(
    bisect: Bisect, program: Path, old: str, new: str, due: tuple[int, str, list[str]]
) -> None:
    ran = bisect(program, helper(old, new), *TOKENS, "--dtype", "float32", "--json")
    record, first = ran.record, ran.record["first"]
    assert (ran.code, ran.err, record["holds"], record["fault"]) == (4, "", False, "stage")
    beyond = [made["variable"] for made in first["made"] if not made["holds"]]
    assert (first["step"], first["sentence"][: len(due[1])], beyond) == due
    assert record["cause"] is None
    assert record["unread"] == []
    # What the stage read was right, and what it made is not what that gives.
    assert all(read["holds"] for read in (*first["read"], *first["leaves"]))
    assert beyond == [made["variable"] for made in first["alone"] if not made["holds"]]


@pytest.mark.slow
def test_what_is_right_holds_in_every_dtype(bisect: Bisect) -> None:
    ran = bisect(HYBRID, None, *TOKENS)
    assert (ran.code, ran.err) == (0, "")
    heads = [line.split(";")[0] for line in ran.out.splitlines() if not line.startswith(" ")]
    assert heads == [f"{dtype}: every stage holds at 5 steps" for dtype in ("float64", "float32")]
    assert "58 values compared" in ran.out
    ran = bisect(HYBRID, None, *TOKENS, "-D", "dtype=bfloat16", "--json")
    record = ran.record
    assert (ran.code, record["holds"], record["dtype"], record["cause"]) == (0, True, "bfloat16", None)
    assert 1e-4 < record["nearest"]["difference"] < record["nearest"]["bound"] == 0.2


def weight(name: str, element: int, value: float) -> Plant:
    """Plants another value in an element of a weight in weights.safetensors."""

    def plant(artifact: Path) -> None:
        path = artifact / "weights.safetensors"
        data = bytearray(path.read_bytes())
        length = int.from_bytes(data[:8], "little")
        entry = json.loads(data[8 : 8 + length])[name]
        assert entry["dtype"] == "F32"
        at = 8 + length + entry["data_offsets"][0] + 4 * element
        data[at : at + 4] = np.float32(value).tobytes()
        path.write_bytes(data)

    return plant


@pytest.mark.parametrize(
    ("case", "name", "sentence"),
    [
        ("llama-tiny-untied", "Wk1", "Let k1 be h1 matmul Wk1."),
        ("llama-tiny-untied", "fn0", "Let f0 be rmsnorm of "),
        ("qwen35-tiny", "Wcq0", "Let q0 be causal conv of "),
    ],
)
def test_one_wrong_element_of_a_weight_is_named_with_its_place(
    bisect: Bisect, oracles: Path, tmp_path: Path, case: str, name: str, sentence: str
) -> None:
    checkpoint, program = oracles / case / f"{case}-q8_0.gguf", tmp_path / "m.lg"
    with pytest.raises(SystemExit) as exit:
        main(["author", str(checkpoint), "-o", str(program), "--context", "8", "-q"])
    assert exit.value.code == 0
    arguments = ("--checkpoint", checkpoint, *TOKENS, "--dtype", "float32")
    ran = bisect(program, weight(name, 3, 1.5), *arguments, "--json")
    record, first = ran.record, ran.record["first"]
    assert (ran.code, record["fault"], first["sentence"][: len(sentence)]) == (4, "leaf", sentence)
    (wrong,) = [leaf for leaf in first["leaves"] if not leaf["holds"]]
    assert (wrong["variable"], wrong["found"]) == (name, 1.5)
    # A matmul's weight is stored as [out, in] rows: its element 3 is row 3 of the program's first column.
    assert (wrong["row"], wrong["column"]) == ((3, 0) if "matmul" in sentence else (0, 3))
    # With that weight the op is right.
    assert all(made["holds"] for made in first["alone"])


TWICE = """\
Let x be a 1 by 3 tensor of Real.
Let S be a 2 by 3 tensor of Real.
Let y be silu of x.
Let y be sigmoid of y.
Set row 0 of S to y.
Set row 1 of S to x.
Let y be transpose of S.
"""


def test_every_version_of_a_name_is_a_stage(
    bisect: Bisect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "twice.lg"
    program.write_text(TWICE, encoding="utf-8")
    wrong = helper("return F.silu(X)", "return F.silu(X) + 1e-3")
    ran = bisect(program, wrong, "--json")
    assert [made["variable"] for made in ran.record["first"]["made"]] == ["y@1"]
    assert ran.record["compared"] == 5
    monkeypatch.setattr(SambaflowTarget, "reads_versions", False)
    ran = bisect(program, wrong, "--json")
    record = ran.record
    # y@1, y@2 and S@1 cannot be told apart from what follows: the fault lies between what can.
    assert (record["unread"], record["fault"], record["border"]) == (["y@1", "y@2", "S@1"], "unread", [])
    assert (record["first"]["sentence"], record["inside"]) == ("Set row 1 of S to x.", [3, 4, 5, 6])
    text = bisect(program, wrong).out
    assert "not compared, since the target reads no earlier versions of a name: 3 values (y@1, y@2, S@1)" in text
    assert text.splitlines()[-1].startswith("  the fault lies in the stages of lines 3, 4, 5, 6")


def test_the_report_says_all_of_the_stage(bisect: Bisect) -> None:
    ran = bisect(HYBRID, helper("return F.silu(X)", "return X * torch.tanh(X)"), *TOKENS, "--dtype", "float32")
    lines = ran.out.replace(str(HYBRID), "hybrid.lg").splitlines()
    assert lines[0] == "float32: the first stage beyond its bound, of 5 steps: step 0, hybrid.lg:48"
    assert lines[1:3] == ["    Let aq0 be silu of cq0.", "  silu: cq0 (1 by 8) → aq0 (1 by 8)"]
    assert [line.split(":")[0] for line in lines[3:-1]] == [
        "  made aq0", "    row 0, column 1", "  read cq0", "  alone, from what it read", "    row 0, column 1"
    ]  # fmt: skip
    assert "bound 0.0001  BEYOND ITS BOUND" in lines[3]
    assert lines[4] == "    row 0, column 1: the artifact 0.02348783612, the reference machine 0.08283656689"
    assert lines[-1] == "  the fault lies in the stage at hybrid.lg:48: what it read does not give what it made"
