"""A program as kernel calls over buffers, before any text is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from logos import Graph, Node, Value

Spread = tuple[int, int]
"""How threads share the columns of a tensor: how many there are, and the run that stays with one thread."""


class Element(Enum):
    """What a buffer holds: float32, 64-bit integers, Q8_0 in tiles or as rows, or activations as quants with their
    scales and offsets behind them."""

    REAL = "REAL"
    INT = "INT"
    TILES = "TILES"
    QUANTS = "QUANTS"
    ACTIVATIONS = "ACTIVATIONS"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a leaf or, one after the other, of values of equal size. `groups` of `rows` rows as stored, each group
    beginning a tile of its own; `transposed` is a leaf stored as the transpose of the program's shape; `scales` are
    those of rows in Q8_0."""

    number: int
    element: Element
    rows: int
    columns: int
    groups: int = 1
    transposed: bool = False
    scales: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """A call's operand. With `spread`, a thread touches only its own columns of it; without, any."""

    buffer: Buffer
    writes: bool = False
    spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel: `text` is its C++ with `{0}`, `{1}` … for its operands; `header` the file of `kernels/`
    that has it; `scratch` the bytes that a thread needs beside."""

    node: Node
    header: str
    text: str
    uses: tuple[Use, ...]
    scratch: int = 0


@dataclass(frozen=True)
class Stages:
    """The calls of a program, in order; `held` says where each value is while it is needed, `last` the call with which
    each node (by index) is done, and `own` how many of the buffers, the first, are of leaves."""

    graph: Graph
    calls: tuple[Call, ...]
    held: Mapping[Value, Buffer]
    buffers: tuple[Buffer, ...]
    own: int
    last: Mapping[int, int]

    @property
    def scratch(self) -> int:
        """Bytes of a thread's own memory."""
        return max((call.scratch for call in self.calls), default=0)


def meetings(calls: Sequence[Call]) -> tuple[bool, ...]:
    """For each call whether threads meet before it: where one of its operands was touched since they last met, one of
    the two writes it, and not both leave each thread at its own columns."""
    found: list[bool] = []
    since: dict[int, list[Use]] = {}
    for call in calls:
        meets = any(_collide(use, before) for use in call.uses for before in since.get(use.buffer.number, ()))
        if meets:
            since.clear()
        for use in call.uses:
            since.setdefault(use.buffer.number, []).append(use)
        found.append(meets)
    return tuple(found)


def _collide(one: Use, other: Use) -> bool:
    return (one.writes or other.writes) and (one.spread is None or one.spread != other.spread)
