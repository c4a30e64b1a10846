"""The options of the target: the keys of `[target.rdu-sambaflow]` and of `-D`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from logos import Source


@dataclass(frozen=True)
class Options:
    """How to emit.

    dtype      the type of the module's Real tensors; float32 or bfloat16
    weights    `safetensors` writes weights.safetensors beside the module where there are weights to write; `none` not
    outputs    variables that forward returns, in this order; default: the program's output and, when that is an
               argmax, its operand
    operators  `listed` keeps to operators that the vendor documents or uses; `plain` spells readable torch
    state      `host`: states pass through the host at every step; `region`: they stay on the device
    prefill    steps that LogosPrefill, a second module, makes at once; 0: there is none
    selftest   steps of the reference machine to record for `--selftest` and the command `test`; 0: none
    support    the support.toml that the probes wrote: what they found of spellings and operators
    """

    dtype: Literal["float32", "bfloat16"] = "float32"
    weights: Literal["safetensors", "none"] = "safetensors"
    outputs: tuple[str, ...] = ()
    operators: Literal["listed", "plain"] = "listed"
    state: Literal["host", "region"] = "host"
    prefill: int = 0
    selftest: int = 0
    support: Source | None = None
