"""Weights of an emitted module: what a folder holds, read without any package beyond torch and numpy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class ArtifactError(Exception):
    """What is wrong with the weights, inputs or arguments that were given, in words."""


class Leaf(NamedTuple):
    """A declared variable: its shape in the program (rows, columns), its role, and its kind: `real`, `linear` (a weight
    held as its [out, in] rows, the transpose of its shape), `int32` (row numbers) or `int64`."""

    shape: tuple[int, int]
    role: str
    kind: str

    @property
    def whole(self) -> bool:
        return self.kind in ("int32", "int64")

    def text(self) -> str:
        return "%d by %d" % self.shape


class Stored(NamedTuple):
    """Where a file holds a variable; `transposed`: as [out, in] rows, the transpose of the program's shape."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    transposed: bool


NUMPY_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<i2", "I64": "<i8", "I32": "<i4"}
RAW_DTYPES = {".f64": "F64", ".f32": "F32", ".i64": "I64"}
BITS = {torch.float64: "i8", torch.float32: "i4", torch.bfloat16: "i2"}
HELD = ("weight", "table", "constant")


def held_as(name: str, leaf: Leaf, values: Tensor, dtype: torch.dtype) -> Tensor:
    """Values of the program's shape and of any dtype, as the module holds the leaf."""
    if leaf.kind == "int32" and (values.abs() > 2**31 - 1).any():
        raise ArtifactError(f"{name} holds a number beyond 32 bits, and it is a row of a table")
    values = values.t() if leaf.kind == "linear" else values
    return values.to({"int32": torch.int32, "int64": torch.int64}.get(leaf.kind, dtype)).contiguous()


def initial(name: str, leaf: Leaf, fills: Mapping[int, float], dtype: torch.dtype) -> Tensor:
    """Zeros with the program's fills (element, counted from 0 by rows: value), as the module holds the leaf."""
    exact = np.int64 if leaf.whole else np.float64
    if fills:
        values = np.zeros(leaf.shape[0] * leaf.shape[1], exact)
        values[list(fills)] = list(fills.values())
        return held_as(name, leaf, torch.from_numpy(values.reshape(leaf.shape)), dtype)
    shape = leaf.shape[::-1] if leaf.kind == "linear" else leaf.shape
    if leaf.whole:
        return torch.zeros(shape, dtype=torch.int32 if leaf.kind == "int32" else torch.int64)
    # numpy's zeros take no memory until they are written to, torch's do.
    return torch.from_numpy(np.zeros(shape, BITS[dtype])).view(dtype)


def int32_column(values: Iterable[int]) -> nn.Parameter:
    """Whole numbers in one column: a parameter, since parameters are what is converted for the device."""
    return nn.Parameter(torch.tensor([[value] for value in values], dtype=torch.int32), requires_grad=False)


def safetensors_entries(path: str) -> dict[str, Stored]:
    """The tensors of a safetensors file, by name, from its header alone."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ArtifactError(f"{path}: the header should end at byte {8 + length}, but the file has {size}")
        text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"))
        transposed = header.pop("__metadata__", {}).get("logos.transposed", "").split(",")
        return {name: stored_entry(path, size, 8 + length, name, header[name], transposed) for name in header}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path}: not a sound safetensors file ({error})") from None


def stored_entry(path: str, size: int, base: int, name: str, entry: Any, transposed: list[str]) -> Stored:
    dtype, shape = str(entry["dtype"]), tuple(int(extent) for extent in entry["shape"])
    start, stop = (base + int(offset) for offset in entry["data_offsets"])
    if stop > size:
        raise ArtifactError(f"{path}: {name} should end at byte {stop}, but the file has {size}")
    if dtype in NUMPY_DTYPES:
        due = int(np.prod(shape, dtype=np.int64)) * np.dtype(NUMPY_DTYPES[dtype]).itemsize
        if stop - start != due:
            raise ArtifactError(f"{path}: {name} has {stop - start} bytes; {dtype} {list(shape)} takes {due}")
    return Stored(path, dtype, shape, start, name in transposed)


def find_values(directory: str, leaves: Mapping[str, Leaf]) -> dict[str, Stored]:
    """The leaves that a folder holds: weights.safetensors first, then `<name>.f64`, `.f32`, `.i64`, row-major,
    little-endian, in the program's shape. A raw file of another length is refused with both sizes."""
    together = os.path.join(directory, "weights.safetensors")
    entries = safetensors_entries(together) if os.path.isfile(together) else {}
    found = {name: entries[name] for name in leaves if name in entries}
    for name, leaf in leaves.items():
        for suffix, dtype in RAW_DTYPES.items():
            path = os.path.join(directory, name + suffix)
            if name not in found and os.path.isfile(path):
                size = os.path.getsize(path)
                due = leaf.shape[0] * leaf.shape[1] * np.dtype(NUMPY_DTYPES[dtype]).itemsize
                if size != due:
                    raise ArtifactError(f"{path} has {size} bytes; {name} ({leaf.text()}) takes {due}")
                found[name] = Stored(path, dtype, leaf.shape, 0, False)
    return found


