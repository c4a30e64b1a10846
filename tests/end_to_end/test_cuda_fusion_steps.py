"""The six oracles by the cuda target on the host: each step of fusion alone, and all together, are as held."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from logos import FUSION_STEPS, Job, Request, Source, make_job, make_manager
from logos.author import Author, author_program
from logos.execution import write_artifact
from logos_cuda.fusing import FUSES
from logos_cuda.host_build import compile_host
from logos_cuda.target import CudaTarget, graph_of

CASES = ("llama-tiny-rope3", "llama-tiny-untied", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny")
MANAGER = make_manager()
BOUNDS = {step.name: step.bound for step in FUSION_STEPS}
STORAGES = {"float32": {"q8": "none", "kv": "f32"}, "q8_0": {}}
OF_A_MODEL = 2e-5
"""Of the largest element, where a step that does not sum in the same order acts."""


class Programs:
    """A model's program with steps of fusion held, each text built and run once."""

    def __init__(self, oracles: Path, case: str, storage: str) -> None:
        self.checkpoint, self.options = oracles / case / f"{case}-q8_0.gguf", STORAGES[storage]
        self.source = Source("m.lg", author_program(MANAGER, Author(self.checkpoint, 24), None))
        self.made: dict[str, dict[str, NDArray[Any]]] = {}

    def job(self, acting: Collection[str]) -> Job:
        """The program where these steps act and no other does."""
        hold = tuple(step for step in FUSES if step not in acting)
        request = Request(self.checkpoint, self.checkpoint, source=self.source, options=self.options, hold=hold)
        return make_job(MANAGER, request, "cuda")[1]

    def run(self, acting: Collection[str], folder: Path, tokens: str) -> dict[str, NDArray[Any]]:
        """All that it computes."""
        job, target = self.job(acting), CudaTarget()
        text = re.sub("^// .*\n", "", target.emit(job)[0].text, flags=re.MULTILINE)
        if text not in self.made:
            here = folder / str(len(self.made))
            write_artifact(target, job, {}, here)
            compile_host(here / "forward.cu", here / "forward", flags=["-O1"])
            subprocess.run([here / "forward", "--tokens", tokens, "--dump", here / "out"], check=True)
            self.made[text] = {path.stem: np.load(path) for path in (here / "out").iterdir()}
            # What is read out changes no byte of the output.
            alone = subprocess.run([here / "forward", "--tokens", tokens], capture_output=True, text=True, check=True)
            assert alone.stdout == f"{self.made[text]['next'][-1, 0, 0]}\n"
            only = ("--get", "logits", "--dump", here / "only")
            subprocess.run([here / "forward", "--tokens", tokens, *only], check=True)
            assert np.load(here / "only/logits.npy").tobytes() == self.made[text]["logits"].tobytes()
        return self.made[text]


def steps_of(job: Job) -> set[str]:
    """The steps that act in a program."""
    return {name for stage in graph_of(job).stages for name in (stage.step, *stage.marks) if name}


def apart(found: dict[str, NDArray[Any]], due: dict[str, NDArray[Any]], bound: float) -> Iterator[str]:
    """The variables that are not within a bound of the largest element; 0 is to the bit."""
    for name, array in due.items():
        near = bound and np.max(np.abs(found[name] - array)) <= bound * np.max(np.abs(array))
        if not near and found[name].tobytes() != array.tobytes():
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_each_step_alone_and_all_together_are_as_held(
    oracles: Path, oracle_cases: dict[str, Any], tmp_path: Path, case: str, storage: str
) -> None:
    """Every value of every step of six."""
    programs, tokens = Programs(oracles, case, storage), ",".join(map(str, oracle_cases[case]["tokens"][:6]))
    due = programs.run((), tmp_path, tokens)
    for acting in (*((step,) for step in FUSES), FUSES):
        found = programs.run(acting, tmp_path, tokens)
        assert found.keys() == due.keys()
        bound = OF_A_MODEL if any(BOUNDS[step] for step in steps_of(programs.job(acting))) else 0.0
        assert (acting, list(apart(found, due, bound))) == (acting, [])


def test_each_step_acts_alone_in_an_oracle(oracles: Path) -> None:
    """So that what is held to the bit above is the step at work."""
    programs = [Programs(oracles, "qwen35moe-tiny", storage) for storage in STORAGES]
    for step in FUSES:
        assert set().union(*(steps_of(one.job((step,))) for one in programs)) == {step}
