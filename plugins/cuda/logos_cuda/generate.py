"""Generation: a decode step wrapped in a loop on the device, and prompts many steps at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from logos import (
    Graph,
    MoeWeights,
    Q8Reference,
    Refused,
    Unrolled,
    Value,
    decode_refusals,
    driver_part,
    prompt_tables,
    unroll,
)
from logos_cuda.driver import Driver, driver_tables
from logos_cuda.emit import program_text, template
from logos_cuda.lower import stored_graph
from logos_cuda.stages import ForwardError, ForwardGraph, Kernel
from logos_cuda.storage import EXPERTS, Multiply, Storage, name_of, storage_by

STEPS = 64
"""Steps of a prompt that are made at once unless asked otherwise."""

MOST_STEPS = 1024

_NEXT = Kernel(
    "next_step_kernel", "generation.cuh",
    "const Int *output, const Int *prompt, Int *token, Int *position, Turn *turn, Made *made, const Fault *fault",
    "next_step(output, prompt, token, position, turn, made, fault)", 1,
)  # fmt: skip


@dataclass(frozen=True)
class Generation:
    """A decode step's stages and those of `steps` steps at once, over the same weights and states.

    many      None where prompts go token by token; `alone` then says why, in words, where the program is why
    unrolled  what `many` are the stages of
    """

    step: ForwardGraph
    many: ForwardGraph | None
    steps: int = 1
    alone: tuple[str, ...] = ()
    unrolled: Unrolled | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel once."""
        graphs = (self.step,) if self.many is None else (self.step, self.many)
        return tuple(dict.fromkeys((*(kernel for graph in graphs for kernel in graph.kernels), _NEXT)))


def generation(
    graph: Graph,
    storage: Storage,
    steps: int = STEPS,
    held: Collection[str] = (),
    rows: Collection[Value] | None = None,
) -> Generation:
    """The stages of a decode step, of a prompt's `steps` steps at once, and the buffers of both; `rows` are values that
    the steps at once, be it one, make for every step, not for the last alone.

    Raises ForwardError for what no kernel takes of a step; what only many steps at once lack makes prompts go token by
    token.
    """
    step = stored_graph(graph, storage, held)
    if steps < 2 and rows is None:
        return Generation(step, None)
    try:
        unrolled = unroll(graph, steps, rows or ())
        many = stored_graph(unrolled.graph, storage, held, step)
    except Refused as refused:
        return Generation(step, None, alone=tuple(dict.fromkeys(refusal.what for refusal in refused.refusals)))
    except ForwardError as error:
        return Generation(step, None, alone=tuple(dict.fromkeys(refusal.what for refusal in error.refusals)))
    own = {*step.held.values(), *step.scratch}
    more = tuple(buffer for buffer in dict.fromkeys((*many.held.values(), *many.scratch)) if buffer not in own)
    return Generation(replace(step, scratch=(*step.scratch, *more)), many, steps, unrolled=unrolled)


def emit_generate(
    program: Graph,
    q8: Mapping[str, Q8Reference] | None = None,
    moe: Mapping[str, MoeWeights] | None = None,
    *,
    multiply: Multiply = Multiply.DP4A,
    single_pass: bool = True,
    half: bool = False,
    steps: int = STEPS,
    file: str = "generate.cu",
) -> str:
    """A decode step as a CUDA source that generates: `forward_graph` says what the weights' parameters mean, and
    `steps` is how many of a prompt's ids are taken at once.

    Raises ForwardError with everything that no kernel takes, Refused for a program that is no decode step.
    """
    if refusals := tuple(decode_refusals(program)):
        raise Refused(refusals)
    routed = [node for node in program.nodes if node.out is not None and node.out.name in (moe or {})]
    names = frozenset({*(q8 or {}), *(name_of(node, hole) for node in routed for hole in EXPERTS)})
    return generation_text(generation(program, storage_by(names, multiply, single_pass, half), steps), file)


def generation_text(made: Generation, file: str = "generate.cu") -> str:
    """The source of a generation; `file` is what messages call it."""
    kind = (template("graph.cuh"), driver_part("generate.h"), template("generate.cuh"))
    return program_text(ManyDriver(made), made.kernels, "\n".join(kind), file)


class ManyDriver(Driver):
    """The driver of a step and of many at once: the step's, and what the steps at once need."""

    def __init__(self, made: Generation, generates: bool = True) -> None:
        super().__init__(made.step)
        self.made, self.alone = made, made.alone if generates else None

    def tables(self) -> str:
        many = None if self.made.many is None else driver_tables(self.made.many)
        return "\n\n".join((super().tables(), prompt_tables(self.own, many, self.made.steps, self.alone)))

    def arrivals(self) -> int:
        many = self.made.many
        return max(self.graph.arrivals, 0 if many is None else many.arrivals)

    def stages(self) -> str:
        own = self.graph.stages
        more = self.made.many.stages if self.made.many else ()
        parts = [*self.functions("stages", own), *self.functions("chunk_stages", more, len(own))]
        return "\n\n".join([*parts, self.allow_shared((*own, *more))])
