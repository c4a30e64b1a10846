"""The stage graph: a program as kernel launches over device buffers, before any text is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from logos import Graph, Node, Value


@dataclass(frozen=True, slots=True)
class Kernel:
    """One specialization of a kernel, emitted once however many stages launch it.

    name        its `extern "C"` name, unique for the specialization: `rmsnorm_plus_weight_real`
    header      the file of `kernels/` that holds its body
    parameters  the C parameters, such as `const Real *x, Real *y, Size n`
    body        one call of the header's device function, such as `rmsnorm<true, true>(x, res, w, y, rows, n, eps)`
    threads     threads of a block (its launch bound)
    registers   whether a thread may take all the registers it wants: else the compiler spills some where it would
                rather have more blocks at once
    """

    name: str
    header: str
    parameters: str
    body: str
    threads: int
    registers: bool = False

    @property
    def text(self) -> str:
        """The kernel's one line of CUDA."""
        bounds = f"{self.threads}, 1" if self.registers else f"{self.threads}"
        head = f'extern "C" __global__ void __launch_bounds__({bounds}) {self.name}({self.parameters})'
        return f"{head} {{ logos_begin(); {self.body}; }}"


class Element(Enum):
    """What a buffer holds, by the name of its C type: Real (float), Int (64 bits), Quant (8 bits, of Q8_0) and Half
    (the bits of a float16)."""

    REAL = "Real"
    INT = "Int"
    QUANT = "Quant"
    HALF = "Half"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory for one value of the program, or scratch of a stage.

    `name` is unique and a C identifier that is no keyword: `b7_q0`, a number before the program's name.
    `transposed` is a leaf stored as the transpose of the program's shape: a matmul's weight as (out, in).
    `scales` are those of quants, one for each 32 of them, in the order of the quants: a Half for a weight, whose scales
    come from float16; a Real for what a stage quantizes.
    `inner` is a value that only its own stage reads: memory is there where it is read out, else kernels take nullptr.
    """

    name: str
    elements: int
    element: Element
    value: Value | None = None
    transposed: bool = False
    scales: Buffer | None = None
    inner: bool = False

    @property
    def real(self) -> bool:
        """Whether it holds Real as it is."""
        return self.element is Element.REAL


class Record(Enum):
    """What a launch takes that is no value of the program."""

    FAULT = "fault"
    """The fault record and the stage's number, from 0: two C arguments, for `Fault *fault, int stage`."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The counters by which blocks find out which of them comes last, an int each: 0 before and after every launch, so
    that all launches use the same. `count` is how many a launch uses."""

    count: int


Argument = Buffer | Record | Arrivals | int | float


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: `shared` bytes of dynamic shared memory; an int argument is a Size, a float one a float."""

    kernel: Kernel
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Stage:
    """What one operation of the program became, or several by a step of fusion; launches run in order. `notes` say how
    its weights and tables are stored and multiplied, `Wq in Q8_0 by dp4a`, and why it is not in a step's stage; `marks`
    are the steps that changed its launches without joining operations."""

    nodes: tuple[Node, ...]
    launches: tuple[Launch, ...]
    notes: tuple[str, ...] = ()
    step: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForwardGraph:
    """A program's stages in dataflow order, and every buffer that they touch.

    `held` are the values' buffers by value: a state's versions share one buffer, written in place.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    held: dict[Value, Buffer]
    scratch: tuple[Buffer, ...]

    @cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer once: values', then scratch, inner values' last; the scales of quants after them."""
        named = sorted(dict.fromkeys((*self.held.values(), *self.scratch)), key=lambda buffer: buffer.inner)
        return tuple(one for buffer in named for one in (buffer, buffer.scales) if one is not None)

    @cached_property
    def arrivals(self) -> int:
        """The most arrival counters that a launch uses."""
        launches = [launch for stage in self.stages for launch in stage.launches]
        return max((one.count for each in launches for one in each.arguments if isinstance(one, Arrivals)), default=0)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel once, in order of first launch."""
        return tuple(dict.fromkeys(launch.kernel for stage in self.stages for launch in stage.launches))


@dataclass(frozen=True, slots=True)
class StageRefusal:
    """An operation that no kernel computes: its index among the graph's nodes, from 0, its line, and what it is."""

    statement: int
    line: int
    what: str


class ForwardError(Exception):
    """A program that cannot become stages; `refusals` are all of its operations that do not, in order."""

    def __init__(self, refusals: tuple[StageRefusal, ...]) -> None:
        self.refusals = refusals
        super().__init__("\n".join(f"line {refusal.line}: {refusal.what}" for refusal in refusals))
