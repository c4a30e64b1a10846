"""Kind moe: a block of routed experts over weight files, captured as one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from logos import Graph, Refusal, Source, Spot, make_manager, read_program
from logos import MoeSpec as MoeSpec
from logos import MoeWeights as MoeWeights
from logos import Q8Reference as Q8Reference
from logos_cuda.driver import Driver
from logos_cuda.emit import kernel_text, program_text, template
from logos_cuda.lower import stored_graph
from logos_cuda.stages import ForwardGraph
from logos_cuda.storage import EXPERTS, Multiply, Storage, name_of

PINNED = MoeSpec(2048, 768, 128, 8)
"""The sizes that the kernels of `moe_dp4a_kernels` are chosen for: those of Qwen3-30B-A3B. Any count of experts gives
the same text."""


def emit_moe_forward(
    spec: MoeSpec, weights: MoeWeights, *, fills: Iterable[tuple[int, float]] = (), single_pass: bool = True,
    file: str = "moe.cu",
) -> str:  # fmt: skip
    """The block y (1, d) = moe of x (1, d) as one CUDA source, which reads `weights` by their files' names in a folder.

    `fills` are x's elements, (index from 0, value), 0 elsewhere, until `--set x=FILE` gives others; `single_pass`
    chooses the kernels, as `moe_dp4a_kernels` has them. Raises ValueError for weights of other sizes than spec's, or
    whose files are not named STEM.f32 for the router and STEM.q with STEM.s for what is in Q8_0; ForwardError where no
    kernel takes the sizes.
    """
    files = _files(spec, weights)
    graph = _graph(spec, fills)
    return block_text(stored_graph(graph, _storage(graph, single_pass)), file, files)


def moe_dp4a_kernels(single_pass: bool = True) -> str:
    """The kernels of a block in Q8_0 and the headers that they need, as CUDA text.

    In a single pass activations are quantized to 8 bits: within 2e-2 of the largest result. In two, what the first
    leaves is quantized too, and both are multiplied while a weight is read once: within 1e-4, the bound of float32.
    """
    graph = _graph(PINNED)
    return "\n".join(kernel_text(stored_graph(graph, _storage(graph, single_pass)).kernels))


def block_text(graph: ForwardGraph, file: str = "moe.cu", files: dict[str, str] | None = None) -> str:
    """The source of stages that are captured as one graph; `file` is what messages call it, `files` the stems of
    weights' files by variable."""
    kind = "\n".join(map(template, ("graph.cuh", "moe.cuh")))
    return program_text(Driver(graph, files), graph.kernels, kind, file)


def block_refusals(graph: Graph) -> Iterator[Refusal]:
    """Why a program is no block of experts (`not-a-moe-block`)."""
    count = sum(node.op.name == "moe" for node in graph.nodes)
    what = f"{count} of them" if count != 1 else f"the state {graph.states[0].name}" if graph.states else ""
    if what:
        what = f"kind moe takes a program with one moe and no state; this one has {what}"
        yield Refusal("not-a-moe-block", what, Spot(graph.source.name), "leave the option out, for kind forward")


def _graph(spec: MoeSpec, fills: Iterable[tuple[int, float]] = ()) -> Graph:
    shapes = {"x": (1, spec.d), "Wr": (spec.E, spec.d), "Eg": (spec.E * spec.f, spec.d),
              "Eu": (spec.E * spec.f, spec.d), "Ed": (spec.E * spec.d, spec.f)}  # fmt: skip
    lines = [f"Let {name} be a {rows} by {columns} tensor of Real." for name, (rows, columns) in shapes.items()]
    lines += [f"Set item {index + 1} of x to {value!r}." for index, value in tuple(fills) or ((0, 0.0),)]
    lines.append(f"Let y be moe of x with router Wr gate Eg up Eu down Ed top {spec.K} of {spec.E} experts.")
    return read_program(Source("moe.lg", "\n".join(lines) + "\n"), make_manager().grammar)


def _storage(graph: Graph, single_pass: bool) -> Storage:
    (node,) = graph.nodes
    return Storage(frozenset(name_of(node, hole) for hole in EXPERTS), Multiply.DP4A, single_pass)


def _files(spec: MoeSpec, weights: MoeWeights) -> dict[str, str]:
    """The stems of the weights' files, by variable."""
    if weights.spec != spec:
        raise ValueError(f"the weights are of {weights.spec}, not {spec}")
    due = {"Eg": (weights.gate, spec.E * spec.f, spec.d), "Eu": (weights.up, spec.E * spec.f, spec.d),
           "Ed": (weights.down, spec.E * spec.d, spec.f)}  # fmt: skip
    stems = {"Wr": _stem(weights.router, ".f32")}
    for name, (reference, rows, columns) in due.items():
        if (reference.rows, reference.columns) != (rows, columns):
            raise ValueError(f"{name} is {reference.rows} by {reference.columns}, not {rows} by {columns}")
        stems[name] = shared_stem(reference)
    return stems


def shared_stem(reference: Q8Reference) -> str:
    """What a weight's files are named alike. Raises ValueError where they are not."""
    stem = _stem(reference.quants, ".q")
    if _stem(reference.scales, ".s") != stem:
        raise ValueError(f"{reference.quants.name} and {reference.scales.name} are not named alike")
    return stem


def _stem(path: Path, suffix: str) -> str:
    if path.suffix != suffix:
        raise ValueError(f"{path.name} is not named {path.stem}{suffix}")
    return path.stem
