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


NUMPY_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<i2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
}
RAW_DTYPES = {".f64": "F64", ".f32": "F32", ".i64": "I64"}
# The dtype of what lies in a .npy file, which has a header of its own.
NPY = "npy"
TORCH_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
BITS = {torch.float64: "i8", torch.float32: "i4", torch.bfloat16: "i2"}
HELD = ("weight", "table", "constant")


def torch_dtype(dtype: Any) -> torch.dtype:
    """The module's dtype by its name or torch's."""
    for name, found in TORCH_DTYPES.items():
        if dtype == name or dtype is found:
            return found
    raise ArtifactError(f"the module takes the dtypes {', '.join(TORCH_DTYPES)}, not {dtype}")


def held_as(name: str, leaf: Leaf, values: Tensor, dtype: torch.dtype) -> Tensor:
    """Values of the program's shape and of any dtype, as the module holds the leaf."""
    if leaf.kind == "int32" and ((values < -(2**31)) | (values >= 2**31)).any():
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
    """The tensors of a safetensors file, by variable. A variable named as the header's own key lies under one with a
    point, which no variable's name holds."""
    found, _ = safetensors_file(path)
    return {"__metadata__" if key == "__metadata__.value" else key: stored for key, stored in found.items()}


def safetensors_file(path: str) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors of a safetensors file, by key, and its metadata, from its header alone."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > size - 8:
            raise ArtifactError(f"{path}: the header should end at byte {8 + length}, but the file has {size}")
        text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"))
        metadata = header.pop("__metadata__", {})
        transposed = metadata.get("logos.transposed", "").split(",")
        found = {key: stored_entry(path, size, 8 + length, key, header[key], transposed) for key in header}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path}: not a sound safetensors file ({error})") from None
    return found, metadata


def stored_entry(path: str, size: int, base: int, key: str, entry: Any, transposed: list[str]) -> Stored:
    dtype, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not isinstance(dtype, str) or not all(type(count) is int and count >= 0 for count in (*shape, start, stop)):
        raise TypeError(f"the entry of {key} lacks its dtype, shape or data_offsets")
    if not start <= stop <= size - base:
        raise ArtifactError(f"{path}: {key} should end at byte {base + stop}, but the file has {size}")
    if dtype in NUMPY_DTYPES:
        due = np.dtype(NUMPY_DTYPES[dtype]).itemsize
        for count in shape:
            due *= count
        if stop - start != due:
            raise ArtifactError(f"{path}: {key} has {stop - start} bytes; {dtype} {list(shape)} takes {due}")
    return Stored(path, dtype, shape, base + start, key in transposed)


def find_values(directory: str, leaves: Mapping[str, Leaf]) -> dict[str, Stored]:
    """The leaves that a folder holds: weights.safetensors first, then `<name>.f64`, `.f32`, `.i64`, row-major,
    little-endian, in the program's shape, then `<name>.npy`. A raw file of another length is refused with both
    sizes."""
    if not os.path.isdir(directory or "."):
        raise ArtifactError(f"{directory}: there is no such weight folder")
    together = os.path.join(directory, "weights.safetensors")
    entries = safetensors_entries(together) if os.path.isfile(together) else {}
    found = {name: entries[name] for name in leaves if name in entries}
    for name, leaf in leaves.items():
        for suffix in (*RAW_DTYPES, ".npy"):
            path = os.path.join(directory, name + suffix)
            if name not in found and os.path.isfile(path):
                found[name] = own_file(path, name, leaf, RAW_DTYPES.get(suffix, NPY))
    return found


def own_file(path: str, name: str, leaf: Leaf, dtype: str) -> Stored:
    if dtype != NPY:
        size = os.path.getsize(path)
        due = leaf.shape[0] * leaf.shape[1] * np.dtype(NUMPY_DTYPES[dtype]).itemsize
        if size != due:
            raise ArtifactError(f"{path} has {size} bytes; {name} ({leaf.text()}) takes {due}")
    return Stored(path, dtype, leaf.shape, 0, False)


def read_stored(name: str, leaf: Leaf, stored: Stored, dtype: torch.dtype) -> Tensor:
    """A leaf as the module holds it, from its file: mapped, not copied, where the file holds it so."""
    values = npy_values(name, leaf, stored.path) if stored.dtype == NPY else mapped_values(name, leaf, stored)
    if leaf.whole and values.dtype.is_floating_point:
        raise ArtifactError(f"{stored.path}: {name} is a tensor of Int and the file holds reals")
    return held_as(name, leaf, values.t() if stored.transposed else values, dtype)


