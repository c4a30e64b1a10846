"""The rdu-sambaflow plugin: what it offers through the hooks."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Target, hookimpl


@hookimpl
def logos_targets() -> Sequence[Target]:
    """The rdu-sambaflow target."""
    from logos_sambaflow.target import SambaflowTarget

    return (SambaflowTarget(),)
