"""Binding: the role of every leaf, and where its value comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from logos.graph import Graph, Leaf
from logos.weights.checkpoint import Checkpoint, Tensor
from logos.weights.views import View


class Role(Enum):
    """What a leaf is; language.md, Leaves."""

    STATE = "state"
    WEIGHT = "weight"
    TABLE = "table"
    CONSTANT = "constant"
    INPUT = "input"


@dataclass(frozen=True)
class Bound:
    """A leaf with its role and where its value comes from.

    view    what the family's naming or `[weights]` ties it to, None where neither covers it
    tensor  the checkpoint's tensor of the view, None without a checkpoint
    file    the file of the weight folder that holds it
    """

    leaf: Leaf
    role: Role
    view: View | None = None
    tensor: Tensor | None = None
    file: Path | None = None

    @property
    def name(self) -> str:
        return self.leaf.name


@dataclass(frozen=True)
class Binding:
    """Every leaf of a graph, bound; in the order of declaration."""

    graph: Graph
    family: str
    checkpoint: Checkpoint | None
    leaves: tuple[Bound, ...]

    def __getitem__(self, name: str) -> Bound:
        for bound in self.leaves:
            if bound.name == name:
                return bound
        raise KeyError(name)
