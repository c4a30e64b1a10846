"""`logos extract` without a target: a program's weights in each format, from the command line and the library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gguf_writer import gguf, tensor
from logos import Request, bind_request, load_graph, make_manager, weight_file, write_weight_file
from logos.cli.main import cli
from logos_gguf.checkpoint import GGUFCheckpoint


def logos(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def quietly(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], prog_name="logos", standalone_mode=False)


def authored(oracles: Path, folder: Path, case: str, storage: str) -> tuple[Path, Path]:
    checkpoint, program = oracles / case / f"{case}-{storage}.gguf", folder / "model.lg"
    quietly("author", checkpoint, "-o", program, "--context", 8, "-q")
    return program, checkpoint


@pytest.mark.parametrize("storage", ["q8_0", "f32"])
def test_q8_splits_matrices_and_says_what_it_rounds(oracles: Path, tmp_path: Path, storage: str) -> None:
    program, checkpoint = authored(oracles, tmp_path, "llama-tiny-untied", storage)
    out = tmp_path / "out"
    done = logos("extract", program, "--checkpoint", checkpoint, "--weights-format", "q8", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    said = [line for line in lines if "rounded" in line]
    first = ", ".join(f"{name} (F32)" for name in ["emb", "Wq0", "Wk0", "Wv0", "Wo0", "Wg0", "Wu0", "Wd0"])
    assert said == ([] if storage == "q8_0" else [f"23 weights rounded to Q8_0: {first} and 15 more"])
    names = {path.name for path in out.iterdir()}
    assert names == {line.split(": ")[0].rpartition("/")[2] for line in lines if line not in said}
    matrices = {"emb", "Wout", *(f"W{kind}{layer}" for kind in "qkvogud" for layer in range(3))}
    assert names == {f"{name}.{end}" for name in matrices for end in "qs"} | {
        f"{kind}{layer}.f32" for kind in ("an", "fn") for layer in range(3)
    } | {"on.f32", "RopeCos.f64", "RopeSin.f64"}
    assert f"{out / 'Wo0.q'}: 16.4 kB" in lines
    quants = np.fromfile(out / "Wo0.q", np.int8).reshape(128, -1, 32)
    scales = np.fromfile(out / "Wo0.s", "<f4").reshape(128, -1, 1)
    expected = GGUFCheckpoint(checkpoint).float_rows("blk.0.attn_output.weight", 0, 128)
    bound = 0 if storage == "q8_0" else scales.max() * 0.51
    assert np.abs((quants * scales).reshape(128, -1) - expected).max() <= bound


def test_of_experts_the_matrices_are_split_and_the_routers_kept(oracles: Path, tmp_path: Path) -> None:
    program, checkpoint = authored(oracles, tmp_path, "qwen35moe-tiny", "q8_0")
    quietly("extract", program, "--checkpoint", checkpoint, "--weights-format", "q8", "--out", tmp_path / "out", "-q")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"Eg0.q", "Eu0.q", "Ed0.q", "Sg0.q", "Sd0.s", "Wb0.q", "Wz0.q", "emb.s"} < names
    assert {"Wr0.f32", "Sr0.f32", "Wcq0.f32", "Dt0.f32", "Al0.f32", "Gn0.f32"} < names
    found = GGUFCheckpoint(checkpoint)
    experts = found.tensors["blk.0.ffn_gate_exps.weight"]
    quants = np.fromfile(tmp_path / "out" / "Eg0.q", np.int8).reshape(experts.rows, -1, 32)
    scales = np.fromfile(tmp_path / "out" / "Eg0.s", "<f4").reshape(experts.rows, -1, 1)
    np.testing.assert_array_equal(
        (quants * scales).reshape(experts.rows, -1), found.float_rows(experts.name, 0, experts.rows)
    )


@pytest.mark.parametrize("form", ["raw", "safetensors"])
def test_a_program_runs_from_the_extracted_folder_as_from_the_checkpoint(
    oracles: Path, tmp_path: Path, form: str
) -> None:
    program, checkpoint = authored(oracles, tmp_path, "llama-tiny-rope3", "q8_0")
    quietly("extract", program, "--checkpoint", checkpoint, "--weights-format", form, "--out", tmp_path / "w", "-q")
    sources = {"there": ["--checkpoint", checkpoint], "here": ["--weights", tmp_path / "w", "--family", "llama"]}
    for name, source in sources.items():
        quietly("run", program, *source, "--tokens", "1,2,3", "--get", "logits", "--npy", tmp_path / name, "-q")
    here, there = (np.load(tmp_path / name / "logits.npy") for name in sources)
    # The files hold the same values in another order, and sums of float64 know their order.
    assert np.abs(here - there).max() < 1e-12


def test_the_library_extracts_as_the_command_does(oracles: Path, tmp_path: Path) -> None:
    program, checkpoint = authored(oracles, tmp_path, "llama-tiny-untied", "q8_0")
    quietly("extract", program, "--checkpoint", checkpoint, "--weights-format", "q8", "--out", tmp_path / "a", "-q")
    manager, request = make_manager(), Request(program, checkpoint)
    binding = bind_request(manager, load_graph(manager, request), request)
    paths = write_weight_file(binding, weight_file(binding, "q8"), tmp_path / "b")
    assert {path.name: path.read_bytes() for path in paths} == {
        path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()
    }
    with pytest.raises(ValueError, match="no format 'q4'; there are safetensors, raw, q8"):
        weight_file(binding, "q4")


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "give either --target NAME or --weights-format FORMAT"),
    (["--target", "rdu-sambaflow", "--weights-format", "raw"], "give either --target NAME or --weights-format FORMAT"),
    (["--weights-format", "raw", "-D", "dtype=float32"], "-D and --file belong to --target"),
    (["--weights-format", "raw", "--file", "x"], "-D and --file belong to --target"),
])  # fmt: skip
def test_a_target_and_a_format_exclude_each_other(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "p.lg").write_text("Let x be a 1 by 1 tensor of Real.\nLet y be silu of x.\n")
    done = logos("extract", tmp_path / "p.lg", "--out", tmp_path / "out", *arguments)
    assert done.returncode == 2
    assert f"Error: {message}\n" in done.stderr
    assert not (tmp_path / "out").exists()


PROGRAM = """\
Let x be a 1 by 48 tensor of Real.
Let Wo0 be a 48 by 64 tensor of Real.
Let Wv0 be a 64 by {columns} tensor of Real.
Let y be x matmul Wo0.
Let z be y matmul Wv0.
"""


def extraction(folder: Path, form: str, columns: int = 32, name: str = "attn_v") -> str:
    """What `logos extract` of a small program refuses."""
    tensors = {
        "blk.0.attn_output.weight": tensor(np.ones((64, 48), np.float32)),
        f"blk.0.{name}.weight": tensor(np.ones((32, 64), np.float32)),
    }
    sizes = {"llama.embedding_length": 64, "llama.attention.head_count": 1}
    (folder / "m.gguf").write_bytes(gguf({"general.architecture": "llama", **sizes}, tensors))
    (folder / "p.lg").write_text(PROGRAM.format(columns=columns))
    done = logos(
        "extract", folder / "p.lg", "--checkpoint", folder / "m.gguf", "--weights-format", form, "--out", folder / "out"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert not (folder / "out").exists()
    return re.sub(re.escape(f"{folder}/"), "", done.stderr)


def test_k_of_48_asked_for_in_q8_0_is_one_refusal(tmp_path: Path) -> None:
    assert extraction(tmp_path, "q8") == (
        "p.lg:2:1: Wo0 is asked for in Q8_0 and has K = 48 rows; a block holds 32, and 48 is no multiple of it "
        "[not-whole-blocks]\n    Let Wo0 be a 48 by 64 tensor of Real.\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  next: extract Wo0 as float32, or make K a multiple of 32\n"
    )


def test_a_missing_tensor_is_one_refusal_with_the_nearest(tmp_path: Path) -> None:
    assert extraction(tmp_path, "raw", name="attn_p") == (
        "m.gguf, tensor blk.0.attn_v.weight: the program needs Wv0 from blk.0.attn_v.weight; the file has no such "
        "tensor; the nearest is blk.0.attn_p.weight [missing-tensor]\n"
        '  next: name the tensor in [weights], as `Wv0 = "…"`\n'
    )


def test_a_tensor_of_another_shape_is_one_refusal_with_both_shapes_and_the_view(tmp_path: Path) -> None:
    assert extraction(tmp_path, "raw", columns=33) == (
        "m.gguf, tensor blk.0.attn_v.weight: Wv0 is declared 64 by 33, but the tensor is 32 by 64 as stored, which its "
        "view (all rows, transposed) makes 64 by 32 [tensor-shape]\n"
        "  next: declare Wv0 as 64 by 32\n"
    )


def test_every_weight_without_a_value_is_refused_in_one_report(oracles: Path, tmp_path: Path) -> None:
    program, _ = authored(oracles, tmp_path, "llama-tiny-untied", "f32")
    done = logos("extract", program, "--family", "llama", "--weights-format", "raw", "--out", tmp_path / "o", "--json")
    records = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    assert done.returncode == 1
    assert {record["refusal"] for record in records} == {"weight-without-value"}
    assert len(records) == 32
    assert not (tmp_path / "o").exists()
