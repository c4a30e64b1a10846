"""The same model in files laid out in every way: the same bytes are extracted from each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gguf_writer import KINDS, Info, gguf
from logos.cli.main import cli
from logos_gguf.checkpoint import GGUFCheckpoint
from logos_gguf.metadata import Array

CASE = "llama-tiny-rope3"
SHARDS = (1, 3, 5)


def logos(*arguments: object) -> None:
    cli.main([str(argument) for argument in arguments], prog_name="logos", standalone_mode=False)


def contents(path: Path) -> tuple[dict[str, Any], dict[str, Info]]:
    """A checkpoint's metadata and tensors, as the writer takes them."""
    checkpoint = GGUFCheckpoint(path)
    metadata = {key: list(v) if isinstance(v, Array) else v for key, v in checkpoint.metadata.items()}
    tensors = {
        name: Info(tensor.shape[::-1], KINDS[tensor.storage], checkpoint.raw_rows(name, 0, tensor.rows).tobytes())
        for name, tensor in checkpoint.tensors.items()
    }
    return metadata, tensors


def shards(metadata: Mapping[str, Any], tensors: Mapping[str, Info], count: int) -> Iterator[bytes]:
    """The files of a set, tensors dealt out in turn; of five the first holds none, as llama.cpp's splitter may do."""
    names, holders = list(tensors), count - 1 if count == 5 else count
    for number in range(count):
        keys = {"split.no": number, "split.count": count, "split.tensors.count": len(tensors)}
        place = number - (count - holders)
        mine = names[place::holders] if place >= 0 else []
        yield gguf({**metadata, **keys} if number == 0 else keys, {name: tensors[name] for name in mine})


def layouts(oracle: Path, folder: Path) -> list[Path]:
    """Files of the model in every layout; of a set every shard."""
    metadata, tensors = contents(oracle)
    made = {f"aligned-{alignment}.gguf": gguf(metadata, tensors, alignment=alignment) for alignment in (16, 32, 64)}
    made["version-2.gguf"] = gguf(metadata, tensors, version=2)
    backwards = dict(reversed(tensors.items()))
    made["backwards.gguf"] = gguf(dict(reversed(metadata.items())), backwards, alignment=64)
    for count in SHARDS:
        for number, data in enumerate(shards(metadata, tensors, count), 1):
            made[f"set-{number:05}-of-{count:05}.gguf"] = data
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [oracle, *(folder / name for name in made)]


@pytest.mark.parametrize("storage", ["f32", "q8_0"])
def test_every_layout_and_shard_of_one_model_extracts_to_the_same_bytes(
    oracles: Path, tmp_path: Path, storage: str
) -> None:
    oracle = oracles / CASE / f"{CASE}-{storage}.gguf"
    paths = layouts(oracle, tmp_path)
    assert len(paths) == 1 + 5 + sum(SHARDS)
    found: dict[str, set[tuple[tuple[str, bytes], ...]]] = {"raw": set(), "q8": set(), "safetensors": set()}
    programs = set()
    for path in paths:
        program = tmp_path / "model.lg"
        logos("author", path, "-o", program, "--context", 8, "-q")
        programs.add(program.read_bytes())
        for form, contents in found.items():
            out = tmp_path / form / path.stem
            logos("extract", program, "--checkpoint", path, "--weights-format", form, "--out", out, "-q")
            contents.add(tuple((file.name, file.read_bytes()) for file in sorted(out.iterdir())))
    assert len(programs) == 1
    assert {form: len(contents) for form, contents in found.items()} == dict.fromkeys(found, 1)
    ((*files,),) = found["q8"]
    assert {"Wq0.q", "Wq0.s", "emb.q", "Wout.q", "an0.f32", "RopeCos.f64"} < {name for name, _ in files}


def test_inspect_is_done_within_a_second_for_250_000_strings(oracles: Path, tmp_path: Path) -> None:
    metadata, tensors = contents(oracles / CASE / f"{CASE}-q8_0.gguf")
    count = 250_000
    metadata["tokenizer.ggml.tokens"] = [f"token number {number}" for number in range(count)]
    metadata["tokenizer.ggml.merges"] = [f"to ken{number}" for number in range(count)]
    tensors["blk.0.unheard_of.weight"] = tensors["output_norm.weight"]
    (tmp_path / "m.gguf").write_bytes(gguf(metadata, tensors))
    script = "import time\nfrom logos.cli.main import main\ntry:\n    main()\nfinally:\n    print(time.process_time())"
    for flags in ([], ["--json"]):
        command = [sys.executable, "-c", script, "inspect", os.fspath(tmp_path / "m.gguf"), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        *lines, seconds = done.stdout.splitlines()
        # Seconds of computing, the start of Python included: another process does not make them more.
        assert float(seconds) < 1
        if flags:
            record = json.loads(lines[0])
            assert record["metadata"]["tokenizer.ggml.tokens"] == {"items": count}
            assert record["unused"] == ["blk.0.unheard_of.weight"]
        else:
            assert f"  tokenizer.ggml.tokens = {count} items" in lines
            assert "no variable takes blk.0.unheard_of.weight" in lines
