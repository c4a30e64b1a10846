"""Qwen3-30B-A3B as a program with its weights' files: the one example of routed experts that docs and tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from logos import (
    AuthorOptions,
    Graph,
    Leaf,
    MoeSpec,
    MoeWeights,
    Node,
    Q8Reference,
    Source,
    Table,
    TensorView,
    Value,
    WeightedProgram,
    WeightEntry,
    make_manager,
    read_program,
)
from logos_gguf.families.qwen3moe import QWEN3MOE
from logos_gguf.presets import PRESETS, Preset

_PRESET = "qwen3-30b-a3b"


def gen_qwen30b(
    layers: int = 48, weights_dir: str | os.PathLike[str] = "weights", context: int = 2048
) -> WeightedProgram:
    """The decode step of Qwen3-30B-A3B and the files of its weights as a Q8_0 checkpoint extracts into `weights_dir`:
    `NAME.q` and `NAME.s` for a matrix, `NAME.f32` for a norm or router, `NAME.f64` for a rope table.

    `layers` keeps the first of the 48, `context` is the rows of its tables. Nothing is read and no file need exist.
    Refused: more layers than there are (`too-many-layers`).
    """
    preset, folder = PRESETS[_PRESET], Path(weights_dir)
    text = QWEN3MOE.author(preset, AuthorOptions(context, layers))
    program = read_program(Source(f"{_PRESET}.lg", text), make_manager(()).grammar)
    floats: dict[str, Path] = {}
    matrices: dict[str, Q8Reference] = {}
    for leaf in program.leaves:
        view = None if leaf.state else QWEN3MOE.view(leaf.name, program, None)
        if isinstance(view, Table):
            floats[leaf.name] = _file(folder, leaf, "F64")
        elif isinstance(view, TensorView) and _kept_float(preset, view.tensor):
            floats[leaf.name] = _file(folder, leaf, "F32")
        elif isinstance(view, TensorView):
            matrices[leaf.name] = _matrix(folder, leaf, view.transposed)
    experts = dict(_experts(program, floats, matrices))
    return WeightedProgram(program, floats, matrices, experts)


def _kept_float(preset: Preset, tensor: str) -> bool:
    """Whether converters keep a tensor in F32 beside Q8_0 matrices: vectors and routers."""
    return len(preset.tensors[tensor].shape) == 1 or ".ffn_gate_inp" in tensor


def _file(folder: Path, leaf: Leaf, dtype: str) -> Path:
    (name,) = WeightEntry(leaf.name, dtype).files
    return folder / name


def _matrix(folder: Path, leaf: Leaf, transposed: bool) -> Q8Reference:
    quants, scales = WeightEntry(leaf.name, "Q8_0", transposed).files
    rows, columns = leaf.value.shape[::-1] if transposed else leaf.value.shape
    return Q8Reference(rows, columns, folder / quants, folder / scales)


def _experts(
    program: Graph, floats: dict[str, Path], matrices: dict[str, Q8Reference]
) -> Iterator[tuple[str, MoeWeights]]:
    for node in program.nodes:
        if node.op.name == "moe":
            router, gate, up, down = (_name(node, hole) for hole in ("WR", "WG", "WU", "WD"))
            spec = MoeSpec(node.sizes["d"], node.sizes["f"], node.sizes["EXPERTS"], node.sizes["TOP"])
            assert node.out is not None
            yield node.out.name, MoeWeights(spec, floats[router], matrices[gate], matrices[up], matrices[down])


def _name(node: Node, hole: str) -> str:
    operand = node.operands[hole]
    assert isinstance(operand, Value)
    return operand.name
