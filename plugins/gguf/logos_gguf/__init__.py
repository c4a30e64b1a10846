"""The gguf plugin: the GGUF container, and the model families that it names.

Each public name is loaded when it is first asked for: a command that uses none of them waits for none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logos_gguf.names import gguf_name as gguf_name
    from logos_gguf.qwen30b import gen_qwen30b as gen_qwen30b

_HOMES = {"gguf_name": "logos_gguf.names", "gen_qwen30b": "logos_gguf.qwen30b"}

__all__ = ["gen_qwen30b", "gguf_name"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'logos_gguf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
