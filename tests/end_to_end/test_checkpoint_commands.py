"""`logos author` and `logos inspect` as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def logos(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def checkpoint(oracles: Path) -> Path:
    return oracles / "llama-tiny-rope3" / "llama-tiny-rope3-q8_0.gguf"


def test_author_says_what_it_wrote_and_what_to_do_next(checkpoint: Path, tmp_path: Path) -> None:
    program = tmp_path / "deep er" / "model.lg"
    done = logos("author", checkpoint, "-o", program, "--context", "16")
    lines = program.read_text(encoding="utf-8").count("\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"wrote {program}, {lines} lines; next: logos run {program} --checkpoint {checkpoint} --tokens 1\n"
    )


def test_author_refuses_a_cut_file_and_writes_nothing(checkpoint: Path, tmp_path: Path) -> None:
    cut, program = tmp_path / "cut.gguf", tmp_path / "model.lg"
    cut.write_bytes(checkpoint.read_bytes()[:-100])
    done = logos("author", cut, "-o", program)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"{cut}: the tensor output_norm.weight (128,) of F32 ends at byte 419424, and the file has 419324: "
        "100 bytes are missing [broken-checkpoint]\n  next: download or convert the file again\n"
    )
    assert not program.exists()


def test_author_refuses_a_family_that_no_plugin_offers(checkpoint: Path, tmp_path: Path) -> None:
    done = logos("author", checkpoint, "-o", tmp_path / "model.lg", "--family", "lama")
    assert done.returncode == 1
    assert "no installed plugin offers the family lama; did you mean llama? [unknown-family]" in done.stderr


def test_inspect_shows_metadata_tensors_and_who_takes_them(checkpoint: Path) -> None:
    done = logos("inspect", checkpoint)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{checkpoint}: 1 file, 21 tensors, 411.8 kB"
    assert "  llama.block_count = 2" in lines
    assert "  tokenizer.ggml.tokens = 320 items" in lines
    assert "  rope_freqs.weight: 32 of F32, 128 bytes → RopeCos (table), RopeSin (table)" in lines
    assert (
        "  token_embd.weight: 320 by 128 of Q8_0, 43.5 kB → emb (all rows, as stored), Wout (all rows, transposed)"
        in lines
    )
    assert "  blk.1.attn_q.weight: 256 by 128 of Q8_0, 34.8 kB → Wq1 (256 rows in 8 runs, transposed)" in lines


def test_inspect_as_json_is_one_object(checkpoint: Path) -> None:
    record: dict[str, Any] = json.loads(logos("inspect", "--json", checkpoint).stdout)
    assert record["files"] == [checkpoint.name]
    assert record["metadata"]["llama.attention.head_count"] == 4
    assert record["metadata"]["tokenizer.ggml.tokens"] == {"items": 320}
    assert record["refusals"] == []
    tensors = {tensor["name"]: tensor for tensor in record["tensors"]}
    assert tensors["blk.0.attn_output.weight"] == {
        "name": "blk.0.attn_output.weight",
        "shape": [128, 256],
        "storage": "Q8_0",
        "bytes": 34816,
        "file": checkpoint.name,
        "variables": [{"variable": "Wo0", "view": "all rows, transposed"}],
    }
    assert sum(tensor["bytes"] for tensor in tensors.values()) == 411776


def test_inspect_shows_a_checkpoint_that_no_family_can_write(checkpoint: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.gguf"
    data = checkpoint.read_bytes()
    strange.write_bytes(data.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0l\x1bama", 1))
    done = logos("inspect", strange)
    assert done.returncode == 0
    assert "  general.architecture = l?ama" in done.stdout.splitlines()
    assert "no program can be written for it:" in done.stdout.splitlines()
    assert "[unknown-family]" in done.stdout


def test_inspect_says_what_each_tensor_feeds_and_what_none_does(checkpoint: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(checkpoint.read_bytes().replace(b"blk.1.attn_v.weight", b"blk.1.attn_x.weight"))
    done = logos("inspect", strange)
    assert done.returncode == 0
    assert "[missing-tensor]" in done.stdout
    strange.write_bytes(checkpoint.read_bytes().replace(b"rope_freqs.weight", b"rope_wreqs.weight"))
    lines = logos("inspect", strange).stdout.splitlines()
    assert "no variable takes rope_wreqs.weight" in lines
    assert "  output_norm.weight: 128 of F32, 512 bytes → on (all rows, as stored)" in lines
    assert lines[-3:] == [
        "no program can be written for it:",
        f"  {strange}, tensor rope_wreqs.weight: the checkpoint holds rope_wreqs.weight, which this family's program "
        "does not use: its numbers would be wrong [unused-tensor]",
        "    next: use another --family if the checkpoint is of one; if not, LOGOS lacks this model's rule",
    ]
    record = json.loads(logos("inspect", "--json", strange).stdout)
    assert record["unused"] == ["rope_wreqs.weight"]
    assert [refusal["refusal"] for refusal in record["refusals"]] == ["unused-tensor"]


def test_inspect_refuses_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    done = logos("inspect", tmp_path / "a.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[unknown-checkpoint-format]" in done.stderr
    assert "[unreadable-file]" in logos("inspect", tmp_path / "none.gguf").stderr


WRONG = """\
Let tok be a 1 by 1 tensor of Int.
Let emb be a 300 by 128 tensor of Real.
Let on be a 1 by 128 tensor of Int.
Let Wz3 be a 128 by 4 tensor of Real.
Let Wq7 be a 128 by 4 tensor of Real.
Let x be row tok of emb.
Let y be x hadamard on.
Let z be y matmul Wq7.
"""


def test_leaves_that_disagree_with_their_tensors_are_refused_together(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.lg").write_text(WRONG, encoding="utf-8")
    done = logos("check", tmp_path / "wrong.lg", "--checkpoint", checkpoint)
    name = checkpoint.name
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if not line.startswith("  ")] == [
        f"{name}, tensor token_embd.weight: emb is declared 300 by 128, but the tensor is 320 by 128 as stored, which "
        "its view (all rows, as stored) makes 320 by 128 [tensor-shape]",
        f"{name}, tensor output_norm.weight: on is declared of Int, and the tensor holds reals [tensor-type]",
        f"{name}, tensor blk.7.attn_q.weight: the program needs Wq7 from blk.7.attn_q.weight; the file has no such "
        "tensor; the nearest is blk.1.attn_q.weight [missing-tensor]",
        "3 refusals",
    ]
