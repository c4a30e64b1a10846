"""The files of a Hugging Face folder: JSON, and tensors in safetensors files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logos import Refused, Spot, Tensor, refuse

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
LONGEST_HEADER = 100_000_000


def broken(path: Path, what: str) -> Refused:
    return refuse("huggingface-checkpoint", what, Spot(str(path)), "download the checkpoint again")


def read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise broken(path, f"it cannot be read as JSON: {type(error).__name__}") from None
    if not isinstance(record, dict):
        raise broken(path, "it is no JSON object")
    return record


def shard_paths(path: Path) -> list[Path]:
    """model.safetensors, or the files that the index names."""
    index = path / "model.safetensors.index.json"
    named = read_json(index).get("weight_map", {}).values() if index.is_file() else ["model.safetensors"]
    shards = [path / Path(str(name)).name for name in sorted(set(named))]
    for shard in shards:
        if not shard.is_file():
            raise broken(shard, "there is no such file, and the checkpoint has a part of its tensors there")
    return shards


def tensors_of(file: Path) -> Iterator[tuple[Tensor, int]]:
    """The tensors of a safetensors file, each with its first byte: 8 bytes of length, a JSON header, the data."""
    size = file.stat().st_size
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise broken(file, f"it has a header of {length} bytes in a file of {size}")
        header = opened.read(length)
    try:
        entries = {name: entry for name, entry in json.loads(header).items() if name != "__metadata__"}
        fields = [(name, one["dtype"], tuple(one["shape"]), *one["data_offsets"]) for name, one in entries.items()]
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        raise broken(file, "its header is no list of tensors") from None
    for name, dtype, shape, start, stop in fields:
        if dtype not in BYTES:
            raise broken(file, f"{name} is stored as {dtype}; the sample reads {', '.join(BYTES)}")
        data = size - 8 - length
        counts = shape and all(type(number) is int and number > 0 for number in shape)
        if not counts or stop - start != BYTES[dtype] * math.prod(shape) or not 0 <= start <= stop <= data:
            raise broken(file, f"{name}, {dtype} {shape}, does not lie in bytes {start} to {stop} of {data}")
        yield Tensor(name, shape, dtype, stop - start, file), 8 + length + start
