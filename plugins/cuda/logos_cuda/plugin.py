"""The cuda plugin: what it offers through the hooks."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Target, hookimpl


@hookimpl
def logos_targets() -> Sequence[Target]:
    """The cuda target."""
    from logos_cuda.target import CudaTarget

    return (CudaTarget(),)
