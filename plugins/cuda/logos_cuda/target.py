"""The cuda target: one program becomes one self-contained CUDA source, its executable and its weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from logos import (
    API,
    Artifact,
    Inputs,
    Job,
    Refusal,
    Role,
    Spot,
    Steps,
    WeightEntry,
    WeightFile,
    decode_refusals,
    suggestion,
)  # fmt: skip
from logos_cuda.block import block_refusals, block_text
from logos_cuda.choice import choice_notes, choice_refusals, dtype_of, launch_notes, storage_of, tuning_refusals
from logos_cuda.emit import emit_forward
from logos_cuda.fusing import FUSES
from logos_cuda.gemm import gemm_refusals
from logos_cuda.generate import STEPS, Generation, generation, generation_text
from logos_cuda.lower import stored_graph
from logos_cuda.options import NATIVE, Options
from logos_cuda.prefill import forward_generation, forward_text, prefill_refusals
from logos_cuda.spelling.table import SPELLS
from logos_cuda.stages import Element, ForwardError, ForwardGraph, StageRefusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logos import CompiledKernel, DevicePlan, TuneReport

NAME = "cuda"
WEIGHTS = "weights"
_ARCH = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_KNOWN = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", NATIVE)


class CudaTarget:
    """The contract of `logos.Target`; see there."""

    name = NAME
    api = API
    spells = SPELLS
    fuses = FUSES
    stores = ("float32", "q8_0")
    options = Options
    reads_versions = True
    generates: Mapping[str, object] = MappingProxyType({"kind": "generate"})

    def refusals(self, job: Job) -> Iterable[Refusal]:
        """Operations that no kernel takes, by statement (`no-kernel`), names that are no architecture
        (`unknown-arch`), what `choice_refusals` refuses, and programs that are not of the kind: several stages for
        `kind=op` (`not-one-operation`), no decode step for `kind=generate` (`not-a-decode-step`), no block for
        `kind=moe` (`not-a-moe-block`), no product for `kind=gemm` (`not-a-gemm`); and what `prefill_refusals` does."""
        yield from _arch_refusals(job)
        if job.options.kind == "moe":
            yield from block_refusals(job.graph)
        if job.options.kind == "generate":
            yield from decode_refusals(job.graph)
        if job.options.kind == "op":
            yield from _op_refusals(job)
        yield from choice_refusals(job)
        if unread := tuple(tuning_refusals(job)):
            yield from unread
            return
        if job.options.kind == "gemm":
            yield from gemm_refusals(job)
        faults = _kernel_faults(job)
        yield from _kernel_refusals(job, faults)
        if not faults:
            yield from prefill_refusals(job)

    def emit(self, job: Job) -> Sequence[Artifact]:
        """forward.cu, op.cu, generate.cu, moe.cu or gemm.cu, after the kind."""
        off = "" if job.options.pdl == "auto" else "#define LOGOS_PDL 0  // -D pdl=off\n"
        return tuple(Artifact(made.path, off + made.text) for made in self._sources(job))

    def _sources(self, job: Job) -> Sequence[Artifact]:
        kind: str = job.options.kind
        if kind == "generate" and (made := _generation(job)) is not None:
            return (Artifact("generate.cu", generation_text(made)),)
        if kind in ("moe", "gemm"):
            return (Artifact(f"{kind}.cu", block_text(graph_of(job), f"{kind}.cu")),)
        if kind == "forward" and job.options.prefill is not None:
            return (Artifact("forward.cu", forward_text(job)),)
        text = emit_forward(graph_of(job), checksum=kind == "op", file=f"{kind}.cu")
        return (Artifact(f"{kind}.cu", text),)

    def device_plan(self, job: Job) -> DevicePlan:
        """The stages of a step; the memory of a prompt's steps at once besides."""
        from logos_cuda.planning import device_plan, prompt_memory

        plan, made = device_plan(graph_of(job), job.binding), _generation(job)
        more = () if made is None else tuple(prompt_memory(graph_of(job), made))
        return replace(plan, memory=(*plan.memory, *more), notes=(*choice_notes(job), *launch_notes(job)))

    def compiled(self, job: Job) -> Sequence[CompiledKernel]:
        """Every kernel of the source for every architecture. Refused as `logos_cuda.audit.compiled_kernels` says."""
        from logos_cuda.audit import compiled_kernels

        (source,) = self.emit(job)
        return compiled_kernels(source.text, job.options.arch, job.options.ccbin)

    def steps(self, job: Job) -> Steps:
        """The weights as raw files, then nvcc over the source."""
        from logos_cuda.compiling import compile_steps

        return compile_steps(job.options, extractions(job), self._says)

    @cached_property
    def _says(self) -> Callable[[tuple[str, ...]], str]:
        """What tools print: a build asks each once, however many its programs."""
        from logos_cuda.toolkit import output

        return cache(output)

    def outputs(self, job: Job) -> tuple[str, ...]:
        """The program's output."""
        return ()

    def dtypes(self, job: Job) -> tuple[str, ...]:
        """float32, the type of the device's Real; float16 and int8 where tables or products are of fewer bits."""
        return (dtype_of(job.graph, storage_of(job)),)

    def quantized(self, job: Job) -> tuple[WeightEntry, ...]:
        """The weights in Q8_0."""
        held = graph_of(job).held
        leaves = [leaf for leaf in job.graph.leaves if held[leaf.value].element is Element.QUANT]
        return tuple(WeightEntry(leaf.name, "Q8_0", held[leaf.value].transposed) for leaf in leaves)

    def tune(self, job: Job, say: Callable[[str], None]) -> TuneReport:
        """The subtiles of the tensor-core products; see `tuning.tune`."""
        from logos_cuda.tuning import tune

        return tune(job, say)

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, NDArray[np.generic]]:
        """Runs the source on a GPU where there is one, else on the host. Refused: what the program refuses, and
        `no-gpu`, `cuda-failed`, what finding and running a compiler refuses."""
        from logos_cuda.running import run_program

        return run_program(job, inputs)

    def generate(self, job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
        """The ids that follow the tokens, as they come; refuses as `run` does."""
        from logos_cuda.running import generate_ids

        return generate_ids(job, inputs, stop)


_DTYPES = {Element.REAL: "F32", Element.HALF: "F32", Element.INT: "I64", Element.QUANT: "Q8_0"}


def graph_of(job: Job) -> ForwardGraph:
    """A job's stages. Raises ForwardError."""
    return stored_graph(job.graph, storage_of(job), job.hold)


def _generation(job: Job) -> Generation | None:
    """The steps of a job that makes many at once; None of one that does not."""
    if job.options.kind == "generate":
        return generation(job.graph, storage_of(job), job.options.prefill or STEPS, job.hold)
    if job.options.kind == "forward" and job.options.prefill is not None:
        return forward_generation(job)
    return None


def extractions(job: Job) -> tuple[WeightFile, ...]:
    """The folder `weights`: what a checkpoint or a weight folder supplies. The program's fills are in the source."""
    held = graph_of(job).held
    entries = tuple(
        WeightEntry(leaf.name, _DTYPES[held[leaf.value].element], held[leaf.value].transposed)
        for leaf in job.graph.leaves
        if _supplied(job, leaf.name)
    )
    return (WeightFile(WEIGHTS, entries, "raw"),) if entries else ()


def _supplied(job: Job, name: str) -> bool:
    bound = job.binding[name]
    if bound.role not in (Role.WEIGHT, Role.TABLE):
        return False
    return bound.file is not None or (bound.view is not None and job.binding.checkpoint is not None)


def _arch_refusals(job: Job) -> Iterator[Refusal]:
    if not job.options.arch:
        yield Refusal("unknown-arch", "there is no architecture to build for", Spot("arch"), "name one, such as sm_90")
    for name in job.options.arch:
        if name != NATIVE and not _ARCH.fullmatch(name):
            what = f"{name} is no architecture{suggestion(name, _KNOWN)}"
            yield Refusal("unknown-arch", what, Spot("arch"), f"name some such as {', '.join(_KNOWN)}")


def _op_refusals(job: Job) -> Iterator[Refusal]:
    count = len(job.graph.nodes)
    if count == 1:
        return
    found = f"{count} operations"
    with suppress(ForwardError):
        stages = len(graph_of(job).stages)
        if stages == 1:
            return
        found += f" in {stages} stages"
    what = f"kind op takes a program of one operation, or of several that fuse into one stage; this one has {found}"
    yield Refusal("not-one-operation", what, Spot(job.graph.source.name), "leave the option out, for kind forward")


def _kernel_faults(job: Job) -> tuple[StageRefusal, ...]:
    """The operations that do not become stages."""
    try:
        graph_of(job)
    except ForwardError as error:
        return tuple(dict.fromkeys(error.refusals))
    return ()


def _kernel_refusals(job: Job, faults: Iterable[StageRefusal]) -> Iterator[Refusal]:
    """What no kernel takes; the core says of ops that are not spelled at all who does spell them."""
    for refusal in faults:
        node = job.graph.nodes[refusal.statement]
        if node.op.name in SPELLS:
            what = f"statement {refusal.statement + 1}, {refusal.what}"
            yield Refusal("no-kernel", what, node.span, "change the sentence, or build for another target")