def mapped_values(name: str, leaf: Leaf, stored: Stored) -> Tensor:
    if stored.dtype not in NUMPY_DTYPES:
        raise ArtifactError(f"{stored.path}: {name} has dtype {stored.dtype}; known are {', '.join(NUMPY_DTYPES)}")
    shape = leaf.shape[::-1] if stored.transposed else leaf.shape
    if stored.shape != shape and not (shape[0] == 1 and stored.shape == shape[1:]):
        raise ArtifactError(f"{stored.path}: {name} has shape {list(stored.shape)}; {list(shape)} is due")
    # Copy on write: the pages stay the file's until someone writes to the parameter.
    array: Any = np.memmap(stored.path, NUMPY_DTYPES[stored.dtype], "c", stored.start, shape)
    values = torch.from_numpy(np.require(array, requirements="A"))
    return values.view(torch.bfloat16) if stored.dtype == "BF16" else values


def npy_values(name: str, leaf: Leaf, path: str) -> Tensor:
    array = npy_array(path)
    if leaf.shape[0] == 1 and array.shape == leaf.shape[1:]:
        array = array.reshape(leaf.shape)
    if array.shape != leaf.shape:
        raise ArtifactError(f"{path}: {name} has shape {list(array.shape)}; {list(leaf.shape)} is due")
    if array.dtype.kind not in "iuf":
        raise ArtifactError(f"{path}: {name} has dtype {array.dtype}; numbers are due")
    # torch knows no unsigned integers beyond 8 bits; 64 of them fit no Int.
    whole = np.can_cast(array.dtype, np.int64)
    return torch.from_numpy(np.array(array, np.int64 if whole else np.float64, order="C"))


def npy_array(path: str) -> Any:
    """The array in a .npy file, mapped; ArtifactError for any other file."""
    try:
        with open(path, "rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise ValueError("it is no .npy file")
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception as error:  # whatever a stranger's bytes make numpy raise
        raise ArtifactError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def given_values(name: str, leaf: Leaf, value: Any) -> Tensor:
    """A number (every element), a nested list or an array, in the program's shape: int64 or float64."""
    array = value if hasattr(value, "dtype") else listed_values(name, leaf, value)
    array = np.asarray(array)
    if array.dtype.kind not in ("iu" if leaf.whole else "iuf"):
        raise ArtifactError(f"{name} takes {'whole numbers' if leaf.whole else 'numbers'}")
    if leaf.whole and array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        raise ArtifactError(f"a value of {name} does not fit 64 bits")
    if array.ndim == 0:
        array = np.full(leaf.shape, array)
    if leaf.shape[0] == 1 and array.shape == leaf.shape[1:]:
        array = array.reshape(leaf.shape)
    if array.shape != leaf.shape:
        raise ArtifactError(f"{name} is {leaf.text()}; a value of shape {list(array.shape)} was given")
    return torch.from_numpy(np.array(array, dtype=np.int64 if leaf.whole else np.float64, order="C"))


def listed_values(name: str, leaf: Leaf, value: Any) -> Any:
    """A number or nested lists of them as an array; every element is looked at, since numpy would make one type of
    them: a number of true, a float of a large integer."""
    try:
        array = np.array(value, dtype=object)
    except (ValueError, RecursionError):
        raise ArtifactError(f"{name}: the rows of a value have equal lengths") from None
    kinds = {type(one) for one in array.flat}
    if list in kinds or tuple in kinds:
        raise ArtifactError(f"{name}: the rows of a value have equal lengths")
    if not kinds <= ({int} if leaf.whole else {int, float}):
        raise ArtifactError(f"{name} takes {'whole numbers' if leaf.whole else 'numbers'}")
    if leaf.whole and not all(-(2**63) <= one < 2**63 for one in array.flat):
        raise ArtifactError(f"a value of {name} does not fit 64 bits")
    return array.astype(np.int64 if leaf.whole else np.float64)


def load_parameters(
    module: nn.Module,
    leaves: Mapping[str, Leaf],
    names: Mapping[str, str],
    fills: Mapping[str, Mapping[int, float]],
    directory: str,
    dtype: torch.dtype,
    given: Mapping[str, Any],
    found: Mapping[str, Stored] | None = None,
) -> None:
    """Gives every weight, table and constant its value: `given`, else the folder's (`found`, where it was searched
    already), else the program's fills. Raises ArtifactError with all that are missing."""
    held = {name: leaf for name, leaf in leaves.items() if leaf.role in HELD}
    if found is None:
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
