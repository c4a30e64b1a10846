"""The cpu plugin: what it offers through the hooks."""

from __future__ import annotations

from collections.abc import Sequence

from logos import Target, hookimpl


@hookimpl
def logos_targets() -> Sequence[Target]:
    """The cpu target."""
    from logos_cpu.target import CpuTarget

    return (CpuTarget(),)
