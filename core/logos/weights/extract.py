"""Weight files, written: every leaf streamed from its source in bounded memory, beside the final name, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from logos.atomic import unwritable
from logos.graph import Leaf
from logos.refusal import Refusal, Refused, refuse
from logos.source import Spot
from logos.weights.binding import Binding
from logos.weights.blocks import InexactValueError
from logos.weights.encode import encoded
from logos.weights.q8 import BLOCK, quantize, split
from logos.weights.recipe import recipe_digest
from logos.weights.resume import Digest, Part, Workplace, holds, workplace
from logos.weights.safetensors import DTYPES, header
from logos.weights.stream import CHUNK, Stored
from logos.weights.values import leaf_values

if TYPE_CHECKING:
    from logos.hookspecs import WeightEntry, WeightFile

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) as a file grows."""

_BAND = 96 << 20
"""Bytes held at once while a transpose is written."""

_BLOCKS = 2 << 20
"""Bytes of blocks that are split at once: what comes of them stays in a core's cache until it is written."""

_AT_ONCE = 2
"""Items that go into files of their own at once."""

_HANDED = 16 << 20
"""Bytes after which the disk is told to begin writing."""


@dataclass(frozen=True)
class _Item:
    """One entry with the values that it takes; `shape` is (rows, columns) as written."""

    entry: WeightEntry
    leaf: Leaf
    source: Stored
    shape: tuple[int, int]

    @property
    def nbytes(self) -> int:
        count = self.shape[0] * self.shape[1]
        if self.entry.dtype == "Q8_0":
            return count + 4 * (count // BLOCK)
        return count * np.dtype(DTYPES[self.entry.dtype]).itemsize

    def streams(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """What goes into each of the entry's files, run by run."""
        if self.entry.dtype != "Q8_0":
            for chunk in _oriented(self.source, self.entry.transposed):
                yield (encoded(chunk, self.entry.dtype),)
        elif self.stored_as_q8:
            assert self.source.raw is not None
            for raw in self.source.raw(_BLOCKS):
                yield split(raw)
        else:
            for chunk in _oriented(self.source, self.entry.transposed):
                yield split(self._quantized(chunk))

    @property
    def stored_as_q8(self) -> bool:
        return self.source.storage == "Q8_0" and self.source.transposed == self.entry.transposed

    def _quantized(self, chunk: NDArray[Any]) -> NDArray[np.uint8]:
        try:
            return quantize(chunk).view(np.uint8)
        except InexactValueError as error:
            what = f"{error}, and {self.leaf.name} is asked for in it"
            raise refuse("inexact-weight", what, self.leaf.span, f"extract {self.leaf.name} as float32") from None


def write_weight_file(
    binding: Binding,
    weight_file: WeightFile,
    folder: Path,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Writes a weight file below `folder` and returns the paths of what it wrote.

    `arrays` give values, in the program's shape, that stand before every other source. The same values give the
    same bytes: elements little-endian, tensors by falling element size and then in the order of the entries. What a
    killed or interrupted run finished, tensor by tensor, is taken over where its sources are the same still. Refused:
    what `check_sources` refuses; a disk without room, before anything is written (`not-enough-space`); values that an
    entry's type cannot hold (`inexact-weight`); a disk that does not take the file (`unwritable-file`).
    """
    items = _items(binding, weight_file, arrays)
    total = sum(item.nbytes for item in items)
    meter = _Meter(total, progress)
    paths = tuple(folder / path for path in weight_file.paths)
    raw = weight_file.format == "raw"
    target = folder / weight_file.path
    base = target if raw else target.parent
    try:
        base.mkdir(parents=True, exist_ok=True)
        name = weight_file.format if raw else target.name
        with workplace(base, name, recipe_digest(binding, weight_file, arrays)) as work:
            _check_space(work, target, total)
            if raw:
                _write_raw(work, base, items, meter)
            else:
                _write_together(work, target, items, meter)
            for path in paths:
                # One that is not there was moved by a run that was killed while it did so.
                if (made := work.folder / path.name).exists():
                    os.replace(made, path)
    except OSError as error:
        raise unwritable(target, error) from error
    return paths


def _check_space(work: Workplace, target: Path, total: int) -> None:
    finished = sum(count for parts in work.finished.values() for count, _ in parts)
    free = shutil.disk_usage(work.folder).free
    if total - finished > free:
        what = f"{total - finished:,} bytes are to be written, and the disk has {free:,} free"
        raise refuse("not-enough-space", what, Spot(str(target)), "free space, or name a folder on another disk")


def check_sources(binding: Binding, weight_file: WeightFile) -> None:
    """Refuses, before anything is written, and all in one report: leaves without a value (`weight-without-value`),
    rows that are no whole number of Q8_0 blocks (`not-whole-blocks`), and whatever the sources refuse."""
    _items(binding, weight_file, None)


def _items(
    binding: Binding, weight_file: WeightFile, arrays: Mapping[str, NDArray[Any]] | None
) -> list[_Item]:
    items, refusals = [], []
    for entry in weight_file.entries:
        bound = binding[entry.variable]
        source = leaf_values(binding, bound, arrays)
        if source is None:
            refusals.append(
                Refusal(
                    "weight-without-value",
                    f"{bound.name} ({bound.role.value}) has no value to extract",
                    bound.leaf.span,
                    "give a checkpoint that holds it, a weight folder with its file, or --fill",
                )
            )
            continue
        rows, columns = bound.leaf.value.shape
        item = _Item(entry, bound.leaf, source, (columns, rows) if entry.transposed else (rows, columns))
        if entry.dtype == "Q8_0" and item.shape[1] % BLOCK:
            refusals.append(_not_whole(item))
        items.append(item)
    if refusals:
        raise Refused(refusals)
    return items


def _not_whole(item: _Item) -> Refusal:
    k, name = item.shape[1], item.leaf.name
    kind = "rows" if item.entry.transposed else "columns"
    return Refusal(
        "not-whole-blocks",
        f"{name} is asked for in Q8_0 and has K = {k} {kind}; a block holds {BLOCK}, and {k} is no multiple of it",
        item.leaf.span,
        f"extract {name} as float32, or make K a multiple of {BLOCK}",
    )


class _Meter:
    """Counts bytes for the progress callback, which is called by one thread at a time."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress, self._lock = 0, total, progress, Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress is not None:
                self._progress(self._done, self._total)


def _write_raw(work: Workplace, base: Path, items: list[_Item], meter: _Meter) -> None:
    """Every item into files of its own, which are to end in `base`; some items at once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(_write_alone, work, base, item, meter) for item in items]
        try:
            for one in running:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _write_alone(work: Workplace, base: Path, item: _Item, meter: _Meter) -> None:
    done = dict(zip(item.entry.files, work.finished.get(item.entry.variable, ()), strict=False))
    if done and all(_made(work, base / name, part) for name, part in done.items()):
        meter.add(item.nbytes)
        return
    with ExitStack() as stack:
        files = [stack.enter_context(open(work.folder / name, "wb")) for name in item.entry.files]
        parts = _write(files, item, meter)
    work.record(item.entry.variable, *parts)


def _made(work: Workplace, final: Path, part: Part) -> bool:
    """Whether a file is finished, in the work folder or, where a run was killed as it moved its files, in its place."""
    made = work.folder / final.name
    try:
        with open(made if made.exists() else final, "rb") as file:
            return holds(file, part) and not file.read(1)
    except OSError:
        return False


def _write_together(work: Workplace, final: Path, items: list[_Item], meter: _Meter) -> None:
    """All items into one safetensors file, behind those at its beginning that are finished."""
    items = sorted(items, key=lambda item: -np.dtype(DTYPES[item.entry.dtype]).itemsize)
    flipped = [item.entry.variable for item in items if item.entry.transposed]
    head = header([(item.entry.variable, item.entry.dtype, item.shape) for item in items], flipped)
    with open(work.folder / final.name, "a+b") as file:
        file.seek(0)
        if file.read(len(head)) != head:
            file.truncate(0)
            file.write(head)
            file.flush()
        finished = 0
        while finished < len(items) and _follows(work, file, items[finished]):
            meter.add(items[finished].nbytes)
            finished += 1
        file.truncate(len(head) + sum(item.nbytes for item in items[:finished]))
        for item in items[finished:]:
            parts = _write([file], item, meter)
            file.flush()
            work.record(item.entry.variable, *parts)


def _follows(work: Workplace, file: BinaryIO, item: _Item) -> bool:
    """Whether an item is finished and lies where the file stands; it stands behind it then."""
    done = work.finished.get(item.entry.variable, ())
    return len(done) == 1 and done[0][0] == item.nbytes and holds(file, done[0])


def _write(files: Sequence[BinaryIO], item: _Item, meter: _Meter) -> list[Part]:
    outputs = [_Output(file) for file in files]
    for arrays in item.streams():
        for output, array in zip(outputs, arrays, strict=True):
            output.write(array.reshape(-1).view(np.uint8).data)
        meter.add(sum(array.nbytes for array in arrays))
    return [output.part() for output in outputs]


class _Output:
    """A run of bytes on its way into a file, with its digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self._handed = file, Digest(), 0

    def write(self, data: memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)
        if self._digest.count - self._handed >= _HANDED:
            self._hand_over()

    def part(self) -> Part:
        self._hand_over()
        return self._digest.part()

    def _hand_over(self) -> None:
        """Lets the disk begin with what was written: a system that is left to itself begins when memory is full."""
        self._file.flush()
        count, self._handed = self._digest.count - self._handed, self._digest.count
        if count >= _HANDED and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), self._file.tell() - count, count, os.POSIX_FADV_DONTNEED)


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
