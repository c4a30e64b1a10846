"""The options of the target: the keys of `[target.cuda]` and of `-D`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """How to emit, build and run.

    kind     `forward` is the composed program; `op` a program of one operation, which prints its result's checksum;
             `generate` a decode step that goes on from a prompt by itself
    arch     the architectures to build for, beside PTX for newer ones; `native` asks the GPU of this machine
    compile  `nvcc` builds the executable; `off` writes the source and the weights alone
    ccbin    the host compiler that nvcc is to use; empty: nvcc's own choice
    prefill  the steps of a prompt that kind `generate` makes at once; 1: one by one
    device   where `run` and `verify` execute: `auto` is a GPU where there is one, else the host's stand-in for it
    """

    kind: Literal["forward", "op", "generate"] = "forward"
    arch: tuple[str, ...] = ("sm_80", "sm_90")
    compile: Literal["nvcc", "off"] = "nvcc"
    ccbin: str = ""
    device: Literal["auto", "gpu", "host"] = "auto"
    prefill: int = 64