def read_stored(name: str, leaf: Leaf, stored: Stored, dtype: torch.dtype) -> Tensor:
    """A leaf as the module holds it, from its file: mapped, not copied, where the file holds it so."""
    if stored.dtype not in NUMPY_DTYPES:
        raise ArtifactError(f"{stored.path}: {name} has dtype {stored.dtype}; known are {', '.join(NUMPY_DTYPES)}")
    shape = leaf.shape[::-1] if stored.transposed else leaf.shape
    if stored.shape != shape and not (shape[0] == 1 and stored.shape == shape[1:]):
        raise ArtifactError(f"{stored.path}: {name} has shape {list(stored.shape)}; {list(shape)} is due")
    # Copy on write: the pages stay the file's until someone writes to the parameter.
    array: Any = np.memmap(stored.path, NUMPY_DTYPES[stored.dtype], "c", stored.start, shape)
    values = torch.from_numpy(np.require(array, requirements="A"))
    if stored.dtype == "BF16":
        values = values.view(torch.bfloat16)
    if leaf.whole and values.dtype.is_floating_point:
        values = values.round().to(torch.int64)
    return held_as(name, leaf, values.t() if stored.transposed else values, dtype)


def given_values(name: str, leaf: Leaf, value: Any) -> Tensor:
    """A number (every element), a nested list or an array, in the program's shape: int64 or as given."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ArtifactError(f"{name}: the rows of a value have equal lengths") from None
    if array.dtype.kind not in ("iu" if leaf.whole else "iuf") or array.dtype == np.uint64:
        raise ArtifactError(f"{name} takes {'whole numbers' if leaf.whole else 'numbers'}")
    if array.ndim == 0:
        array = np.full(leaf.shape, array)
    if leaf.shape[0] == 1 and array.shape == leaf.shape[1:]:
        array = array.reshape(leaf.shape)
    if array.shape != leaf.shape:
        raise ArtifactError(f"{name} is {leaf.text()}; a value of shape {list(array.shape)} was given")
    return torch.from_numpy(np.array(array, dtype=np.int64 if leaf.whole else array.dtype, order="C"))


def load_parameters(
    module: nn.Module,
    leaves: Mapping[str, Leaf],
    names: Mapping[str, str],
    fills: Mapping[str, Mapping[int, float]],
    directory: str,
    dtype: torch.dtype,
    given: Mapping[str, Any],
) -> None:
    """Gives every weight, table and constant its value: `given`, else the folder's, else the program's fills.
    Raises ArtifactError with all that are missing."""
    held = {name: leaf for name, leaf in leaves.items() if leaf.role in HELD}
    found = find_values(directory, {name: leaf for name, leaf in held.items() if name not in given})
    missing = missing_values(held, fills, {**found, **given})
    if missing:
        raise ArtifactError(f"{directory or '.'} does not hold {', '.join(missing)}")
    for name, leaf in held.items():
        if name in given:
            values = held_as(name, leaf, given_values(name, leaf, given[name]), dtype)
        elif name in found:
            values = read_stored(name, leaf, found[name], dtype)
        else:
            values = initial(name, leaf, fills[name], dtype)
        setattr(module, names.get(name, name), nn.Parameter(values, requires_grad=False))
    module.to(dtype)


def missing_values(
    leaves: Mapping[str, Leaf], fills: Mapping[str, Mapping[int, float]], present: Mapping[str, Any]
) -> list[str]:
    """The leaves that nothing gives a value, in words."""
    return [
        f"{leaf.role} {name} ({leaf.text()})"
        for name, leaf in leaves.items()
        if leaf.role != "state" and name not in present and name not in fills
    ]
