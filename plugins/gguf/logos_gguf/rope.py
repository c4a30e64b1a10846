"""Rope tables: cosines and sines of every position, in float64, from a checkpoint's metadata."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from logos import Checkpoint, Spot, refuse
from logos_gguf.keys import Keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FACTORS = "rope_freqs.weight"
"""The tensor of n/2 numbers that divide the frequencies where a file has it; no key announces it."""

TABLES = ("RopeCos", "RopeSin")
"""The variables that are tables."""

_ROWS = 4096


@dataclass(frozen=True)
class Rope:
    """Rotation of width n by angle = position · f_i for i < n/2, cosines and sines multiplied by `scale`.

    f_i = base^(−2i/n), divided by `factor`; where `ramp` gives bounds low and high, f_i blends from undivided, up to
    low, to divided, from high on. `rope_freqs` divides what comes of it.
    """

    n: int
    base: float
    factor: float = 1.0
    ramp: tuple[int, int] | None = None
    scale: float = 1.0

    @property
    def half(self) -> int:
        return self.n // 2

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """f_i, in float64."""
        import numpy as np

        from logos_gguf import trigonometry

        plain = np.array([trigonometry.power(self.base, -2 * i, self.n) for i in range(self.half)])
        if self.ramp is None:
            return plain / self.factor
        low, high = self.ramp
        share = np.clip((np.arange(self.half, dtype=np.float64) - low) / max(high - low, 0.001), 0.0, 1.0)
        blended: NDArray[np.float64] = (plain / self.factor) * share + plain * (1.0 - share)
        return blended

    def table(self, variable: str, factors: NDArray[np.float64] | None) -> Callable[[int, int], NDArray[np.float64]]:
        """The computation of RopeCos or RopeSin, (rows, columns) → float64. Refused: another number of
        columns (`tensor-shape`), positions whose angles would not be right (`rope-table-too-long`)."""

        def compute(rows: int, columns: int) -> NDArray[np.float64]:
            import numpy as np

            from logos_gguf import trigonometry

            frequencies = self.frequencies if factors is None else self.frequencies / factors
            if columns != self.half:
                raise refuse(
                    "tensor-shape",
                    f"{variable} is declared with {columns} columns; the model turns {self.n} elements of a head, two "
                    f"to a column",
                    Spot(f"the table {variable}"),
                    f"declare {variable} as {rows} by {self.half}",
                )
            if not rows * frequencies.max() <= trigonometry.FARTHEST:
                raise refuse(
                    "rope-table-too-long",
                    f"{rows} positions reach an angle of {rows * frequencies.max():.3g}; rope tables go up to "
                    f"{trigonometry.FARTHEST}",
                    Spot("the tables RopeCos and RopeSin"),
                    "declare them with fewer rows (`logos author --context N`)",
                )
            function = trigonometry.cosine if variable == "RopeCos" else trigonometry.sine
            table = np.empty((rows, columns))
            for start in range(0, rows, _ROWS):
                positions = np.arange(start, min(start + _ROWS, rows), dtype=np.float64)
                table[start : start + _ROWS] = function(np.outer(positions, frequencies)) * self.scale
            return table

        return compute


def width(keys: Keys, head: int) -> int:
    """The rotary width n: how many leading elements of a head rotate."""
    n = keys.count("rope.dimension_count", head)
    if n % 2 or n > head:
        raise keys.bad("rope.dimension_count", f"is {n}; an even number up to the head width {head} is due")
    return n


def read_rope(keys: Keys, n: int) -> Rope:
    """The rotation of width n that the metadata says: none, linear or yarn scaling; anything else is refused.

    f_i = base^(−2i/n). linear divides by the factor. yarn blends the two by a ramp over the dimensions and scales
    cosines and sines (Peng et al. 2023, YaRN, as transformers and llama.cpp compute it).
    """
    base = keys.real("rope.freq_base", 10000.0)
    if base <= 0:
        raise keys.bad("rope.freq_base", f"is {base}; a number above 0 is due")
    kind, factor = _scaling(keys)
    if kind == "none":
        return Rope(n, base)
    if kind == "linear":
        return Rope(n, base, factor)
    return _yarn(keys, n, base, factor)


def read_factors(keys: Keys, checkpoint: Checkpoint, half: int) -> NDArray[np.float64] | None:
    """The values of `rope_freqs.weight`, None where the checkpoint has no such tensor."""
    if FACTORS not in checkpoint.tensors:
        return None
    shape = checkpoint.tensors[FACTORS].shape
    if shape != (half,):
        raise keys.bad("rope.dimension_count", f"makes {half} factors due; {FACTORS} has the shape {shape}")
    import numpy as np

    factors: NDArray[np.float64] = checkpoint.float_rows(FACTORS, 0, 1)[0].astype(np.float64)
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise keys.bad("rope.dimension_count", f"goes with {FACTORS}, which holds values that are not above 0")
    return factors


def _scaling(keys: Keys) -> tuple[str, float]:
    """The kind of scaling and its factor."""
    old = keys.real("rope.scale_linear", 0.0)
    factor = keys.real("rope.scaling.factor", old)
    kind = keys.text("rope.scaling.type", "linear" if factor > 0 else "none")
    if kind not in ("none", "linear", "yarn"):
        raise keys.bad("rope.scaling.type", f"is {kind}; LOGOS knows none, linear and yarn")
    if kind != "none" and factor <= 0:
        raise keys.bad("rope.scaling.factor", f"is {factor}; a number above 0 is due")
    return kind, factor


def _yarn(keys: Keys, n: int, base: float, factor: float) -> Rope:
    from logos_gguf.trigonometry import logarithm

    extrapolation = keys.real("rope.scaling.yarn_ext_factor", 1.0)
    if extrapolation != 1.0 and extrapolation >= 0:
        raise keys.bad("rope.scaling.yarn_ext_factor", f"is {extrapolation}; LOGOS computes yarn with 1")
    if (multiplier := keys.real("rope.scaling.yarn_log_multiplier", 0.0)) != 0:
        raise keys.bad("rope.scaling.yarn_log_multiplier", f"is {multiplier}; LOGOS computes yarn with 0")
    if base == 1:
        raise keys.bad("rope.freq_base", "is 1, with which yarn has no meaning")
    fallback = keys.count("context_length") if keys.has("context_length") else None
    original = keys.count("rope.scaling.original_context_length", fallback)

    def dimension(name: str, default: float) -> float:
        turns = keys.real(f"rope.scaling.{name}", default)
        if turns <= 0:
            raise keys.bad(f"rope.scaling.{name}", f"is {turns}; a number above 0 is due")
        return n * logarithm(original / (2 * math.pi * turns)) / (2 * logarithm(base))

    low = max(math.floor(dimension("yarn_beta_fast", 32.0)), 0)
    high = min(math.ceil(dimension("yarn_beta_slow", 1.0)), n - 1)
    natural = 0.1 * logarithm(factor) + 1.0 if factor > 1 else 1.0
    scale = keys.real("rope.scaling.yarn_attn_factor", natural) * keys.real("rope.scaling.attn_factor", 1.0)
    return Rope(n, base, factor, (low, high), scale)
