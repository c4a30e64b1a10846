"""Tensor views: which tensor a program variable takes, which of its rows in which order, transposed or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logos.weights.checkpoint import Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TensorView:
    """A variable's rows in a checkpoint.

    `ranges` are runs of the tensor's flattened rows, taken in this order (a step other than 1 permutes); None takes
    all of them as stored. `transposed` says that the program's variable is the transpose of those rows: a program
    multiplies by (in, out) where a file stores (out, in). It is a fact about the view and moves no bytes.
    """

    tensor: str
    ranges: tuple[range, ...] | None = None
    transposed: bool = False

    def row_ranges(self, tensor: Tensor) -> tuple[range, ...]:
        return (range(tensor.rows),) if self.ranges is None else self.ranges

    def shape(self, tensor: Tensor) -> tuple[int, int]:
        """The variable's (rows, columns)."""
        rows = sum(len(part) for part in self.row_ranges(tensor))
        return (tensor.columns, rows) if self.transposed else (rows, tensor.columns)

    def text(self) -> str:
        """The view in words, as the manifest and messages say it."""
        if self.ranges is None:
            rows = "all rows"
        elif len(self.ranges) > 4:
            count = sum(len(part) for part in self.ranges)
            rows = f"{count} rows in {len(self.ranges)} runs"
        else:
            rows = ", ".join(_run(part) for part in self.ranges)
        return f"{rows}, {'transposed' if self.transposed else 'as stored'}"


def _run(part: range) -> str:
    if len(part) == 0:
        return "no rows"
    step = f" step {part.step}" if part.step != 1 else ""
    return f"rows {part.start} to {part[-1]}{step}"


@dataclass(frozen=True, slots=True)
class Table:
    """A weight computed from the checkpoint's metadata, in float64, of the variable's shape.

    `compute` takes (rows, columns) and is None where no checkpoint is at hand. `tensors` are those that it reads.
    """

    compute: Callable[[int, int], NDArray[np.float64]] | None = None
    tensors: tuple[str, ...] = ()


View = TensorView | Table
