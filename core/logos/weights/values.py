"""The value of a leaf, from whichever source supplies it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.graph import Leaf
from logos.weights.binding import Binding, Bound, Role
from logos.weights.files import stored_file
from logos.weights.stream import Stored, stored_array, stored_view
from logos.weights.views import Table, TensorView


def leaf_values(binding: Binding, bound: Bound, arrays: Mapping[str, NDArray[Any]] | None = None) -> Stored | None:
    """Where a leaf's values come from, ready to stream; None where it has none.

    The first of these that there is: `arrays` (values in the program's shape, by variable); the weight folder's
    file; the checkpoint's tensor; the table that the family computes; the program's fills. A constant or a state is
    zero where nothing fills it. An input has a value in `arrays` alone.
    """
    rows, columns = bound.leaf.value.shape
    if arrays and bound.name in arrays:
        return stored_array(arrays[bound.name].reshape(rows, columns))
    if bound.role is Role.INPUT:
        return None
    if bound.role is not Role.STATE:
        if bound.file is not None:
            return stored_file(bound.file, bound.name, (rows, columns), bound.leaf.value.real)
        if isinstance(bound.view, TensorView) and bound.tensor is not None and binding.checkpoint is not None:
            return stored_view(binding.checkpoint, bound.view)
        if isinstance(bound.view, Table) and bound.view.compute is not None:
            return _of_table(bound.view, rows, columns)
    if bound.leaf.fills or bound.role in (Role.CONSTANT, Role.STATE):
        return _of_fills(bound.leaf)
    return None


def leaf_array(
    binding: Binding, bound: Bound, arrays: Mapping[str, NDArray[Any]] | None = None
) -> NDArray[Any] | None:
    """A leaf's value in the program's shape, float64 (int64 for a tensor of Int); None where it has none."""
    stored = leaf_values(binding, bound, arrays)
    if stored is None:
        return None
    return stored.array(np.float64) if bound.leaf.value.real else stored.array(np.int64)


def _of_table(table: Table, rows: int, columns: int) -> Stored:
    def chunks(limit: int) -> Iterator[NDArray[Any]]:
        assert table.compute is not None
        yield from stored_array(table.compute(rows, columns)).chunks(limit)

    return Stored(rows, columns, False, chunks)


def _of_fills(leaf: Leaf) -> Stored:
    """Zeros with the fills in their places, made a chunk at a time."""
    rows, columns = leaf.value.shape
    dtype = np.float64 if leaf.value.real else np.int64
    fills = sorted(leaf.fills)
    places = [place for place, _ in fills]

    def chunks(limit: int) -> Iterator[NDArray[Any]]:
        step = max(1, limit // (8 * columns))
        for row in range(0, rows, step):
            chunk = np.zeros((min(step, rows - row), columns), dtype)
            first = row * columns
            for place, value in fills[bisect_left(places, first) : bisect_left(places, first + chunk.size)]:
                chunk.flat[place - first] = value
            yield chunk

    return Stored(rows, columns, False, chunks)
