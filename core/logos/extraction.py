"""A program's weights as files, for no target in particular."""

from __future__ import annotations

from logos.graph import Graph
from logos.hookspecs import WeightEntry, WeightFile
from logos.weights.binding import Binding, Bound, Role

FORMATS = ("safetensors", "raw", "q8")
"""What `weight_file` writes: one safetensors file, a raw file a variable, or raw files with matrices in Q8_0."""

# Operands that are read row by stored row and never as numbers of their own: the ones that models keep in blocks.
_MATRICES = {("matmul", "B"), ("embedding", "TABLE"), ("moe", "WG"), ("moe", "WU"), ("moe", "WD")}


def weight_file(binding: Binding, format: str) -> WeightFile:
    """Every weight, table and constant of a program as one weight file, for `logos.write_weight_file`.

    Weights are float32, tables and constants float64, tensors of Int 64-bit integers, all in the program's shape.
    `safetensors` is the file weights.safetensors; `raw` is the folder itself with `W.f32`, `W.f64`, `W.i64`. `q8` is
    `raw`, but for a weight of several stored rows that is only multiplied by, looked up by row or an expert's: it
    becomes `W.q` and `W.s`, the quants and scales of Q8_0. Of a matmul's weight those are (out, in), as checkpoints
    store it. Raises ValueError for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
    held = [bound for bound in binding.leaves if bound.role in (Role.WEIGHT, Role.TABLE, Role.CONSTANT)]
    entries = tuple(_entry(binding.graph, bound, format == "q8") for bound in held)
    if format == "safetensors":
        return WeightFile("weights.safetensors", entries)
    return WeightFile(".", entries, "raw")


def requantized(binding: Binding, file: WeightFile) -> dict[str, str]:
    """The variables that a weight file rounds to Q8_0 because they are stored otherwise, with how they are."""
    stored = {entry.variable: _storage(binding[entry.variable]) for entry in file.entries if entry.dtype == "Q8_0"}
    return {name: storage for name, storage in stored.items() if storage != "Q8_0"}


def _storage(bound: Bound) -> str:
    if bound.tensor is not None:
        return bound.tensor.storage
    return bound.file.name if bound.file is not None else "the program's fills"


def _entry(graph: Graph, bound: Bound, blocks: bool) -> WeightEntry:
    value = bound.leaf.value
    if not value.real:
        return WeightEntry(bound.name, "I64")
    if bound.role is not Role.WEIGHT:
        return WeightEntry(bound.name, "F64")
    uses = {(node.op.name, hole) for node, hole in graph.readers(bound.name)}
    if blocks and uses and uses <= _MATRICES:
        transposed = uses == {("matmul", "B")}
        if (value.columns if transposed else value.rows) > 1:
            return WeightEntry(bound.name, "Q8_0", transposed)
    return WeightEntry(bound.name, "F32")
