"""`--prefill` of run and generate: the same output as token by token, or one line that says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from logos.cli.main import main

PLUGIN = Path(__file__).parents[1] / "abacus_plugin"
PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let e be a 8 by 8 tensor of Int.
Let K be a 12 by 8 tensor of Int.
Let x be row tok of e.
Set row pos of K to x.
Let two be x plus x.
Show item 2 of two.
Show row 3 of K.
Let next be argmax of two.
"""
RELU = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let e be a 8 by 8 tensor of Real.
Let K be a 12 by 8 tensor of Real.
Let x be row tok of e.
Let y be relu of x.
Let z be relu of y.
Set row pos of K to z.
Let next be argmax of z.
"""
IDS = "3,1,4,1,5,2,6"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`logos run p.lg --fill noise` with more arguments, in a folder of its own: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.lg").write_text(PROGRAM, encoding="utf-8")

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["run", "p.lg", "--fill", "noise", *arguments])
        captured = capfd.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return command


@pytest.mark.parametrize("prefill", [(), ("--prefill", "2"), ("--prefill", "3"), ("--prefill", "100")])
@pytest.mark.parametrize(
    "more",
    [(), ("--generate", "4"), ("--get", "two,K,next,tok"), ("--get", "x", "--json", "--generate", "2"), ("--get", "*")],
)
def test_the_output_is_that_of_single_steps(run: Run, prefill: tuple[str, ...], more: tuple[str, ...]) -> None:
    single = run("--tokens", IDS, *more, "--prefill", "off")
    assert single[0] == 0
    assert single[1]
    assert run("--tokens", IDS, *more, *prefill) == single


@pytest.mark.parametrize("count", [1, 2, 11, 12, 13, 14])
def test_a_prompt_up_to_the_context_s_length_is_right_and_a_longer_one_one_refusal(run: Run, count: int) -> None:
    tokens = ",".join(str(number % 8) for number in range(count))
    outcomes = [run("--tokens", tokens, "--prefill", prefill) for prefill in ("off", "5", "12", "128")]
    assert outcomes == outcomes[:1] * 4
    code, output, errors = outcomes[0]
    assert (code, bool(output)) == ((0, True) if count <= 12 else (1, False))
    assert errors.count("pos is 12, outside the rows 0 to 11 of K [row-outside-table]") == int(count > 12)


def test_a_prompt_of_no_tokens_is_wrong_usage(run: Run) -> None:
    code, _, errors = run("--tokens", "", "--prefill", "4")
    assert (code, "'' is not a list of token ids" in errors) == (2, True)


def test_files_hold_every_step(run: Run, tmp_path: Path) -> None:
    for name, prefill in (("one", "off"), ("many", "3")):
        code, _, errors = run("--tokens", IDS, "--get", "two,next,e", "--npy", name, "--prefill", prefill)
        assert (code, errors) == (0, "")
    for variable, shape in (("two", (7, 8)), ("next", (7, 1)), ("e", (7, 8, 8))):
        one, many = (np.load(tmp_path / name / f"{variable}.npy") for name in ("one", "many"))
        assert one.shape == shape
        assert np.array_equal(one, many)


def test_a_state_of_every_step_takes_single_steps_and_says_so(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("--tokens", IDS, "--get", "K", "--npy", "files")
    line = "the prompt goes token by token: the state K is asked for at every step (p.lg)\n"
    assert (code, errors) == (0, line)
    assert np.load(tmp_path / "files/K.npy").shape == (7, 12, 8)
    assert run("--tokens", IDS, "--get", "K", "--npy", "files", "--quiet")[2] == ""
    assert run("--tokens", IDS, "--get", "K", "--npy", "files", "--prefill", "off")[2] == ""
    assert run("--tokens", IDS, "--get", "K@0")[2] == (
        "the prompt goes token by token: what K was before the last step is asked for (p.lg)\n"
    )
    assert run("--tokens", "1", "--get", "K@0")[2] == ""


def test_an_op_without_a_rule_is_named_with_its_places(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(RELU, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.fspath(PLUGIN)}
    command = [sys.executable, "-m", "logos", "run", "p.lg", "--fill", "noise", "--tokens", IDS, "--generate", "3"]
    many, one = (
        subprocess.run([*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        for more in ((), ("--prefill", "off"))
    )
    assert many.stderr == (
        "the prompt goes token by token: the op relu has no rule for many steps at once (p.lg:6:1, p.lg:7:1)\n"
    )
    assert one.stderr == ""
    assert many.stdout == one.stdout != ""


def test_many_reasons_are_one_line(run: Run, tmp_path: Path) -> None:
    lines = "".join(f"Let a{number} be row {number} of K.\n" for number in range(5))
    (tmp_path / "p.lg").write_text(PROGRAM.replace("Let x be row", f"{lines}Let x be row"), encoding="utf-8")
    code, _, errors = run("--tokens", IDS)
    places = [f"K is read above the sentence that writes it (p.lg:{line}:1)" for line in (5, 6, 7)]
    assert (code, errors) == (0, f"the prompt goes token by token: {'; '.join(places)}; and 2 more reasons\n")


@pytest.mark.parametrize("text", ["0", "-1", "on", "1.5", "", "65537", "0" * 9 + "1", "9" * 30])
def test_what_is_no_count_is_wrong_usage(run: Run, text: str) -> None:
    code, _, errors = run("--tokens", IDS, "--prefill", text)
    assert code == 2
    assert f"{text!r} is neither off nor a count from 1 to 65536" in errors


def test_it_is_the_reference_machine_s(run: Run) -> None:
    code, _, errors = run("--tokens", IDS, "--prefill", "4", "--engine", "cuda")
    assert code == 2
    assert "--prefill is the reference machine's; a target has options of its own" in errors


def test_prefill_without_a_prompt_is_a_usage_error(run: Run) -> None:
    code, out, errors = run("--prefill", "4")
    assert (code, out) == (2, "")
    assert "give the prompt's ids with --tokens" in errors


GIVEN = ("-n", "6", "--engine", "reference", "--json")


def test_generate_gives_the_same_text(oracles: Path, capfd: pytest.CaptureFixture[str]) -> None:
    texts = []
    checkpoint = oracles / "qwen35-tiny" / "qwen35-tiny-q8_0.gguf"
    for more in ((), ("--prefill", "3"), ("--prefill", "off")):
        with pytest.raises(SystemExit) as ended:
            main(["generate", str(checkpoint), "--prompt", "The step is right", *GIVEN, *more])
        assert ended.value.code == 0
        texts.append(capfd.readouterr())
    assert texts[0].out == texts[1].out == texts[2].out != ""
    assert {text.err for text in texts} == {""}
