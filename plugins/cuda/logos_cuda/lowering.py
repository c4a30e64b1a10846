"""What a spelling works with: the buffers of one operation's operands, and the launches it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from logos import Node, Value
from logos_cuda.stages import Argument, Arrivals, Buffer, Element, Kernel, Launch, Record, StageRefusal
from logos_cuda.storage import BLOCK, Storage

THREADS = 256
MOST_BLOCKS = 2**31 - 1
"""A grid's limit in x; y and z have less, so kernels use x alone."""

Parameter = tuple[str, Argument]
"""A C parameter, such as `const Real *x`, and what a launch gives it."""

Runs = tuple[Sequence[Sequence[Node]], dict[int, str]]
"""The runs of nodes that become a stage each, and why others stand alone, by their index."""

FAULT: Parameter = ("Fault *fault, int stage", Record.FAULT)
ABSENT: Parameter = ("nullptr", 0)
"""An optional operand that the sentence leaves out: the kernel's text says nullptr, a launch gives nothing."""


@dataclass
class Memory:
    """Every buffer of a program so far. Scratch of equal size is used again by later stages: they run in order.
    `quantized` are values that a stage has quantized for all that follow; those of `states` would not last. `readers`
    are the nodes that read each value, with the hole."""

    storage: Storage = field(default_factory=Storage)
    states: frozenset[str] = frozenset()
    readers: Mapping[Value, Sequence[tuple[Node, str]]] = field(default_factory=dict)
    held: dict[Value, Buffer] = field(default_factory=dict)
    scratch: dict[tuple[Element, int, int], Buffer] = field(default_factory=dict)
    quantized: dict[Value, Buffer] = field(default_factory=dict)
    made: int = 0

    def hold(
        self, value: Value, transposed: bool = False, element: Element | None = None, inner: bool = False
    ) -> None:
        """A new buffer for a value; quants have scales beside them."""
        element = element or (Element.REAL if value.real else Element.INT)
        name = self._name(value.name)
        scales = self._scales(value.name, value.size, Element.HALF) if element is Element.QUANT else None
        self.held[value] = Buffer(name, value.size, element, value, transposed, scales, inner)

    def scratch_of(self, element: Element, elements: int, number: int) -> Buffer:
        """A stage's scratch: of those with as many elements the one of this number."""
        key = (element, elements, number)
        if key not in self.scratch:
            scales = self._scales("scratch", elements) if element is Element.QUANT else None
            self.scratch[key] = Buffer(self._name("scratch"), elements, element, scales=scales)
        return self.scratch[key]

    def quants(self, of: str, elements: int) -> Buffer:
        """A new buffer of quants and their scales."""
        return Buffer(self._name(of), elements, Element.QUANT, scales=self._scales(of, elements))

    def _scales(self, of: str, elements: int, element: Element = Element.REAL) -> Buffer:
        return Buffer(self._name(f"{of}_s"), elements // BLOCK, element)

    def _name(self, of: str) -> str:
        self.made += 1
        return f"b{self.made - 1}_{of}"


class Lowering:
    """One operation on its way to a stage. A spelling reads its operands, then launches or refuses."""

    def __init__(
        self, node: Node, memory: Memory, marks: frozenset[str] = frozenset(), made: Buffer | None = None
    ) -> None:
        """`marks` are the steps of fusion that mark the stage; `made` takes what the stage makes in Q8_0."""
        self.node = node
        self.marks, self.made = marks, made
        self.acted: list[str] = []
        self.launches: list[Launch] = []
        self.refusals: list[StageRefusal] = []
        self.notes: list[str] = []
        self.storage = memory.storage
        self._memory = memory
        self._taken: dict[tuple[Element, int], int] = {}

    def beside(self, node: Node) -> Lowering:
        """Another operation of the same stage, which shares its launches and its scratch."""
        made = Lowering(node, self._memory, self.marks, self.made)
        made.launches, made.refusals, made.notes, made._taken = self.launches, self.refusals, self.notes, self._taken
        made.acted = self.acted
        return made

    def act(self, step: str) -> bool:
        """Whether a step marks the stage; if so, that it acts is noted."""
        if step in self.marks and step not in self.acted:
            self.acted.append(step)
        return step in self.marks

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.node.sizes

    @property
    def out(self) -> Buffer:
        assert self.node.out is not None
        return self._memory.held[self.node.out]

    def value(self, hole: str) -> Value:
        operand = self.node.operands[hole]
        assert isinstance(operand, Value)
        return operand

    def buffer(self, hole: str) -> Buffer:
        """An operand as it is."""
        return self._memory.held[self.value(hole)]

    def real(self, hole: str) -> Buffer:
        """An operand as Real: by way of scratch one of Int, and a state that the node writes while it reads it here."""
        buffer = self.buffer(hole)
        written = hole not in self.node.writes and buffer in map(self.state, self.node.writes)
        if buffer.element is not Element.INT and not written:
            return buffer
        made = self.scratch(buffer.elements)
        name, kind = ("convert", "Int") if buffer.element is Element.INT else ("copy", "Real")
        parameters: list[Parameter] = [(f"const {kind} *x", buffer), ("Real *y", made), ("Size n", buffer.elements)]
        self.launch(name, "elementwise.cuh", "convert", parameters, blocks_for(buffer.elements))
        if written:  # The copy is of the state as it was, whichever launches the node has already.
            self.launches.insert(0, self.launches.pop())
        return made

    def repeat(self, hole: str, rows: int) -> None:
        """Reads an operand of one row as so many rows of it, by way of scratch."""
        value, x = self.value(hole), self.buffer(hole)
        real = x.element is not Element.INT
        made = self.scratch(rows * value.columns, real)
        kind, suffix = ("Real", "") if real else ("Int", "_int")
        parameters: list[Parameter] = [
            (f"const {kind} *x", self.real(hole) if real else x), (f"{kind} *y", made), ("Size n", made.elements),
            ("Size columns", value.columns),
        ]  # fmt: skip
        call = f"repeat<{kind}>"
        self.launch(f"repeat{suffix}", "elementwise.cuh", call, parameters, blocks_for(made.elements))
        # No value of the program: its version is none.
        many = replace(value, version=-1, rows=rows)
        self._memory.held[many] = made
        self.node = replace(self.node, operands={**self.node.operands, hole: many})

    def state(self, hole: str) -> Buffer:
        """The state that the node writes, in place."""
        return self._memory.held[self.node.writes[hole]]

    def made_quants(self) -> list[Parameter]:
        """The parameters of what the stage makes in Q8_0; none where it does not."""
        return [] if self.made is None else quants("made", self.made)

    def quantized(self, hole: str) -> Buffer:
        """An operand's rows as quants with a scale for each 32: made by the first stage that asks, for all others too,
        but for a state, which is written in place."""
        value = self.value(hole)
        if value.name in self._memory.states:
            made = self.scratch_quants(value.size)
            self.quantize(self.real(hole), made)
            return made
        if value not in self._memory.quantized:
            made = self._memory.quantized[value] = self._memory.quants(f"{value.name}_q", value.size)
            self.quantize(self.real(hole), made)
        return self._memory.quantized[value]

    def quantize(self, x: Buffer, made: Buffer) -> None:
        """Adds the launch that quantizes x; where `made` is twice as large, what it leaves of x too."""
        passes = made.elements // x.elements
        name = "quantize" if passes == 1 else "quantize_twice"
        parameters: list[Parameter] = [("const Real *x", x), *quants("made", made), ("Size n", x.elements)]
        self.launch(name, "quantize.cuh", f"quantize<{passes}>", parameters, blocks_for(x.elements // 4))

    def scratch(self, elements: int, real: bool = True) -> Buffer:
        """Memory for this stage alone."""
        return self._scratch(Element.REAL if real else Element.INT, elements)

    def scratch_quants(self, elements: int) -> Buffer:
        """The same for quants, with their scales."""
        return self._scratch(Element.QUANT, elements)

    def _scratch(self, element: Element, elements: int) -> Buffer:
        number = self._taken.get((element, elements), 0)
        self._taken[element, elements] = number + 1
        return self._memory.scratch_of(element, elements, number)

    def launch(
        self, name: str, header: str, function: str, parameters: Sequence[Parameter], blocks: int,
        threads: int = THREADS, registers: bool = False, shared: int = 0,
    ) -> None:  # fmt: skip
        """Adds a launch of the kernel that calls `function`, a device function of a header, with `shared` bytes of
        dynamic shared memory."""
        if blocks > MOST_BLOCKS:
            self.refuse(f"{blocks:,} blocks of threads; a launch takes up to {MOST_BLOCKS:,}")
            return
        given = [parameter for parameter in parameters if parameter is not ABSENT]
        call = ", ".join(name for text, _ in parameters for name in _names(text))
        signature = ", ".join(text for text, _ in given)
        kernel = Kernel(f"{name}_kernel", header, signature, f"{function}({call})", threads, registers)
        self.launches.append(Launch(kernel, (blocks, 1, 1), tuple(argument for _, argument in given), shared))

    def refuse(self, what: str) -> None:
        """Notes what no kernel takes; the program is refused with all of it."""
        self.refusals.append(StageRefusal(self.node.index, self.node.line, f"{self.node.op.name}: {what}"))


def quants(name: str, buffer: Buffer, constant: bool = False) -> list[Parameter]:
    """The parameters of quants and their scales: `Quant *made, Real *made_scales`; of a weight `const Half *`."""
    assert buffer.scales is not None
    const = "const " if constant else ""
    return [(f"{const}Quant *{name}", buffer), (f"{const}{buffer.scales.element.value} *{name}_scales", buffer.scales)]


def q8_of(lowering: Lowering) -> str:
    """What the names of a stage's kernel and its header end in where it makes quants beside."""
    return "" if lowering.made is None else "_q8"


def arrivals(count: int) -> Parameter:
    """The parameter of a kernel whose blocks find out which of them comes last."""
    return "int *arrivals", Arrivals(count)


def _names(parameters: str) -> list[str]:
    """The names in C parameters: `Fault *fault, int stage` has two."""
    return [part.split()[-1].lstrip("*") for part in parameters.split(",")]


def blocks_for(threads: int, most: int = 4096) -> int:
    """Blocks of THREADS threads for kernels that stride over the grid; `most` fill any device several times."""
    return min(-(-threads // THREADS), most)
