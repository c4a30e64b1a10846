"""The driver's tables and stage functions: what its template takes from a stage graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from logos import DriverTables, HeldValue, c_block, c_comment, c_double, c_integer, c_string, c_table
from logos_cuda.stages import Argument, Arrivals, Buffer, Element, ForwardGraph, Kernel, Launch, Record, Stage

_STATIC_SHARED = 48 * 1024
_ACCESS = {Element.REAL: "real", Element.INT: "integer", Element.QUANT: "quants", Element.HALF: "halves"}
"""The driver's functions that give a buffer as a pointer to its elements."""


class Driver:
    """The driver of one stage graph."""

    def __init__(self, graph: ForwardGraph, files: Mapping[str, str] | None = None) -> None:
        self.graph, self.program = graph, graph.graph
        self.own = driver_tables(graph, files)

    def tables(self) -> str:
        """Constants and tables, one line an entry."""
        counts = {"ARRIVALS": self.arrivals(), "KEPT": sum(not buffer.inner for buffer in self.graph.buffers)}
        names = [*(f"{buffer.name}," for buffer in self.graph.buffers), "BUFFERS,"]
        parts = [
            c_block("enum {", names, "};"),
            c_block("enum {", (f"{name} = {count}," for name, count in counts.items()), "};"),
            c_table("Memory", "buffers", map(_memory, self.graph.buffers)),
            self.own.text(),
        ]
        return "\n\n".join(parts)

    def arrivals(self) -> int:
        """The counters that launches share."""
        return self.graph.arrivals

    def stages(self) -> str:
        """One function a stage, each with the places of the sentences that it computes, and the list of them."""
        return "\n\n".join([*self.functions("stages", self.graph.stages), self.allow_shared(self.graph.stages)])

    def functions(self, name: str, stages: Sequence[Stage], first: int = 0) -> Iterator[str]:
        """One function a stage, numbered from `first` on, and the list of them."""
        yield from (self._stage(first + number, stage) for number, stage in enumerate(stages))
        names = (f"stage_{first + number}," for number in range(len(stages)))
        yield c_block(f"void (*const {name}[])() = {{", (*names, *(() if stages else ("nullptr,",))), "};")

    def _stage(self, number: int, stage: Stage) -> str:
        lines = [f"// {self.own.origin(node)}" for node in stage.nodes]
        as_one = [f"as one by {stage.step}"] if stage.step else []
        as_one += [f"with {mark}" for mark in stage.marks]
        lines[-1] = "; ".join([lines[-1], *map(c_comment, [*as_one, *stage.notes])])
        lines.append(f"void stage_{number}() {{")
        lines += [f"    {self._launch(number, launch)}" for launch in stage.launches]
        return "\n".join([*lines, "}"])

    def _launch(self, number: int, launch: Launch) -> str:
        grid = ", ".join(f"{size}u" for size in launch.grid)
        arguments = [text for one in launch.arguments for text in _argument(one, number)]
        first = f"{launch.kernel.name}, dim3({grid}), dim3({launch.kernel.threads}u), {launch.shared}"
        return f"LAUNCH({', '.join([first, *arguments])});"

    def allow_shared(self, stages: Iterable[Stage]) -> str:
        """Kernels that take more dynamic shared memory than one may take unasked; the first is asked what all were made
        for."""
        most: dict[Kernel, int] = {}
        for launch in (launch for stage in stages for launch in stage.launches):
            most[launch.kernel] = max(most.get(launch.kernel, 0), launch.shared)
        lines = [
            f"    CHECK(cudaFuncSetAttribute({kernel.name}, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared}));"
            for kernel, shared in most.items()
            if shared > _STATIC_SHARED
        ]
        lines += [f"    may_begin_early({kernel.name});" for kernel in list(most)[:1]]
        return "\n".join(["void allow_shared() {", *lines, "}"])


def driver_tables(graph: ForwardGraph, files: Mapping[str, str] | None = None) -> DriverTables:
    """The tables of a stage graph; `files` are the stems of weights' files by variable, where they are not its own."""
    held = {value: HeldValue(buffer.name, buffer.transposed) for value, buffer in graph.held.items()}
    return DriverTables(graph.graph, held, [stage.nodes for stage in graph.stages], files)


def _argument(argument: Argument, stage: int) -> Iterator[str]:
    if isinstance(argument, Buffer):
        yield f"{_ACCESS[argument.element]}({argument.name})"
    elif isinstance(argument, Record):
        yield from ("fault", str(stage))
    elif isinstance(argument, Arrivals):
        yield "arrivals"
    elif isinstance(argument, int):
        yield f"Size({c_integer(argument)})"
    else:  # the double nearest to what the program says, rounded once
        yield f"static_cast<float>({c_double(argument)})"


def _memory(buffer: Buffer) -> str:
    """A buffer's name and bytes; for what the driver rounds, how, and where the scales are."""
    parts = [c_string(buffer.name), f"Size({buffer.elements}LL) * Size(sizeof({buffer.element.value}))"]
    if buffer.element is Element.HALF and buffer.value is not None:
        parts.append("HALVES")
    if buffer.scales is not None:
        parts += ["QUANTS", buffer.scales.name]
    return f"{{{', '.join(parts)}}}"
