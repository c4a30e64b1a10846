"""The commands of an artifact's page can be run as they stand there, whatever the program's inputs are."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos_sambaflow.given import given_inputs
from logos_sambaflow.layout import Layout
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import emitted

TOKENS = "Let tok be a 1 by 1 tensor of Int.\nLet pos be a 1 by 1 tensor of Int.\n"
PROGRAMS = {
    "a row of a table of one": (
        "Let p be a 1 by 1 tensor of Int.\nLet T be a 1 by 4 tensor of Real.\nLet y be row p of T.\n",
        " --set p=0 --set T=1",
    ),
    "a row": (
        "Let p be a 1 by 1 tensor of Int.\nLet T be a 5 by 4 tensor of Real.\nLet y be row p of T.\n",
        " --set p=1 --set T=1",
    ),
    "tok and pos of Real": (
        "Let tok be a 1 by 3 tensor of Real.\nLet pos be a 1 by 3 tensor of Real.\nLet y be tok plus pos.\n",
        " --set tok=1 --set pos=1",
    ),
    "pos without tok": (
        "Let pos be a 1 by 1 tensor of Int.\nLet T be a 5 by 4 tensor of Real.\nLet y be row pos of T.\n",
        " --set pos=1 --set T=1",
    ),
    "small tables": (
        f"{TOKENS}Let A be a 2 by 4 tensor of Real.\nLet B be a 2 by 4 tensor of Real.\n"
        "Let x be row tok of A.\nLet p be row pos of B.\nLet y be x plus p.\n",
        " --tokens 1,1 --set A=1 --set B=1",
    ),
    "tokens": (f"{TOKENS}Let y be tok plus pos.\n", " --tokens 1,2,3"),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_every_input_has_a_value_that_the_program_takes(case: str, tmp_path: Path) -> None:
    text, arguments = PROGRAMS[case]
    made = emitted(text, tmp_path)
    assert given_inputs(Layout(made.job)) == arguments
    assert made.module.main(made.module.PROGRAM, shlex.split(arguments)) == 0
    (page,) = (one.text for one in SambaflowTarget().emit(made.job) if one.path == "README.md")
    assert f"       python model.py{arguments}\n" in page


def test_tokens_may_be_asked_for(tmp_path: Path) -> None:
    made = emitted(PROGRAMS["small tables"][0], tmp_path)
    assert given_inputs(Layout(made.job), "IDS") == " --tokens IDS --set A=1 --set B=1"


@pytest.mark.parametrize(
    ("text", "steps", "bare", "noise"),
    [
        ("Let x be a 1 by 4 tensor of Real.\nLet y be silu of x.\n", 2, False, False),
        (
            "Let x be a 1 by 4 tensor of Real.\nLet Wq0 be a 4 by 4 tensor of Real.\nLet y be x matmul Wq0.\n",
            0,
            True,
            False,
        ),
        (
            "Let x be a 1 by 4 tensor of Real.\nLet Wq0 be a 4 by 4 tensor of Real.\nLet y be x matmul Wq0.\n",
            2,
            True,
            True,
        ),
    ],
)
def test_weights_are_asked_for_where_there_are_any(
    text: str, steps: int, bare: bool, noise: bool, tmp_path: Path
) -> None:
    made = emitted(text, tmp_path, selftest=steps)
    (page,) = (one.text for one in SambaflowTarget().emit(made.job) if one.path == "README.md")
    assert page.count("Real tensors are float32.") == 1
    assert ("There are no weights here" in page) is bare
    assert ("the recording holds noise" in page) is noise
