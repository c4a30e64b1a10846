"""numpy, loaded when it is first used: reading, checking and emitting a program need none of it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = ["np"]


class _Late:
    """Stands for a module until one of its names is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module(self._module), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Late("numpy")
