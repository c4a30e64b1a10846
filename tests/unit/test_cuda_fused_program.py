"""Programs with fused stages, as they are emitted: what only its stage reads can be read out, and changes nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from toy_build import Toy

from logos import OPS, Graph, Inputs, Job, Source, refuse
from logos.check import read_program
from logos.grammar import make_grammar
from logos_cuda.emit import emit_forward
from logos_cuda.fusing import FUSES
from logos_cuda.host_build import compile_host
from logos_cuda.lower import forward_graph_holding
from logos_cuda.target import CudaTarget

PROGRAM = """\
Let x be a 1 by 8 tensor of Real.
Let w be a 1 by 8 tensor of Real.
Let W0 be a 8 by 8 tensor of Real.
Let W1 be a 8 by 8 tensor of Real.
Let W2 be a 8 by 8 tensor of Real.
Let s be x plus w.
Let n be rmsnorm of s with weight w.
Let q be n matmul W0.
Let k be n matmul W1.
Let c be q hadamard k.
Let c be silu of c.
Let g be c matmul W1.
Let u be c matmul W2.
Let h be swiglu of g and u.
Let d be h matmul W2.
Let y be d plus x.
"""
INNER = ("s", "c@1", "g", "u", "d")


def graph() -> Graph:
    return read_program(Source("p.lg", PROGRAM), make_grammar(OPS))


def built(folder: Path, held: Collection[str]) -> Path:
    source = folder / "forward.cu"
    source.write_text(emit_forward(forward_graph_holding(graph(), held=held)), encoding="utf-8")
    compile_host(source, folder / "forward", flags=["-O1"])
    return folder / "forward"


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("fused"), ())


def dumped(program: Path, folder: Path, *names: str) -> dict[str, bytes]:
    """What the program writes of these variables, or of all, by name."""
    get = ("--get", ",".join(names)) if names else ()
    subprocess.run([program, "--dump", folder, *get], check=True)
    return {path.stem: path.read_bytes() for path in folder.iterdir()}


def test_what_is_read_out_changes_no_byte_of_the_output(fused: Path, tmp_path: Path) -> None:
    alone = dumped(fused, tmp_path / "alone", "y")
    for name in INNER:
        assert dumped(fused, tmp_path / name, name, "y")["y"] == alone["y"]
    whole = dumped(fused, tmp_path / "whole")
    assert whole["y"] == alone["y"]
    assert whole.keys() == {"s", "n", "q", "k", "c@1", "c", "g", "u", "h", "d", "y"}


def test_inner_values_are_those_of_the_program_with_every_step_held(fused: Path, tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    held = built(tmp_path / "held", FUSES)
    assert dumped(fused, tmp_path / "one") == dumped(held, tmp_path / "other")


def test_inner_values_take_no_memory_before_they_are_read_out() -> None:
    made = forward_graph_holding(graph())
    assert [stage.step for stage in made.stages] == ["add-norm", "qkv", "chain", "gate-up", "residual"]
    assert {value.name for value, buffer in made.held.items() if buffer.inner} == {"s", "c", "g", "u", "d"}
    assert f"    KEPT = {len(made.buffers) - 5},\n" in emit_forward(made)


def test_run_and_verify_hand_on_what_is_held(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[str, ...]] = []

    def note(self: CudaTarget, job: Job, inputs: Inputs) -> Mapping[str, object]:
        held.append(job.hold)
        raise refuse("noted", "noted", None, "go on")

    monkeypatch.setattr(CudaTarget, "run", note)
    toy.write("p.lg", PROGRAM)
    for words in (("run", "p.lg", "--engine", "cuda", "--fill", "noise"), ("verify", "p.lg", "--target", "cuda")):
        assert "[noted]" in toy.logos(*words, "--hold", "qkv", "--hold", "chain").err
        ran = toy.logos(*words, "--hold", "chian")
        assert (ran.code, ran.err.splitlines()[0]) == (
            1, "--hold: target cuda has no fusion step chian; did you mean chain? [unknown-fusion-step]"
        )  # fmt: skip
    assert held == [("qkv", "chain")] * 2
    assert toy.logos("run", "p.lg", "--hold", "qkv").code == 2


def test_hold_keeps_a_step_from_acting_in_what_is_built(toy: Toy) -> None:
    toy.write("p.lg", PROGRAM)
    for step, there in (("qkv", False), ("chain", True)):
        ran = toy.build("p.lg", "--target", "cuda", "--out", "made", "-D", "compile=off", "--hold", step)
        text = (toy.folder / "made/forward.cu").read_text("utf-8")
        assert (ran.code, "; as one by qkv\n" in text) == (0, there)
