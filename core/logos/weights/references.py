"""A program together with the files that hold its weights: the records that targets and their users share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logos.graph import Graph


@dataclass(frozen=True, slots=True)
class Q8Reference:
    """A matrix stored in Q8_0, as two files without headers, row-major and little-endian: int8 quants (rows, columns)
    and float32 scales (rows, columns / 32); W[i, j] = quants[i, j] · scales[i, j // 32].

    Rows are rows as stored: a matmul's weight is (out, in), the transpose of the program's variable.
    """

    rows: int
    columns: int
    quants: Path
    scales: Path


@dataclass(frozen=True, slots=True)
class MoeSpec:
    """The sizes of a moe: width d, width f of an expert, E experts, of which K are chosen."""

    d: int
    f: int
    E: int
    K: int


@dataclass(frozen=True, slots=True)
class MoeWeights:
    """The weights of a moe: the router (E, d) in float32, and all experts' gate and up rows (E·f, d) and down rows
    (E·d, f), experts stacked by rows."""

    spec: MoeSpec
    router: Path
    gate: Q8Reference
    up: Q8Reference
    down: Q8Reference


@dataclass(frozen=True, slots=True)
class WeightedProgram:
    """A program and its weights' files, which need not exist yet.

    program         the checked program
    float_weights   variable → a file of float32 (`.f32`) or, for a table, float64 (`.f64`), of the variable's shape
    q8_weights      variable → its matrix in Q8_0
    experts         a moe's output variable → its weights
    """

    program: Graph
    float_weights: Mapping[str, Path]
    q8_weights: Mapping[str, Q8Reference]
    experts: Mapping[str, MoeWeights]
