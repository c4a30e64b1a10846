"""The options of the target: the keys of `[target.cpu]` and of `-D`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Options:
    """How to emit, build and run.

    kind      `forward` is the composed program; `generate` a decode step that goes on from a prompt by itself
    compile   `c++` builds the executable and lays the weights out for it; `off` writes the source and the weights alone
    cxx       the C++ compiler; empty: CXX of the environment, else g++ or clang++
    q8        weights kept in Q8_0: `auto` is what the checkpoint stores so and, but for `exact`, in blocks of fewer
              bits; `none`; or names, with * for any letters
    multiply  how they are multiplied: `int8` by activations of 8 bits, `exact` by float32 activations with all sums in
              double; `auto` is int8
    prefill   the most steps of a prompt that are made at once by kind `generate`; 1 is one by one
    threads   threads of `run`, `verify` and `generate`; 0: as many as there are cores
    level     the instructions that these use: `auto` is the best that the processor has
    """

    kind: Literal["forward", "generate"] = "forward"
    compile: Literal["c++", "off"] = "c++"
    cxx: str = ""
    q8: tuple[str, ...] = ("auto",)
    multiply: Literal["auto", "int8", "exact"] = "auto"
    prefill: int = 64
    threads: int = 0
    level: Literal["auto", "avx512", "avxvnni", "avx2", "dotprod", "plain"] = "auto"
