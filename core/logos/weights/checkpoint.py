"""The checkpoint contract: what a format plugin gives the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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


class TextStream(Protocol):
    """Ids to text piece by piece; what is fed goes on, so that a first blank stays."""

    def feed(self, number: int) -> str:
        """The characters that this id completes; bytes of an unfinished character wait for the next."""
        ...

    def finish(self) -> str:
        """What still waits: U+FFFD for bytes that never became a character."""
        ...


class Text(Protocol):
    """Text to token ids and back, as a checkpoint's own vocabulary has it."""

    @property
    def stop(self) -> frozenset[int]:
        """The ids that end a generated text."""
        ...

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """The ids of a text, after BOS where the checkpoint's text begins with it. With `special`, the texts of special
        tokens count as those tokens. The text may hold no lone surrogates."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens as they are written, without the BOS that `encode` puts first."""
        ...

    def stream(self) -> TextStream:
        """A decoder for ids that come one by one."""
        ...

    def chat(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """The ids of messages (`role` and `content`: system, user, assistant, tool) in the checkpoint's chat template,
        ready for the assistant's answer. Only what the template itself writes counts as special tokens. Refused: a
        checkpoint without a template, a template that fails or takes too much."""
        ...


class Checkpoint(Header, Protocol):
    """An open checkpoint, memory-mapped; nothing is read until asked for. Rows may be asked for by several threads."""

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

    def text(self) -> Text:
        """Its vocabulary. Refused: a checkpoint without one, or with one of a kind that the format's plugin does not
        know."""
        ...

    def close(self) -> None: ...
