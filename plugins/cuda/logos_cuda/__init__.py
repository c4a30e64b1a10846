"""The cuda target: one program becomes one self-contained CUDA program.

    from logos_cuda import emit_forward, forward_graph

    text = emit_forward(forward_graph(graph))

Names are loaded when they are first asked for, so importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logos_cuda.block import MoeSpec as MoeSpec
    from logos_cuda.block import MoeWeights as MoeWeights
    from logos_cuda.block import Q8Reference as Q8Reference
    from logos_cuda.block import emit_moe_forward as emit_moe_forward
    from logos_cuda.block import moe_dp4a_kernels as moe_dp4a_kernels
    from logos_cuda.emit import emit_forward as emit_forward
    from logos_cuda.gemm import emit_marlin_q8_gemm as emit_marlin_q8_gemm
    from logos_cuda.generate import emit_generate as emit_generate
    from logos_cuda.loops import AttentionBlock as AttentionBlock
    from logos_cuda.loops import recognize_attention as recognize_attention
    from logos_cuda.loops import recognize_moe as recognize_moe
    from logos_cuda.lower import collect_inits as collect_inits
    from logos_cuda.lower import forward_graph as forward_graph
    from logos_cuda.lower import forward_graph_holding as forward_graph_holding
    from logos_cuda.qwen30b import Qwen30b as Qwen30b
    from logos_cuda.qwen30b import emit_qwen30b_generate as emit_qwen30b_generate
    from logos_cuda.stages import Buffer as Buffer
    from logos_cuda.stages import ForwardError as ForwardError
    from logos_cuda.stages import ForwardGraph as ForwardGraph
    from logos_cuda.stages import Kernel as Kernel
    from logos_cuda.stages import Launch as Launch
    from logos_cuda.stages import Record as Record
    from logos_cuda.stages import Stage as Stage
    from logos_cuda.stages import StageRefusal as StageRefusal
    from logos_cuda.storage import Multiply as Multiply

_HOMES = {
    "AttentionBlock": "loops",
    "Buffer": "stages",
    "ForwardError": "stages",
    "ForwardGraph": "stages",
    "Kernel": "stages",
    "Launch": "stages",
    "MoeSpec": "block",
    "MoeWeights": "block",
    "Multiply": "storage",
    "Q8Reference": "block",
    "Qwen30b": "qwen30b",
    "Record": "stages",
    "Stage": "stages",
    "StageRefusal": "stages",
    "collect_inits": "lower",
    "emit_forward": "emit",
    "emit_marlin_q8_gemm": "gemm",
    "emit_moe_forward": "block",
    "moe_dp4a_kernels": "block",
    "emit_generate": "generate",
    "emit_qwen30b_generate": "qwen30b",
    "forward_graph": "lower",
    "forward_graph_holding": "lower",
    "recognize_attention": "loops",
    "recognize_moe": "loops",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'logos_cuda' has no attribute {name!r}")
    return getattr(importlib.import_module(f"logos_cuda.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
