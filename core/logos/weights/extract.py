"""Weight files, written: every leaf streamed from its source in bounded memory, beside the final name, then renamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from logos.atomic import replacing
from logos.refusal import Refusal, Refused
from logos.weights.binding import Binding
from logos.weights.encode import encoded
from logos.weights.files import RAW_DTYPES
from logos.weights.safetensors import DTYPES, header
from logos.weights.stream import CHUNK, Stored
from logos.weights.values import leaf_values

if TYPE_CHECKING:
    from logos.hookspecs import WeightEntry, WeightFile

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) as a file grows."""

_BAND = 96 << 20
"""Bytes held at once while a transpose is written."""

_RAW_SUFFIXES = {"F64": ".f64", "F32": ".f32", "I64": ".i64"}
assert set(_RAW_SUFFIXES.values()) == set(RAW_DTYPES)


@dataclass(frozen=True)
class _Item:
    entry: WeightEntry
    source: Stored
    shape: tuple[int, int]

    @property
    def nbytes(self) -> int:
        return self.shape[0] * self.shape[1] * np.dtype(DTYPES[self.entry.dtype]).itemsize


def write_weight_file(
    binding: Binding,
    weight_file: WeightFile,
    folder: Path,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Writes a weight file below `folder` and returns the paths of what it wrote.

    `arrays` give values, in the program's shape, that stand before every other source. The same values give the
    same bytes: elements little-endian, tensors by falling element size and then in the order of the entries.
    Refused: leaves without a value, all in one report (`weight-without-value`); a disk that does not take the file
    (`unwritable-file`); and whatever the sources refuse.
    """
    items = _items(binding, weight_file, arrays)
    meter = _Meter(sum(item.nbytes for item in items), progress)
    target = folder / weight_file.path
    if weight_file.format == "raw":
        paths = tuple(target / (item.entry.variable + _RAW_SUFFIXES[item.entry.dtype]) for item in items)
        for path, item in zip(paths, items, strict=True):
            with replacing(path) as file:
                _write(file, item, meter)
        return paths
    items = sorted(items, key=lambda item: -np.dtype(DTYPES[item.entry.dtype]).itemsize)
    with replacing(target) as file:
        flipped = [item.entry.variable for item in items if item.entry.transposed]
        file.write(header([(item.entry.variable, item.entry.dtype, item.shape) for item in items], flipped))
        for item in items:
            _write(file, item, meter)
    return (target,)


def check_sources(binding: Binding, weight_file: WeightFile) -> None:
    """Refuses, before anything is written, what `write_weight_file` would refuse for its leaves' sources."""
    _items(binding, weight_file, None)


def _items(
    binding: Binding, weight_file: WeightFile, arrays: Mapping[str, NDArray[Any]] | None
) -> list[_Item]:
    items, missing = [], []
    for entry in weight_file.entries:
        bound = binding[entry.variable]
        source = leaf_values(binding, bound, arrays)
        if source is None:
            missing.append(
                Refusal(
                    "weight-without-value",
                    f"{bound.name} ({bound.role.value}) has no value to extract",
                    bound.leaf.span,
                    "give a checkpoint that holds it, a weight folder with its file, or --fill",
                )
            )
            continue
        rows, columns = bound.leaf.value.shape
        items.append(_Item(entry, source, (columns, rows) if entry.transposed else (rows, columns)))
    if missing:
        raise Refused(missing)
    return items


class _Meter:
    """Counts bytes for the progress callback."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


def _write(file: BinaryIO, item: _Item, meter: _Meter) -> None:
    for chunk in _oriented(item.source, item.entry.transposed):
        data = encoded(chunk, item.entry.dtype)
        file.write(data.data)
        meter.add(data.nbytes)


def _oriented(source: Stored, transposed: bool) -> Iterator[NDArray[Any]]:
    """The source's values in the wanted order: as stored, or turned in bands of its columns, the source being read
    once a band."""
    if source.transposed == transposed:
        yield from source.chunks(CHUNK)
        return
    width = max(1, _BAND // (8 * source.rows))
    for first in range(0, source.columns, width):
        band, row = None, 0
        for chunk in source.chunks(CHUNK):
            part = chunk[:, first : first + width]
            if band is None:
                band = np.empty((part.shape[1], source.rows), chunk.dtype)
            band[:, row : row + len(part)] = part.T
            row += len(part)
        if band is not None:
            yield band
