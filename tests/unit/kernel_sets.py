"""Weights of a block of experts, and its files, for tests of kind moe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.weights.q8 import quantize, split
from logos_cuda import MoeSpec, MoeWeights, Q8Reference

Array = NDArray[Any]


def _rows(spec: MoeSpec) -> dict[str, Array]:
    random = np.random.default_rng(spec.E)
    shapes = {"gate": (spec.E * spec.f, spec.d), "up": (spec.E * spec.f, spec.d), "down": (spec.E * spec.d, spec.f)}
    made = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    made["gate"][5] = 0
    return {"router": random.standard_normal((spec.E, spec.d)).astype(np.float32), **made}


def _stored(rows: Array) -> tuple[Array, Array]:
    return split(quantize(rows).view(np.uint8))


def block(spec: MoeSpec) -> list[Array]:
    """The router and the experts' weights as they are stored, in float64."""
    found: list[Array] = []
    for name, rows in _rows(spec).items():
        quants, scales = _stored(rows)
        kept = rows if name == "router" else quants * np.repeat(scales, 32, axis=1)
        found.append(kept.astype(np.float64))
    return found


def weights_of(spec: MoeSpec, folder: Path, write: bool = True) -> MoeWeights:
    """The block's weights, named `b.gate.q`; their files are written unless told otherwise."""
    rows = _rows(spec) if write else {}
    if write:
        rows["router"].tofile(folder / "b.router.f32")
    found = {}
    for name, (count, columns) in {"gate": (spec.E * spec.f, spec.d), "up": (spec.E * spec.f, spec.d),
                                   "down": (spec.E * spec.d, spec.f)}.items():  # fmt: skip
        found[name] = Q8Reference(count, columns, folder / f"b.{name}.q", folder / f"b.{name}.s")
        if write:
            quants, scales = _stored(rows[name])
            quants.tofile(found[name].quants)
            scales.tofile(found[name].scales)
    return MoeWeights(spec, folder / "b.router.f32", found["gate"], found["up"], found["down"])
