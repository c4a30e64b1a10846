"""The files of a Hugging Face folder: JSON, and tensors in safetensors files."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logos import Refused, Spot, Tensor, refuse

BYTES = {"F32": 4, "F16": 2, "BF16": 2}
INDEX = "model.safetensors.index.json"
LONGEST_HEADER = 100_000_000
MOST_DIMENSIONS = 8


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
    index = path / INDEX
    homes = read_json(index).get("weight_map") if index.is_file() else {"every tensor": "model.safetensors"}
    if not isinstance(homes, dict) or not all(is_shard_name(name) for name in homes.values()):
        raise broken(index, "its weight_map does not say which safetensors file of this folder holds each tensor")
    shards = [path / name for name in sorted(set(homes.values()))]
    for shard in shards:
        if not shard.is_file():
            raise broken(shard, "there is no such file, and the checkpoint has a part of its tensors there")
    return shards


def is_shard_name(name: object) -> bool:
    """A plain file name: an index is no way into other folders."""
    return isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}\.safetensors", name, re.ASCII) is not None


def tensors_of(file: Path) -> Iterator[tuple[Tensor, int]]:
    """The tensors of a safetensors file, each with its first byte: 8 bytes of length, a JSON header, the data."""
    size = file.stat().st_size
    with open(file, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise broken(file, f"it has a header of {length} bytes in a file of {size}")
        header = opened.read(length)
    try:
        entries = [fields(name, one) for name, one in json.loads(header).items() if name != "__metadata__"]
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
        raise broken(file, "its header is no list of tensors") from None
    free, data = 0, size - 8 - length
    for start, stop, name, dtype, shape in sorted(entries):
        if dtype not in BYTES:
            raise broken(file, f"{name} is stored as {dtype}; the sample reads {', '.join(BYTES)}")
        counts = 0 < len(shape) <= MOST_DIMENSIONS and all(0 < number <= data for number in shape)
        if not counts or stop - start != BYTES[dtype] * math.prod(shape) or not 0 <= start <= stop <= data:
            raise broken(file, f"{name}, {dtype} {shape[:9]}, does not lie in bytes {start} to {stop} of {data}")
        if start < free:
            raise broken(file, f"{name} begins at byte {start}, where another tensor still is")
        free = stop
        yield Tensor(name, shape, dtype, stop - start, file), 8 + length + start


def fields(name: str, entry: Any) -> tuple[int, int, str, str, tuple[int, ...]]:
    """A tensor of a header: its first byte and the one behind it, name, dtype and shape."""
    start, stop = map(operator.index, entry["data_offsets"])
    return start, stop, name, str(entry["dtype"]), tuple(map(operator.index, entry["shape"]))
