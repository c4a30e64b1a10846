"""How far the values of an artifact may lie from the reference machine's, by dtype."""

from __future__ import annotations

from collections.abc import Mapping

BOUNDS: Mapping[str, tuple[float, float]] = {
    "float64": (1e-9, 1e-9),
    "float32": (1e-4, 1e-4),
    "bfloat16": (2e-2, 2e-1),
    "float16": (5e-3, 5e-2),
    "int8": (2e-2, 2e-1),
    "integer": (0.0, 0.0),
}
"""For each dtype, the bound for a program of one op and over a model; arrays of integers agree exactly. `float16` is
of tables kept so, all else being float32; `int8` of operands quantized to 8 bits with a scale for each 32 as products
take them, and so of whatever follows."""

DTYPES = tuple(name for name in BOUNDS if name != "integer")
"""The dtypes that an artifact is verified in."""
