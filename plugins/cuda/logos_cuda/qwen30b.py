"""Qwen3-30B-A3B as a program that generates: its family writes it, and it goes the way of every other program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logos import AuthorOptions, Graph, PresetFamily, Source, Spot, TensorView, make_manager, read_program, refuse
from logos_cuda.generate import STEPS, generation, generation_text
from logos_cuda.storage import Multiply, keeps_q8, storage_by

_PRESET, _FAMILY = "qwen3-30b-a3b", "qwen3moe"


@dataclass(frozen=True, slots=True)
class Qwen30b:
    """How to emit it.

    layers       the first of its 48
    context      the positions of its tables
    steps        how many of a prompt's ids are taken at once
    multiply     how its matrices, all in Q8_0, are multiplied; experts in one pass of dp4a or in two
    half         whether keys and values are kept as float16
    """

    layers: int = 48
    context: int = 2048
    steps: int = STEPS
    multiply: Multiply = Multiply.DP4A
    single_pass: bool = True
    half: bool = True


def emit_qwen30b_generate(config: Qwen30b | None = None, file: str = "generate.cu") -> str:
    """The CUDA source. Its weights are files, as every emitted program reads them: `NAME.q` and `NAME.s` for a matrix,
    `NAME.f32` for a norm, a router or a rope table.

    Refused: more layers than there are (`too-many-layers`), and a family that is not installed (`unknown-family`).
    """
    config = config or Qwen30b()
    manager = make_manager()
    family = manager.family(_FAMILY)
    if not isinstance(family, PresetFamily) or _PRESET not in family.presets:
        what = f"the family {_FAMILY} has no preset {_PRESET}"
        raise refuse("unknown-preset", what, Spot(_PRESET), "install LOGOS's own family plugin")
    text = family.author(family.presets[_PRESET], AuthorOptions(config.context, config.layers))
    graph = read_program(Source(f"{_PRESET}.lg", text), manager.grammar)
    names = frozenset(_matrices(family, graph))
    storage = storage_by(names, config.multiply, config.single_pass, config.half)
    return generation_text(generation(graph, storage, config.steps), file)


def _matrices(family: PresetFamily, graph: Graph) -> Iterator[str]:
    """The weights that kernels read in Q8_0."""
    for leaf in graph.leaves:
        if not leaf.state and isinstance(family.view(leaf.name, graph, None), TensorView) and not keeps_q8(graph, leaf):
            yield leaf.name
