"""Tracing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sambaflow.double import ContractError, logged
from sambaflow.samba import session
from sambaflow.samba.pef import exact
from sambaflow.samba.tensor import SambaTensor


def trace_graph(
    model: Any, inputs: Sequence[SambaTensor], *more: Any, pef: str | None = None, **options: Any
) -> Sequence[SambaTensor]:
    """The outputs of a module, with the weights of this moment on the device."""
    logged("trace_graph", pef)
    return session.trace(model, inputs, pef, exact())


def trace_multigraph(
    model: Any, inputs: Mapping[str, SambaTensor], trace_prefix: str | None = None
) -> tuple[SambaTensor, ...]:
    """The outputs of one graph; the inputs by forward's argument."""
    logged("trace_multigraph", trace_prefix, *inputs)
    if not trace_prefix:
        raise ContractError("trace_multigraph takes the graph's name as trace_prefix")
    return session.trace_named(model, inputs, trace_prefix, exact())
