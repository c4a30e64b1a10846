"""Binding: the role of every leaf, and where its value comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from logos.graph import Graph, Leaf
from logos.near import nearest, suggestion
from logos.refusal import Refusal, Refused, refuse
from logos.source import Place, Spot
from logos.weights.checkpoint import Checkpoint, Tensor
from logos.weights.views import Table, TensorView, View

if TYPE_CHECKING:
    from logos.hookspecs import Family


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

    @cached_property
    def _by_name(self) -> Mapping[str, Bound]:
        return {bound.name: bound for bound in self.leaves}

    def __getitem__(self, name: str) -> Bound:
        return self._by_name[name]

    def supplies(self, name: str) -> bool:
        """Whether a weight, table or constant has its value from the checkpoint, the weight folder or the program, so
        that a weight file can hold it."""
        bound = self[name]
        if bound.role in (Role.INPUT, Role.STATE):
            return False
        if bound.role is Role.CONSTANT or bound.leaf.fills or bound.file is not None:
            return True
        return bound.view is not None and self.checkpoint is not None


def bind(
    graph: Graph,
    family: Family,
    checkpoint: Checkpoint | None = None,
    folder: Path | None = None,
    overrides: Mapping[str, str] | None = None,
    override_place: Callable[[str], Place] = lambda name: Spot(f"weights.{name}"),
) -> Binding:
    """Gives every leaf its role and source; language.md, Leaves.

    `folder` holds weight files, `overrides` are `[weights]` (variable → tensor). A file of the folder comes before the
    checkpoint, the checkpoint before the program's fills. Refused, all at once: a weight that the checkpoint does not
    supply (`missing-tensor`), one of another shape (`tensor-shape`), an override of no leaf (`unknown-variable`) or of
    a state (`override-of-state`). A folder whose weights.safetensors is broken (`broken-weight-file`) is refused
    before its leaves are looked at.
    """
    refusals = list(_override_faults(graph, overrides or {}, override_place))
    if folder is not None:
        try:
            _find(folder, "")
        except Refused as refused:
            raise Refused([*refusals, *refused.refusals]) from None
    bound = []
    for leaf in graph.leaves:
        try:
            bound.append(_bind_leaf(graph, leaf, family, checkpoint, folder, overrides or {}))
        except Refused as refused:
            refusals += refused.refusals
    if refusals:
        raise Refused(refusals)
    return Binding(graph, family.name, checkpoint, tuple(bound))


def _override_faults(
    graph: Graph, overrides: Mapping[str, str], place: Callable[[str], Place]
) -> Iterator[Refusal]:
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    for name in overrides:
        if name not in leaves:
            near = suggestion(name, leaves)
            what = f"the program has no leaf {name}{near}"
            yield Refusal("unknown-variable", what, place(name), "name a declared variable that no operation produces")
        elif leaves[name].state:
            what = f"{name} is a state; it takes no tensor"
            yield Refusal("override-of-state", what, place(name), "remove the key")


def _find(folder: Path, variable: str) -> Path | None:
    from logos.weights.files import find_weight_file  # brings numpy, which a program without weights does not need

    return find_weight_file(folder, variable)


def _bind_leaf(
    graph: Graph,
    leaf: Leaf,
    family: Family,
    checkpoint: Checkpoint | None,
    folder: Path | None,
    overrides: Mapping[str, str],
) -> Bound:
    if leaf.state:
        return Bound(leaf, Role.STATE)
    file = _find(folder, leaf.name) if folder is not None else None
    view = family.view(leaf.name, graph, checkpoint)
    if leaf.name in overrides:
        view = _override_view(graph, leaf, overrides[leaf.name], view, checkpoint)
    if isinstance(view, Table):
        return Bound(leaf, Role.TABLE, view, None, file)
    if view is not None:
        tensor = None
        if checkpoint is not None and file is None:
            tensor = _tensor(leaf, view, checkpoint, leaf.name in overrides)
        return Bound(leaf, Role.WEIGHT, view, tensor, file)
    if file is not None:
        return Bound(leaf, Role.WEIGHT, None, None, file)
    return Bound(leaf, Role.CONSTANT if leaf.fills else Role.INPUT)


def _override_view(
    graph: Graph, leaf: Leaf, tensor: str, usual: View | None, checkpoint: Checkpoint | None
) -> TensorView:
    """All rows of the named tensor; transposed where only that fits, and where both fit as the usual view is or, for
    a variable without one, where the program multiplies by it: files store (out, in)."""
    if isinstance(usual, TensorView):
        transposed = usual.transposed
    else:
        readers = list(graph.readers(leaf.name))
        transposed = bool(readers) and all(node.op.name == "matmul" and hole == "B" for node, hole in readers)
    if checkpoint is not None and tensor in checkpoint.tensors:
        found = checkpoint.tensors[tensor]
        if found.rows != found.columns:
            transposed = (found.columns, found.rows) == leaf.value.shape
    return TensorView(tensor, None, transposed)


def _tensor(leaf: Leaf, view: TensorView, checkpoint: Checkpoint, overridden: bool) -> Tensor | None:
    place = Spot(f"{checkpoint.path.name}, tensor {view.tensor}")
    tensor = checkpoint.tensors.get(view.tensor)
    if tensor is None:
        if leaf.fills and not overridden:
            return None
        near = nearest(view.tensor, checkpoint.tensors)
        ending = f"; the nearest is {near}" if near else ""
        what = f"the program needs {leaf.name} from {view.tensor}; the file has no such tensor{ending}"
        raise refuse("missing-tensor", what, place, f"name the tensor in [weights], as `{leaf.name} = \"…\"`")
    if not leaf.value.real:
        what = f"{leaf.name} is declared of Int, and the tensor holds reals"
        raise refuse("tensor-type", what, place, f"declare {leaf.name} of Real, or rename it")
    rows, columns = view.shape(tensor)
    if (rows, columns) != leaf.value.shape:
        stored = " by ".join(map(str, tensor.shape))
        what = (
            f"{leaf.name} is declared {leaf.value.rows} by {leaf.value.columns}, but the tensor is {stored} as stored, "
            f"which its view ({view.text()}) makes {rows} by {columns}"
        )
        raise refuse("tensor-shape", what, place, f"declare {leaf.name} as {rows} by {columns}")
    return tensor
