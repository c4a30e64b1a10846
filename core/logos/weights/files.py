"""Weight files: what a weight folder may hold for a variable, and reading it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.refusal import Refused, refuse
from logos.source import Spot
from logos.weights.blocks import FORMATS
from logos.weights.safetensors import DTYPES, read_header
from logos.weights.stream import Stored, stored_array

SAFETENSORS = "weights.safetensors"
RAW_DTYPES = {".f64": "<f8", ".f32": "<f4", ".i64": "<i8"}
"""Raw files: row-major, little-endian, the program's shape, no header; looked for in this order."""

_MAGIC = b"\x93NUMPY"


def find_weight_file(folder: Path, variable: str) -> Path | None:
    """The file of a weight folder that holds a variable: weights.safetensors where it has the key, then
    `<variable>.f64`, `.f32`, `.i64`, `.npy`; None where no file does."""
    together = folder / SAFETENSORS
    if together.is_file() and variable in read_header(together).entries:
        return together
    for suffix in (*RAW_DTYPES, ".npy"):
        path = folder / f"{variable}{suffix}"
        if path.is_file():
            return path
    return None


def stored_file(path: Path, variable: str, shape: tuple[int, int], real: bool) -> Stored:
    """A variable's values in a weight file, mapped, not read.

    `shape` is the program's; a safetensors file that LOGOS extracted may hold its transpose and says so. Refused:
    another shape or length (`weight-file-shape`), reals for an Int variable or a dtype that LOGOS does not read
    (`weight-file-dtype`), a file that is broken (`broken-weight-file`) or cannot be read (`unreadable-file`).
    """
    try:
        if path.suffix == ".safetensors":
            stored = _safetensors(path, variable, shape)
        elif path.suffix == ".npy":
            stored = _npy(path, variable, shape)
        else:
            stored = _raw(path, variable, shape)
    except OSError as error:
        raise refuse(
            "unreadable-file", f"cannot read it: {error.strerror}", Spot(str(path)), "give a file that may be read"
        ) from None
    if not real and not np.can_cast(next(stored.chunks(1)).dtype, np.int64):
        raise refuse(
            "weight-file-dtype",
            f"{variable} is a tensor of Int and the file holds reals",
            Spot(str(path)),
            f"give {variable} as 64-bit integers ({variable}.i64 or .npy)",
        )
    return stored


def read_weight_file(path: Path, variable: str, shape: tuple[int, int], real: bool) -> NDArray[Any]:
    """The same values in memory, in the program's shape: float64, or int64 for a tensor of Int."""
    stored = stored_file(path, variable, shape, real)
    return stored.array(np.float64) if real else stored.array(np.int64)


def _wrong_shape(path: Path, what: str, variable: str, shape: tuple[int, int]) -> Refused:
    return refuse(
        "weight-file-shape",
        f"{what}; the program's {variable} is {shape[0]} by {shape[1]}",
        Spot(f"{path}, {variable}"),
        "write the file for this program's shape, rows first",
    )


def _raw(path: Path, variable: str, shape: tuple[int, int]) -> Stored:
    dtype = np.dtype(RAW_DTYPES[path.suffix])
    size, due = path.stat().st_size, shape[0] * shape[1] * dtype.itemsize
    if size != due:
        raise _wrong_shape(path, f"the file has {size} bytes where {due} are due", variable, shape)
    return stored_array(np.memmap(path, dtype, "r", shape=shape))


def mapped_npy(path: Path) -> NDArray[Any]:
    """The array in a .npy file, mapped, not read. Raises OSError, and ValueError where it is no such file."""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no .npy file")
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError:
        raise
    except Exception as error:  # whatever a stranger's bytes make numpy raise
        raise ValueError(str(error)) from None


def _npy(path: Path, variable: str, shape: tuple[int, int]) -> Stored:
    try:
        array = mapped_npy(path)
    except ValueError as error:
        raise refuse(
            "broken-weight-file", f"not a sound .npy file: {error}", Spot(str(path)), "write it again with numpy.save"
        ) from None
    if array.shape not in _shapes(shape):
        raise _wrong_shape(path, f"the array's shape is {array.shape}", variable, shape)
    if array.dtype.kind not in "fiu":
        raise _unread(path, variable, str(array.dtype))
    return stored_array(array.reshape(shape))


def _safetensors(path: Path, variable: str, shape: tuple[int, int]) -> Stored:
    contents = read_header(path)
    entry = contents.entries[variable]
    transposed = variable in contents.transposed
    stored = shape[::-1] if transposed else shape
    if entry.shape not in _shapes(stored):
        raise _wrong_shape(path, f"the file's shape is {entry.shape}", variable, shape)
    if entry.dtype not in DTYPES:
        raise _unread(path, variable, entry.dtype)
    array = np.memmap(path, DTYPES[entry.dtype], "r", offset=entry.start, shape=stored)
    if entry.dtype == "BF16":
        return _widened(array, transposed)
    return stored_array(array, transposed)


def _unread(path: Path, variable: str, dtype: str) -> Refused:
    return refuse(
        "weight-file-dtype",
        f"{variable} is stored as {dtype}, which LOGOS does not read",
        Spot(f"{path}, {variable}"),
        f"store it as one of {', '.join(DTYPES)}",
    )


def _shapes(shape: tuple[int, int]) -> tuple[tuple[int, ...], ...]:
    """How a shape may be written: a single row also as one dimension."""
    return (shape, shape[1:]) if shape[0] == 1 else (shape,)


def _widened(bits: NDArray[Any], transposed: bool) -> Stored:
    """bfloat16 values, given as their bits, as float32."""
    plain = stored_array(bits, transposed)
    widen: Callable[[NDArray[Any]], NDArray[np.float32]] = FORMATS["BF16"].floats

    def chunks(limit: int) -> Iterator[NDArray[Any]]:
        for chunk in plain.chunks(limit // 2):
            yield widen(chunk.view(np.uint8))

    return Stored(plain.rows, plain.columns, transposed, chunks)
