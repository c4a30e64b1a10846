"""The cpu target: one program becomes one self-contained C++ source, its executable and its weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from logos import (
    API,
    Artifact,
    Inputs,
    Job,
    Refusal,
    Refused,
    Role,
    Spot,
    Steps,
    WeightEntry,
    WeightFile,
    decode_refusals,
    unroll,
)
from logos_cpu.emit import program_text
from logos_cpu.lower import lower, lower_many
from logos_cpu.options import Options
from logos_cpu.spelling import SPELLS
from logos_cpu.stages import Element
from logos_cpu.storage import choice_refusals, dtype_of, storage_of
from logos_cpu.tables import Tables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "cpu"
WEIGHTS = "weights"
MOST_STEPS = 1024
_DTYPES = {Element.REAL: "F32", Element.INT: "I64", Element.TILES: "Q8_0", Element.QUANTS: "Q8_0"}


class CpuTarget:
    """The contract of `logos.Target`; see there."""

    name = NAME
    api = API
    spells = SPELLS
    fuses: tuple[str, ...] = ()
    stores = ("float32", "q8_0")
    options = Options
    reads_versions = True
    generates: Mapping[str, object] = MappingProxyType({"kind": "generate"})

    def refusals(self, job: Job) -> Iterable[Refusal]:
        """Names of `q8` that nothing can be done for (`unknown-variable`, `no-kernel`), an option out of range
        (`prefill-steps`, `thread-count`), a program that is no decode step for kind `generate`
        (`not-a-decode-step`)."""
        yield from choice_refusals(job)
        options = job.options
        if not 1 <= options.prefill <= MOST_STEPS:
            what, next_ = f"prefill is {options.prefill}; it is a number of steps", f"give one from 1 to {MOST_STEPS}"
            yield Refusal("prefill-steps", what, Spot("-D prefill"), next_)
        if not 0 <= options.threads <= 256:
            what, next_ = f"threads is {options.threads}", "give a number from 1 to 256, or 0 for all cores"
            yield Refusal("thread-count", what, Spot("-D threads"), next_)
        if options.kind == "generate":
            yield from decode_refusals(job.graph)

    def emit(self, job: Job) -> Sequence[Artifact]:
        """forward.cpp or generate.cpp, after the kind."""
        kind, storage = job.options.kind, storage_of(job)
        file = f"{kind}.cpp"
        text = program_text(_tables(job), kind, file, storage.exact)
        return (Artifact(file, text),)

    def steps(self, job: Job) -> Steps:
        """The weights as raw files, the compiler over the source, and the weights as the kernels read them."""
        from logos_cpu.building import build_steps

        kept = [one for one in _kept(job) if _supplied(job, one[0])]
        entries = tuple(WeightEntry(name, _DTYPES[element], transposed) for name, element, transposed in kept)
        tiled = [name for name, element, _ in kept if element is Element.TILES]
        files = (WeightFile(WEIGHTS, entries, "raw"),) if entries else ()
        return build_steps(job.options, files, tiled, self._version_of)

    @cached_property
    def _version_of(self) -> Callable[[tuple[str, ...]], str]:
        """What compilers say of themselves: a build asks each once, however many its programs."""
        from logos_cpu.building import version_of

        return cache(version_of)

    def outputs(self, job: Job) -> tuple[str, ...]:
        """The program's output."""
        return ()

    def dtypes(self, job: Job) -> tuple[str, ...]:
        """float32, or int8 where products quantize their activations."""
        return (dtype_of(job.graph, storage_of(job)),)

    def quantized(self, job: Job) -> tuple[WeightEntry, ...]:
        """The weights in Q8_0."""
        kept = (one for one in _kept(job) if one[1] in (Element.TILES, Element.QUANTS))
        return tuple(WeightEntry(name, "Q8_0", transposed) for name, _, transposed in kept)

    def lacks(self) -> str:
        """That there is no C++ compiler."""
        from logos_cpu.building import find_compiler

        try:
            find_compiler(Options())
        except Refused as refused:
            return refused.refusals[0].what
        return ""

    def run(self, job: Job, inputs: Inputs) -> Mapping[str, NDArray[np.generic]]:
        """Builds the source, kept in the cache by contents, and runs it. Refused: what the program refuses, and
        `no-host-compiler`, `host-compiler-failed`, `cpu-failed`."""
        from logos_cpu.running import run_program

        return run_program(job, inputs)

    def generate(self, job: Job, inputs: Inputs, stop: Collection[int]) -> Iterator[int]:
        """The ids that follow the tokens, as they come; refuses as `run` does."""
        from logos_cpu.running import generate_ids

        return generate_ids(job, inputs, stop)


def _tables(job: Job) -> Tables:
    """A step's stages and, of kind generate, those of many steps at once where the program has them."""
    storage, steps = storage_of(job), job.options.prefill
    step = lower(job.graph, storage)
    if job.options.kind != "generate":
        return Tables(step)
    if steps < 2:
        return Tables(step, alone=())
    try:
        unrolled = unroll(job.graph, steps)
    except Refused as refused:
        return Tables(step, alone=tuple(dict.fromkeys(refusal.what for refusal in refused.refusals)))
    return Tables(step, lower_many(unrolled, step, storage), steps, ())


def _kept(job: Job) -> Iterator[tuple[str, Element, bool]]:
    """Each leaf with how it is kept and whether that is transposed."""
    held = lower(job.graph, storage_of(job)).held
    yield from ((leaf.name, held[leaf.value].element, held[leaf.value].transposed) for leaf in job.graph.leaves)


def _supplied(job: Job, name: str) -> bool:
    """Whether a checkpoint or a weight folder gives a leaf its value; the program's fills are in the source."""
    bound = job.binding[name]
    if bound.role not in (Role.WEIGHT, Role.TABLE):
        return False
    return bound.file is not None or (bound.view is not None and job.binding.checkpoint is not None)
