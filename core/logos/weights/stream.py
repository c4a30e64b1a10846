"""Values in stored order, in chunks of bounded memory: the one form in which every source of weights gives them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from logos.refusal import refuse
from logos.source import Spot
from logos.weights.checkpoint import Checkpoint
from logos.weights.views import TensorView

Scalar = TypeVar("Scalar", bound=np.generic)

CHUNK = 8 << 20
"""Bytes of values handled at once where nobody says otherwise: small enough for a cache, large enough for a disk."""


@dataclass(frozen=True)
class Stored:
    """A variable's values as their source stores them.

    `rows` by `columns` in stored order; `transposed` says that the program's shape is the transpose. `chunks` takes
    a limit in bytes and yields consecutive runs of whole rows, each (some rows, columns), of float32, float64 or
    int64. A tensor of a checkpoint also has its storage type and gives its rows as they lie in the file: `raw` is
    `chunks` without decoding, (some rows, bytes of a row).
    """

    rows: int
    columns: int
    transposed: bool
    chunks: Callable[[int], Iterator[NDArray[np.generic]]]
    storage: str | None = None
    raw: Callable[[int], Iterator[NDArray[np.uint8]]] | None = None

    def array(self, dtype: type[Scalar]) -> NDArray[Scalar]:
        """The whole variable in the program's shape; for a transposed source a transposed numpy view."""
        out = np.empty((self.rows, self.columns), dtype)
        row = 0
        for chunk in self.chunks(CHUNK):
            # A signalling NaN in a file warns when it is widened.
            with np.errstate(invalid="ignore"):
                out[row : row + len(chunk)] = chunk
            row += len(chunk)
        return out.T if self.transposed else out


def stored_array(values: NDArray[np.generic], transposed: bool = False) -> Stored:
    """An array at hand, (rows, columns) in stored order, as a source."""
    rows, columns = values.shape

    def chunks(limit: int) -> Iterator[NDArray[np.generic]]:
        step = max(1, limit // max(1, columns * values.itemsize))
        for start in range(0, rows, step):
            yield values[start : start + step]

    return Stored(rows, columns, transposed, chunks)


def stored_view(checkpoint: Checkpoint, view: TensorView) -> Stored:
    """A view on a tensor as a source. Refused: rows that the tensor does not have (`rows-outside-tensor`)."""
    tensor = checkpoint.tensors[view.tensor]
    ranges = _merged(view.row_ranges(tensor))
    for part in ranges:
        if min(part[0], part[-1]) < 0 or max(part[0], part[-1]) >= tensor.rows:
            raise refuse(
                "rows-outside-tensor",
                f"rows {part[0]} to {part[-1]} are asked for; the tensor has {tensor.rows} rows of {tensor.columns}",
                Spot(f"{tensor.file}, tensor {tensor.name}"),
                "the metadata (head counts and widths) and the tensors disagree; convert the model again",
            )
    count = sum(len(part) for part in ranges)
    name, row_bytes = tensor.name, tensor.nbytes // tensor.rows
    return Stored(
        count,
        tensor.columns,
        view.transposed,
        lambda limit: _chunks(functools.partial(checkpoint.float_rows, name), 4 * tensor.columns, ranges, limit),
        tensor.storage,
        lambda limit: _chunks(functools.partial(checkpoint.raw_rows, name), row_bytes, ranges, limit),
    )


def chunks(checkpoint: Checkpoint, view: TensorView, limit_bytes: int = CHUNK) -> Iterator[NDArray[np.generic]]:
    """The view's rows in order, not transposed, as float32 runs of at most `limit_bytes` (at least one row)."""
    return stored_view(checkpoint, view).chunks(limit_bytes)


def values(checkpoint: Checkpoint, view: TensorView) -> NDArray[np.float32]:
    """The variable in the program's shape, float32; where the view is transposed, a transposed numpy view."""
    return stored_view(checkpoint, view).array(np.float32)


def floats(checkpoint: Checkpoint, view: TensorView) -> NDArray[np.float32]:
    """All of the view's rows in order, not transposed: float32 (rows, columns)."""
    found = values(checkpoint, view)
    return found.T if view.transposed else found


def _merged(ranges: tuple[range, ...]) -> tuple[range, ...]:
    """The same rows in the same order, with neighbouring runs of step 1 made one and empty runs left out."""
    merged: list[range] = []
    for part in ranges:
        if len(part) == 0:
            continue
        one = range(part[0], part[0] + 1) if len(part) == 1 else part
        if merged and merged[-1].step == one.step == 1 and merged[-1].stop == one.start:
            merged[-1] = range(merged[-1].start, one.stop)
        else:
            merged.append(one)
    return tuple(merged)


def _chunks(
    read: Callable[[int, int], NDArray[Scalar]], row_bytes: int, ranges: tuple[range, ...], limit: int
) -> Iterator[NDArray[Scalar]]:
    if not ranges:
        return
    step = max(1, limit // max(1, row_bytes))
    if len(ranges) == 1 and ranges[0].step == 1:
        first, stop = ranges[0].start, ranges[0].stop
        for start in range(first, stop, step):
            yield read(start, min(start + step, stop))
        return
    # Gathered rows come with others around them, so a window is half the limit.
    step = max(1, step // 2)
    order = np.concatenate([np.arange(part.start, part.stop, part.step) for part in ranges])
    for start in range(0, len(order), step):
        yield _gather(read, order[start : start + step])


def _gather(read: Callable[[int, int], NDArray[Scalar]], order: NDArray[np.int64]) -> NDArray[Scalar]:
    """Rows in any order. Where at least half of the rows between the lowest and the highest are wanted, all of them
    are decoded at once; a sparser order is halved until that holds, so memory stays in proportion to what it gives."""
    low, high = int(order.min()), int(order.max()) + 1
    if high - low <= 2 * len(order) + 1:
        rows = read(low, high)
        return rows if len(order) == high - low and _ascending(order) else rows[order - low]
    half = len(order) // 2
    return np.concatenate([_gather(read, order[:half]), _gather(read, order[half:])])


def _ascending(order: NDArray[np.int64]) -> bool:
    return bool(np.all(np.diff(order) == 1))
