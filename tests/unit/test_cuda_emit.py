"""The emitted source: what is in it, that it is the same everywhere, and what is refused before it is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvcc import make_toolkit, without_nvcc
from toy_build import Toy

import logos_cuda.emit
from logos import Graph, Source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos_cuda.emit import emit_forward, kernel_header
from logos_cuda.lower import forward_graph

ROOT = Path(__file__).parents[2]
ROTATED = """\
Let q be a 1 by 4 tensor of Real.
Let c be a 1 by 2 tensor of Real.
Let y be rope of q with cos c and sin c.
"""
SQUASHED = "Let x be a 2 by 3 tensor of Real.\nLet y be silu of x.\nLet z be silu of x.\n"
UNFIT = """\
Let q be a 1 by 8192 tensor of Real.
Let K be a 2 by 8192 tensor of Int.
Let s be relu of q.
Let a be attention of q over K and K with 1 heads 1 groups.
Let t be relu of a.
"""


def graph(text: str, name: str = "p.lg") -> Graph:
    return read_program(Source(name, text), make_grammar(OPS))


def emitted(text: str, name: str = "p.lg") -> str:
    return emit_forward(forward_graph(graph(text, name)))


def test_each_kernel_and_header_that_is_used_stands_there_once() -> None:
    text = emitted(SQUASHED)
    assert text.count('extern "C" __global__') == 1
    assert [text.count(first_line(name)) for name in ("logos.cuh", "elementwise.cuh", "rope.cuh")] == [1, 1, 0]
    assert '#include "logos.cuh"' not in text
    assert "#pragma once" not in text
    assert text.count("LAUNCH(silu_kernel, ") == 2


def test_a_files_name_is_text_wherever_it_stands() -> None:
    text = emit_forward(forward_graph(graph(SQUASHED)), file='a"b\n\\.cu')
    assert 'std::string("a\\"b\\?\\\\.cu") + ":"' in text


def first_line(header: str) -> str:
    return kernel_header(header).split("\n")[0]


def test_every_launch_bears_its_sentence() -> None:
    assert "// y: silu, p.lg:2\nvoid stage_0() {\n" in emitted(SQUASHED)
    assert "// z: silu, p.lg:3\nvoid stage_1() {\n" in emitted(SQUASHED)


def test_a_file_s_name_stays_in_its_comment_and_its_string() -> None:
    name = '/home/me/a "b" %d \\\n#error ü\\'
    text = emitted("Let t be a 1 by 1 tensor of Int.\nLet T be a 3 by 1 tensor of Real.\nLet y be row t of T.\n", name)
    assert '// a "b" %d \\?#error ü as a CUDA program' in text
    assert '// y: embedding, a "b" %d \\?#error ü:3\n' in text
    assert 'PROGRAM = "a \\"b\\" %d \\\\\\?#error \\303\\274\\\\";\n' in text
    assert '{b0_t, 3, {3, 1, "t is %lld, outside the rows 0 to 2 of T [row-outside-table]\\n' in text
    assert "/home/me" not in text


def test_the_text_is_the_same_for_every_hash_seed_folder_and_locale(tmp_path: Path) -> None:
    texts = []
    for seed, locale in (("1", "C"), ("2", "C.UTF-8")):
        folder = tmp_path / seed
        folder.mkdir()
        shutil.copy(ROOT / "examples/llama/llama.lg", folder)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale}
        command = [sys.executable, "-m", "logos", "emit", "llama.lg", "--target", "cuda", "--out", "out", "-q"]
        subprocess.run(command, cwd=folder, env=environment, check=True)
        texts.append((folder / "out/forward.cu").read_bytes())
    assert texts[0] == texts[1]
    assert os.fsencode(tmp_path) not in texts[0]


def test_a_changed_header_changes_its_users_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = emitted(ROTATED), emitted(SQUASHED)
    changed = {"rope.cuh": kernel_header("rope.cuh") + "// changed\n"}
    monkeypatch.setattr(logos_cuda.emit, "kernel_header", lambda name: changed.get(name) or kernel_header(name))
    assert (emitted(ROTATED) == before[0], emitted(SQUASHED) == before[1]) == (False, True)


def test_a_changed_header_rebuilds_its_users_alone(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "plugins/cuda/logos_cuda", tmp_path / "site/logos_cuda")
    toolkit = make_toolkit(tmp_path / "toolkit")
    work = tmp_path / "work"
    work.mkdir()
    (work / "rotated.lg").write_text(ROTATED)
    (work / "squashed.lg").write_text(SQUASHED)
    places = os.pathsep.join(filter(None, [os.fspath(tmp_path / "site"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": places, "CUDA_HOME": os.fspath(toolkit.home)}
    environment["PATH"] = without_nvcc(os.environ["PATH"])
    command = [sys.executable, "-m", "logos", "build", "rotated.lg", "squashed.lg", "--target", "cuda"]

    def build() -> str:
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()[-2]

    assert build() == "built 2 artifacts in 6 steps"
    assert build() == "nothing to do: 2 artifacts up to date"
    with open(tmp_path / "site/logos_cuda/kernels/rope.cuh", "a") as header:
        header.write("// changed\n")
    assert build() == "built 2 artifacts in 3 steps"
    assert [call.split()[1] for call in toolkit.calls()[-2:]] == ["../forward.cu", "-o"]


def test_everything_that_no_kernel_takes_is_in_one_report(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    abacus = os.fspath(ROOT / "tests/abacus_plugin")
    monkeypatch.syspath_prepend(abacus)
    toy.write("unfit.lg", UNFIT)
    ran = toy.build("unfit.lg", "--target", "cuda", "--out", "made", "-D", "kind=op")
    assert (ran.code, ran.out) == (1, "")
    said = [line for line in ran.err.splitlines() if line.startswith("unfit.lg")]
    assert said == [
        "unfit.lg:3:1: target cuda does not spell the op relu (spelled by the installed target abacus) "
        "[op-not-spelled]",
        "unfit.lg: kind op takes a program of one operation, or of several that fuse into one stage; this one has 3 "
        "operations [not-one-operation]",
        "unfit.lg:4:1: statement 2, attention: K is a table of Int; the kernel reads tables of Real [no-kernel]",
        "unfit.lg:4:1: statement 2, attention: heads of 8192 elements; the kernel takes up to 512 [no-kernel]",
    ]
    assert "  also unfit.lg:5:1\n" in ran.err
    assert not (toy.folder / "made").exists()


def test_a_weight_that_is_only_multiplied_by_is_extracted_as_the_device_keeps_it(toy: Toy) -> None:
    toy.write("given/W.f64", "\0" * 48)
    ran = toy.build("p.lg", "--target", "cuda", "--weights", "given", "--out", "made", "-D", "compile=off")
    assert (ran.code, toy.tree("made")) == (0, ["forward.cu", "weights/W.f32"])
    held = forward_graph(graph((toy.folder / "p.lg").read_text())).held
    assert {value.name: buffer.transposed for value, buffer in held.items()} == {"x": False, "W": True, "y": False}
