"""The options of the target: the keys of `[target.cuda]` and of `-D`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from logos import Source

NATIVE = "native"
"""The architecture of this machine's GPU."""


@dataclass(frozen=True)
class Options:
    """How to emit, build and run.

    kind      `forward` is the composed program; `op` one operation, or several that fuse into one stage, which prints
              its result's checksum; `generate` a decode step that goes on from a prompt by itself; `moe` a block of
              routed experts; `gemm` a product by a weight in Q8_0
    arch      the architectures to build for, beside PTX for newer ones; `native` asks the GPU of this machine
    compile   `nvcc` builds the executable; `off` writes the source and the weights alone
    ccbin     the host compiler that nvcc is to use; empty: nvcc's own choice
    q8        weights kept in Q8_0: `auto` is what the checkpoint stores so, `none`, or names, with * for any letters
    multiply  how they are multiplied: `exact` by float32 activations; `dp4a` by activations of 8 bits; `mma` the same
              on the tensor cores where there are several rows; `auto` is dp4a, and mma for many rows
    tune      the tune.toml that `logos tune` wrote: from how many rows `auto` takes mma, and each product's tiles
    experts   by dp4a, routed experts' activations keep 8 bits in a single pass, some 15 in two
    kv        the tables that attention reads: `auto` is float32 where all products are exact, else float16
    prefill   the steps of a prompt that are made at once: 64 by kind `generate`, where 1 is one by one; kind `forward`
              makes them one by one unless it is given, and then has a row of each for its output
    pdl       on sm_90 and later a kernel begins while the one before it ends (`auto`); `off`: after it
    device    where `run` and `verify` execute: `auto` is a GPU where there is one, else the host's stand-in for it
    """

    kind: Literal["forward", "op", "generate", "moe", "gemm"] = "forward"
    arch: tuple[str, ...] = ("sm_80", "sm_90")
    compile: Literal["nvcc", "off"] = "nvcc"
    ccbin: str = ""
    q8: tuple[str, ...] = ("auto",)
    multiply: Literal["auto", "exact", "dp4a", "mma"] = "auto"
    tune: Source | None = None
    experts: Literal["single-pass", "two-pass"] = "single-pass"
    kv: Literal["auto", "f32", "f16"] = "auto"
    device: Literal["auto", "gpu", "host"] = "auto"
    prefill: int | None = None
    pdl: Literal["auto", "off"] = "auto"
