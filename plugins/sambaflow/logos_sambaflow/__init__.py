"""The rdu-sambaflow target: a program as a PyTorch module for SambaFlow.

    from logos_sambaflow import emit_torch_module

    artifact = emit_torch_module(text)
    artifact.model_py, artifact.compile_py, artifact.manifest_json

Names are loaded when they are first asked for, so importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logos_sambaflow.emit import TEMPLATE_MARK as TEMPLATE_MARK
    from logos_sambaflow.emit import VENDOR_HEADER as VENDOR_HEADER
    from logos_sambaflow.library import TorchArtifact as TorchArtifact
    from logos_sambaflow.library import emit_torch_module as emit_torch_module
    from logos_sambaflow.spelling import QWEN38_OPS as QWEN38_OPS
    from logos_sambaflow.spelling import torch_spelling as torch_spelling

_HOMES = {
    "QWEN38_OPS": "spelling",
    "TEMPLATE_MARK": "emit",
    "TorchArtifact": "library",
    "VENDOR_HEADER": "emit",
    "emit_torch_module": "library",
    "torch_spelling": "spelling",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'logos_sambaflow' has no attribute {name!r}")
    return getattr(importlib.import_module(f"logos_sambaflow.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
