"""How far a case's result may lie from the reference by rounding alone, whoever computes it.

The sum of two near numbers of other signs, the mean of a row of two, the last expert chosen: where these hang on a
digit that a dtype does not have, a difference says nothing of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from logos.bounds import BOUNDS
from logos.graph import Value
from logos.verification import difference
from logos.weights.encode import bfloat16_bits

if TYPE_CHECKING:
    from logos.conformance.prepare import Prepared

Arrays = Mapping[str, NDArray[Any]]

_HALF_TO_BFLOAT16 = 8.0
"""float16 has three more bits than bfloat16: what it loses is an eighth."""


def unsteadiness(made: Prepared) -> float:
    """The largest share of its bound that rounding alone is seen to take: of every step of the op, to float16 and to
    bfloat16, and of the operands, to float32 and to bfloat16."""
    share = max(_share(made, _computed(made, _half), _HALF_TO_BFLOAT16), _share(made, _computed(made, _rounding), 1.0))
    if share > 1:
        return share  # one reason is enough, and the others take two more runs
    for dtype in ("float32", "bfloat16"):
        rounded = {name: _rounded(array, dtype) for name, array in made.values.items()}
        for verdict in made.verdicts(dtype, made.reference(rounded)):
            share = max(share, verdict.difference / verdict.bound if verdict.bound else float(not verdict.holds))
    return share


def _share(made: Prepared, computed: Arrays, factor: float) -> float:
    """How much of bfloat16's bound lies between what was computed, where it is compared and real, and the reference."""
    real = [name for name, array in computed.items() if name in made.expected and array.dtype.kind == "f"]
    distances = [difference(made.expected[name][0], np.asarray(computed[name])) for name in real]
    return factor * max(distances, default=0.0) / BOUNDS["bfloat16"][0]


def _rounded(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array
    if dtype == "float32":
        return array.astype(np.float32).astype(np.float64)
    return (bfloat16_bits(array).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


class _Rounding(np.ndarray[Any, Any]):
    """Numbers of bfloat16, which numpy does not have: whatever a ufunc makes of them rounds to such numbers too."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        plain = [np.asarray(one) if isinstance(one, _Rounding) else one for one in inputs]
        result = getattr(ufunc, method)(*plain, **keywords)
        if out is not None:
            out[0][...] = _rounding(np.asarray(result))
            return out[0]
        return _rounding(np.asarray(result))


def _rounding(array: NDArray[Any]) -> NDArray[Any]:
    return _rounded(array, "bfloat16").view(_Rounding)


def _half(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float16)


def _computed(made: Prepared, narrow: Callable[[NDArray[Any]], NDArray[Any]]) -> Arrays:
    """What the first sentence makes where its op computes with narrower numbers; nothing where it cannot."""
    node = made.graph.nodes[0]
    arguments: dict[str, Any] = {}
    for hole, operand in node.operands.items():
        arguments[hole] = operand
        if isinstance(operand, Value):
            array = made.values[operand.name]
            row = hole in node.op.indexes
            arguments[hole] = int(array[0, 0]) if row else narrow(array) if array.dtype.kind == "f" else array
    try:
        with np.errstate(all="ignore"):
            result = node.op.value(**arguments)
    except (TypeError, ValueError, ArithmeticError):
        return {}  # a plugin's op that takes float64 alone, or a value beyond float16
    states = result if node.op.statement else (result[1] if node.op.writes else {})
    found = {value.name: states[hole] for hole, value in node.writes.items()}
    if node.out is not None:
        found[node.out.name] = result[0] if node.op.writes else result
    return found
