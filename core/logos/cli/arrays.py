"""Tensors on the command line: values given with `--set`, arrays in files, and tensors printed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logos.memory import room_for
from logos.near import suggestion
from logos.refusal import Refusal, Refused, refuse
from logos.source import Place, Spot, brief

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.graph import Graph, Value

_WORDS: Mapping[type, str] = {
    float: "a number with a point or an exponent",
    bool: "true or false",
    str: "text",
    dict: "an object",
    type(None): "null",
}


def known_names(graph: Graph, wanted: Iterable[str]) -> tuple[str, ...]:
    """The names (of `Graph.taps`), each once, `*` as all that the program makes. Refuses those that the program has no
    variable for (`unknown-variable`), all at once."""
    names = [name for one in wanted for name in (graph.made if one == "*" else (one,))]
    lost = [_unknown(name, graph.taps, Spot(graph.source.name)) for name in names if name not in graph.taps]
    if lost:
        raise Refused(lost)
    return tuple(dict.fromkeys(names))


def _unknown(name: str, known: Iterable[str], place: Place) -> Refusal:
    what = brief(f"the program has no variable {name}{suggestion(name, known)}")
    return Refusal("unknown-variable", what, place, "name a variable that the program declares or produces")


def given_arrays(graph: Graph, given: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """The values of `--set`, in their variables' shapes (of a state: where it starts), float64 or int64.

    Refused, all at once: an unknown variable (`unknown-variable`), one that an operation produces (`set-of-computed`),
    text that is no number or list and a file that is no array (`bad-value`), another type (`value-type`,
    `int-out-of-range`, `value-not-finite`) or shape (`value-shape`), what memory does not take
    (`too-large-for-memory`).
    """
    leaves, known = {leaf.name: leaf.value for leaf in graph.leaves}, graph.newest()
    refusals: list[Refusal] = []
    arrays = {}
    for name, text in given.items():
        place = Spot(f"--set {name}")
        try:
            if name not in known:
                raise Refused(_unknown(name, known, place))
            if name not in leaves:
                what = f"{name} is produced by an operation; it takes no value"
                raise refuse("set-of-computed", what, place, "set a declared variable")
            array = load_array(Path(text[1:]), place) if text.startswith("@") else _listed(text, leaves[name], place)
            with room_for(leaves[name], place):
                arrays[name] = _fitted(array, leaves[name], place)
        except Refused as refused:
            refusals += refused.refusals
    if refusals:
        raise Refused(refusals)
    return arrays


def load_array(path: Path, place: Place) -> NDArray[Any]:
    """The array of numbers in a .npy file, mapped, not read. Refused: anything else (`bad-value`)."""
    from logos.weights.files import mapped_npy

    try:
        return mapped_npy(path)
    except (OSError, ValueError) as error:
        what = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise refuse("bad-value", what, place, "give a .npy file of numbers, written with numpy.save") from None


def _listed(text: str, value: Value, place: Place) -> NDArray[Any]:
    """A number, or a nested list of numbers of one shape. A whole number for a Real is a Real of any size."""
    import numpy as np

    try:
        read = json.loads(text, parse_int=_finite, parse_float=_finite) if value.real else json.loads(text)
        array = np.array(read, dtype=object)
    except OverflowError:
        what = f"a value of {value.name} is too large for float64"
        raise refuse("value-not-finite", what, place, "write finite numbers, or Infinity by its name") from None
    except (ValueError, RecursionError):
        what = f"{brief(text)} is no number and no nested list"
        next_ = f"write a number, a list such as [[1, 2], [3, 4]], or @file.npy for a file: {_due(value)} is due"
        raise refuse("bad-value", what, place, next_) from None
    kinds = {type(one) for one in array.flat}
    if list in kinds:
        raise refuse("value-shape", "the rows of the list are not of one length", place, f"{_due(value)} is due")
    if not kinds <= ({float} if value.real else {int}):
        odd = sorted(_WORDS[kind] for kind in kinds - {int} - ({float} if value.real else set()))
        what = f"{value.name} is {_due(value)}; the value holds {', '.join(odd)}"
        raise refuse("value-type", what, place, "give whole numbers for Int, numbers for Real")
    if not value.real and not all(-(2**63) <= one < 2**63 for one in array.flat):
        what = f"a value of {value.name} does not fit 64 bits"
        raise refuse("int-out-of-range", what, place, "give numbers from −2^63 to 2^63 − 1")
    return array.astype(np.float64 if value.real else np.int64)


def _finite(digits: str) -> float:
    """Digits as a number. Raises OverflowError where float64 has none so large: `Infinity` is asked for by its name."""
    number = float(digits)
    if math.isinf(number):
        raise OverflowError
    return number


def _fitted(array: NDArray[Any], value: Value, place: Place) -> NDArray[Any]:
    """The array as the variable's type and shape; one number fills it, one row may come without its outer brackets."""
    import numpy as np

    if array.dtype.kind not in ("iuf" if value.real else "iu"):
        what = f"{value.name} is {_due(value)}; the value holds {array.dtype}"
        raise refuse("value-type", what, place, "give whole numbers for Int, numbers for Real")
    if array.dtype.kind == "u" and not value.real and array.size and array.max() >= 2**63:
        what = f"a value of {value.name} does not fit 64 bits"
        raise refuse("int-out-of-range", what, place, "give numbers from −2^63 to 2^63 − 1")
    if array.ndim == 0:
        array = np.full(value.shape, array)
    if array.ndim == 1 and value.rows == 1:
        array = array[np.newaxis]
    if array.shape != value.shape:
        said = " by ".join(map(str, array.shape))
        what = f"{value.name} is {_due(value)}; the value is {said}"
        raise refuse("value-shape", what, place, "give a number, or a list of that shape")
    return np.array(array, dtype=np.float64 if value.real else np.int64)


def _due(value: Value) -> str:
    return f"{value.rows} by {value.columns} of {'Real' if value.real else 'Int'}"


def array_text(array: NDArray[Any]) -> str:
    """`[[…], …]`: the shortest text that reads back the same."""
    return json.dumps(plain(array))


def plain(array: NDArray[Any]) -> Any:
    """Nested lists of numbers; a float32 as the shortest decimal that reads back the same float32."""
    if array.dtype != "float32":
        return array.tolist()
    if array.ndim == 0:
        return float(str(array[()]))
    return [plain(part) for part in array]
