"""One graph of a multigraph PEF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sambaflow.samba.tensor import SambaTensor


class FwdGraph:
    """The traced inputs and outputs under the graph's name."""

    def __init__(self, inputs: Mapping[str, SambaTensor], outputs: Sequence[SambaTensor], name: str) -> None:
        self.inputs, self.outputs, self.name = dict(inputs), tuple(outputs), name
