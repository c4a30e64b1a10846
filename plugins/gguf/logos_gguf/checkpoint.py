"""A GGUF checkpoint: one file or a set of shards behind the core's checkpoint contract."""

from __future__ import annotations

import mmap
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from logos import FORMATS, InexactValueError, Spot, Tensor, Text, refuse
from logos_gguf.container import Shard, broken
from logos_gguf.metadata import release

_SHARD_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)\Z", re.DOTALL)


class GGUFCheckpoint:
    """Satisfies `logos.weights.checkpoint.Checkpoint`."""

    def __init__(self, path: Path) -> None:
        """Opens the checkpoint that `path` belongs to; any shard opens the whole set.

        Refused: what `Shard` refuses; a shard that is missing (`missing-shard`); shards that do not belong together
        (`broken-checkpoint`).
        """
        self.path = path
        shards = _shards(path)
        self.files = tuple(shard.path for shard in shards)
        self.metadata: Mapping[str, object] = shards[0].metadata
        tensors: dict[str, Tensor] = {}
        self._shards: dict[str, Shard] = {}
        for shard in shards:
            for name, tensor in shard.tensors.items():
                if name in tensors:
                    raise broken(shard.path, f"the tensor {name} stands in {self._shards[name].path.name} too")
                tensors[name], self._shards[name] = tensor, shard
        if len(shards) > 1 and (due := self.metadata.get("split.tensors.count")) not in (None, len(tensors)):
            raise broken(path, f"the shards hold {len(tensors)} tensors; split.tensors.count says {due}")
        self.tensors: Mapping[str, Tensor] = MappingProxyType(tensors)
        self._maps = tuple(shard.map for shard in shards)
        self._behind = threading.local()

    def raw_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        tensor, shard = self.tensors[name], self._shards[name]
        row_bytes = tensor.nbytes // tensor.rows
        if not 0 <= start <= stop <= tensor.rows:
            raise IndexError(f"rows {start} to {stop} of {name}, which has {tensor.rows}")
        at = shard.starts[name] + start * row_bytes
        rows = np.frombuffer(shard.map, np.uint8, (stop - start) * row_bytes, at).reshape(stop - start, row_bytes)
        self._release(shard, at, rows.nbytes)
        return rows

    def float_rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        """As the contract says. Refused: a value that float32 cannot hold (`inexact-weight`)."""
        raw = self.raw_rows(name, start, stop)
        tensor = self.tensors[name]
        try:
            return FORMATS[tensor.storage].floats(raw)
        except InexactValueError as error:
            raise refuse(
                "inexact-weight",
                f"{error}, and weights are float32: the tensor is stored as {tensor.storage}",
                Spot(f"{tensor.file}, tensor {name}"),
                "convert the tensor to F32",
            ) from None

    def text(self) -> Text:
        """As the contract says. Refused: what `read_vocabulary` refuses, at once; a vocabulary that contradicts itself
        (`broken-vocabulary`), when text is first made into ids or back."""
        from logos_gguf.text.tokenizer import GGUFText
        from logos_gguf.text.vocabulary import read_vocabulary

        return GGUFText(read_vocabulary(self.metadata, self.path))

    def close(self) -> None:
        for data in self._maps:
            # Arrays that are still in use keep their mapping, which then goes with the last of them.
            with suppress(BufferError):
                data.close()

    def _release(self, shard: Shard, at: int, count: int) -> None:
        """Gives back the pages of the rows that this thread read before these, so that a stream through a large file
        stays small.

        They are pages of a file, so an array that still looks at them reads them again.
        """
        before: tuple[mmap.mmap, int, int] | None = getattr(self._behind, "rows", None)
        if before is not None:
            release(*before)
        self._behind.rows = (shard.map, at, count)


def _shards(path: Path) -> list[Shard]:
    opened = Shard(path)
    count = opened.metadata.get("split.count", 1)
    if type(count) is not int or count < 2:
        return [opened]
    match = _SHARD_NAME.match(path.name)
    if match is None or int(match["count"]) != count:
        raise broken(
            path,
            f"the file is one shard of {count}, but its name does not end in -00001-of-{count:05}.gguf",
            "give the shard its name back, and keep the set in one folder",
        )
    paths = [path.with_name(f"{match['stem']}-{n:05}-of-{count:05}{match['suffix']}") for n in range(1, count + 1)]
    missing = [one.name for one in paths if not one.is_file()]
    if missing:
        named = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise refuse(
            "missing-shard",
            f"the checkpoint has {count} shards; {named} {'is' if len(missing) == 1 else 'are'} missing",
            Spot(str(path)),
            f"put all {count} shards in {path.parent}",
        )
    shards = [opened if one == path else Shard(one) for one in paths]
    for number, shard in enumerate(shards):
        if (found := shard.metadata.get("split.no")) != number or shard.metadata.get("split.count") != count:
            raise broken(
                shard.path,
                f"the shard says that it is number {found} of {shard.metadata.get('split.count')}, counted from 0; "
                f"its name says {number} of {count}",
            )
    return shards
