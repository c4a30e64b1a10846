"""What decides a weight file's bytes, as data: the same recipe gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logos.weights.binding import Binding, Bound
from logos.weights.views import TensorView

if TYPE_CHECKING:
    from logos.hookspecs import WeightFile


def recipe_record(binding: Binding, weight_file: WeightFile) -> dict[str, object]:
    """What decides the bytes beside the contents of the files that they are read from; JSON can hold it."""
    entries = [
        [entry.variable, entry.dtype, entry.transposed, *_source(binding[entry.variable])]
        for entry in weight_file.entries
    ]
    return {
        "generator": _generator(),
        "family": binding.family,
        "path": weight_file.path,
        "format": weight_file.format,
        "entries": entries,
    }


@cache
def _generator() -> str:
    return f"logos {version('logos-build')}"


def recipe_digest(binding: Binding, weight_file: WeightFile, arrays: Mapping[str, Any] | None) -> str:
    """The SHA-256 of the record and of the source files' names, sizes and times.

    Values at hand in memory, and a source that is no file, make a digest that no other run has.
    """
    record = recipe_record(binding, weight_file)
    states = [_state(path) for path in _files(binding, weight_file)]
    if None in states or any(entry.variable in (arrays or {}) for entry in weight_file.entries):
        states = [[secrets.token_hex(16)]]
    return hashlib.sha256(json.dumps([record, states], sort_keys=True).encode()).hexdigest()


def _files(binding: Binding, weight_file: WeightFile) -> Iterator[Path]:
    if binding.checkpoint is not None:
        yield from binding.checkpoint.files
    for entry in weight_file.entries:
        if (file := binding[entry.variable].file) is not None:
            yield file


def _state(path: Path) -> list[object] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return [os.path.abspath(path), found.st_size, found.st_mtime_ns]


def _source(bound: Bound) -> list[object]:
    view = bound.view
    ranges = [repr(part) for part in view.ranges or ()] if isinstance(view, TensorView) else []
    tensor = [view.tensor, view.transposed, _digest(ranges)] if isinstance(view, TensorView) else []
    file = os.path.abspath(bound.file) if bound.file is not None else None
    return [bound.role.value, bound.leaf.value.shape, tensor, _digest(bound.leaf.fills), file]


def _digest(value: Sequence[object]) -> str | None:
    return hashlib.sha256(repr(tuple(value)).encode()).hexdigest() if value else None
