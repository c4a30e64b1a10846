"""The checkpoint contract: what a format plugin gives the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a checkpoint.

    `shape` is in numpy's order, slowest dimension first; a linear layer is (out, in), stacked experts are
    (experts, out, in). Rows of a view count over all dimensions but the last, flattened. `storage` is the name of the
    storage type (`F32`, `BF16`, `Q8_0`, …). `nbytes` is what it takes in `file`.
    """

    name: str
    shape: tuple[int, ...]
    storage: str
    nbytes: int
    file: Path

    @property
    def columns(self) -> int:
        return self.shape[-1]

    @property
    def rows(self) -> int:
        rows = 1
        for dimension in self.shape[:-1]:
            rows *= dimension
        return rows


class Header(Protocol):
    """What a family reads to write a program: metadata and the tensors' names and shapes."""

    @property
    def metadata(self) -> Mapping[str, object]: ...

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...


class Checkpoint(Header, Protocol):
    """An open checkpoint, memory-mapped; nothing is read until asked for."""

    @property
    def path(self) -> Path: ...

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file of the checkpoint (shards)."""
        ...

    def raw_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Rows start … stop−1 as stored: (rows, bytes per row), a view of the mapped file where possible."""
        ...

    def float_rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        """Rows start … stop−1 as exact float32: (rows, columns)."""
        ...

    def close(self) -> None: ...
