"""The driver's tables: what its template takes from a program's stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from logos import DriverTables, Graph, HeldValue, c_block, c_table, prompt_tables
from logos_cpu.lowering import MOST_THREADS
from logos_cpu.stages import Buffer, Call, Stages, meetings


class Tables:
    """The tables of a step's stages and, beside them, of many steps' at once; `alone` as `prompt_tables` has it.
    `kernels` are the distinct calls."""

    def __init__(
        self, step: Stages, many: Stages | None = None, steps: int = 1, alone: Sequence[str] | None = None
    ) -> None:
        self.step, self.many, self.steps, self.alone = step, many, steps, alone
        self.program: Graph = step.graph
        self.own = _driver_tables(step)
        calls = (*step.calls, *(() if many is None else many.calls))
        self.kernels: dict[str, int] = {}
        for call in calls:
            self.kernels.setdefault(call.text, len(self.kernels))
        self.calls: Sequence[Call] = calls

    def text(self) -> str:
        """Constants and tables, one line an entry."""
        many = self.many
        buffers = self.step.buffers if many is None else many.buffers
        counts = {"BUFFERS": len(buffers), "KEPT": self.step.own, "MOST_THREADS": MOST_THREADS}
        scratch = max(self.step.scratch, 0 if many is None else many.scratch)
        operands: list[int] = []
        stages = [self._stages("stages", self.step.calls, operands)]
        stages.append(self._stages("chunk_stages", () if many is None else many.calls, operands))
        parts = [
            c_block("enum {", (f"{name} = {count}," for name, count in counts.items()), "};"),
            f"const Size SCRATCH = {scratch};",
            c_table("Memory", "buffers", map(_memory, buffers)),
            self.own.text(),
            prompt_tables(self.own, None if many is None else _driver_tables(many), self.steps, self.alone),
            c_block("const int operands[] = {", (f"{place}," for place in _lines(operands)), "};"),
            *stages,
        ]
        return "\n\n".join(parts)

    def _stages(self, name: str, calls: Sequence[Call], operands: list[int]) -> str:
        entries = []
        for call, meets in zip(calls, meetings(calls), strict=True):
            numbers = [use.buffer.number for use in call.uses]
            entries.append(f"{{{self.kernels[call.text]}, {str(meets).lower()}, {len(operands)}, {len(numbers)}}}")
            operands += numbers
        return c_table("Stage", name, entries, [self.own.origin(call.node) for call in calls])


def _driver_tables(stages: Stages) -> DriverTables:
    held = {value: HeldValue(str(buffer.number), buffer.transposed) for value, buffer in stages.held.items()}
    return DriverTables(stages.graph, held, [(call.node,) for call in stages.calls])


def _memory(buffer: Buffer) -> str:
    scales = -1 if buffer.scales is None else buffer.scales.number
    return f"{{{buffer.element.value}, {buffer.groups}, {buffer.rows}, {buffer.columns}, {scales}}}"


def _lines(numbers: Sequence[int]) -> Iterator[str]:
    for first in range(0, len(numbers) or 1, 24):
        yield ", ".join(map(str, numbers[first : first + 24])) or "0"
