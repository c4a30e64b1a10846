"""A loop of a program as an op of its own, which no sentence says: what the reference machine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logos.late import np
from logos.loops.check import Tensor
from logos.loops.records import Repeat
from logos.loops.run import compile_loop
from logos.loops.uses import accesses
from logos.op import Op, Shapes, TypeRule

NAME = "loop"
"""What messages call the op of a loop that no op computes; no sentence has it."""


@dataclass(frozen=True)
class Uses:
    """The tensors of the program that a loop uses, by what it does with them, each in the order of first use: `reads`
    without those that it makes, `states` what it sets besides."""

    reads: tuple[str, ...]
    states: tuple[str, ...]


def uses_of(loop: Repeat, out: str | None) -> Uses:
    """What a loop that makes `out` (None: nothing) takes from the program."""
    reads: dict[str, None] = {}
    states: dict[str, None] = {}
    for access in accesses(loop):
        name = access.item.tensor
        if name != out:
            (states if access.sets else reads).setdefault(name)
    return Uses(tuple(dict.fromkeys((*reads, *states))), tuple(states))


def block_op(
    loop: Repeat, tensors: Mapping[str, Tensor], out: str | None, proved: frozenset[int]
) -> tuple[Op, Mapping[str, str | int | float | None]]:
    """The op of a checked loop, and the variable at each of its holes. `tensors` are those that the loop uses."""
    uses = uses_of(loop, out)
    holes = {f"A{number}": name for number, name in enumerate(uses.reads, 1)}
    dims = ", ".join(f"{hole} ({tensors[name].rows}, {tensors[name].columns})" for hole, name in holes.items())
    made = f" -> ({tensors[out].rows}, {tensors[out].columns})" if out is not None else ""
    op = Op(
        NAME,
        f"{'loop' if out is not None else 'Loop'} over {' and '.join(holes)}",
        (Shapes(dims + made),),
        _value(loop, tensors, holes, out, proved),
        TypeRule.REAL if out is not None and tensors[out].real else TypeRule.INT,
        writes=tuple(hole for hole, name in holes.items() if name in uses.states),
        statement=out is None,
        block=loop,
    )
    return op, dict(holes)


def _value(
    loop: Repeat, tensors: Mapping[str, Tensor], holes: Mapping[str, str], out: str | None, proved: frozenset[int]
) -> Callable[..., Any]:
    used = {name: tensors[name] for name in (*holes.values(), *(() if out is None else (out,)))}
    ready: list[Callable[[dict[str, list[Any]]], None]] = []

    def value(**arguments: Any) -> Any:
        """What the loop says."""
        if not ready:
            ready.append(compile_loop(loop, used, proved))
        given = {name: _items(arguments[hole], used[name]) for hole, name in holes.items()}
        if out is not None:
            given[out] = [0.0 if used[out].real else 0] * (used[out].rows * used[out].columns)
        ready[0](given)
        states = {hole: _array(given[name], used[name]) for hole, name in holes.items() if name in states_of}
        if out is None:
            return states
        made = _array(given[out], used[out])
        return (made, states) if states else made

    states_of = set(uses_of(loop, out).states)
    return value


def _items(array: Any, tensor: Tensor) -> list[Any]:
    kind = np.float64 if tensor.real else np.int64
    found: list[Any] = np.asarray(array, dtype=kind).reshape(-1).tolist()
    return found


def _array(items: list[Any], tensor: Tensor) -> Any:
    return np.array(items, dtype=np.float64 if tensor.real else np.int64).reshape(tensor.rows, tensor.columns)
