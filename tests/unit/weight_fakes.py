"""A checkpoint in memory and bindings by hand, for tests of the weights modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos.graph import Graph, Leaf, Value
from logos.source import Source, Span
from logos.weights.binding import Binding, Bound, Role
from logos.weights.checkpoint import Tensor
from logos.weights.views import View


class MemoryCheckpoint:
    """float32 arrays by name, (rows, columns) as stored; counts the rows that were asked for."""

    def __init__(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        self.arrays = arrays
        self.path = Path("memory.ckpt")
        self.files = (self.path,)
        self.metadata: Mapping[str, object] = {}
        self.tensors = {
            name: Tensor(name, array.shape, "F32", array.nbytes, self.path) for name, array in arrays.items()
        }
        self.most_rows = 0

    def raw_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.float_rows(name, start, stop)).view(np.uint8)

    def float_rows(self, name: str, start: int, stop: int) -> NDArray[np.float32]:
        array = self.arrays[name]
        assert 0 <= start < stop <= len(array)
        self.most_rows = max(self.most_rows, stop - start)
        return array[start:stop]

    def close(self) -> None:
        pass


def leaf(name: str, rows: int, columns: int, real: bool = True, fills: Any = ()) -> Leaf:
    source = Source("made.lg", f"Let {name} be a {rows} by {columns} tensor of {'Real' if real else 'Int'}.")
    return Leaf(Value(name, 0, rows, columns, real), Span(source, 1, 5, len(name)), tuple(fills))


def bind(checkpoint: MemoryCheckpoint | None, *bounds: Bound) -> Binding:
    leaves = tuple(bound.leaf for bound in bounds)
    graph = Graph(Source("made.lg", ""), leaves, (), (), leaves[0].value)
    return Binding(graph, "llama", checkpoint, bounds)


def weight(one: Leaf, view: View | None = None, checkpoint: MemoryCheckpoint | None = None, **more: Any) -> Bound:
    tensor = checkpoint.tensors[view.tensor] if checkpoint and hasattr(view, "tensor") else None
    return Bound(one, Role.WEIGHT, view, tensor, **more)
