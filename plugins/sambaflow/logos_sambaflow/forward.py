"""The body of the emitted forward: one statement per operation, in the program's order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logos import Node, Operand, Value
from logos_sambaflow.layout import PARAMETERS, Layout
from logos_sambaflow.parts import Part, step_helpers
from logos_sambaflow.spelling import base_op, operators_of, spelled

WIDTH = 110
"""Statements longer than this are folded at an argument."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One operation as it is emitted.

    `needs` are the module's own int32 constants that it reads, by name, each with its values as a column;
    `operators` the torch operators it may use, casts of its operands included.
    """

    node: Node
    helper: Part
    lines: tuple[str, ...]
    needs: Mapping[str, range]
    operators: tuple[str, ...]

    @property
    def torch(self) -> str:
        """The spelling with the op's formal operands."""
        return spelled(self.helper)


REAL = "real"
"""The module's own Real parameter, whose dtype Int operands of a function of reals are cast to."""


def statements(layout: Layout) -> tuple[Statement, ...]:
    """Every operation of the program as a statement of forward."""
    pool, made = step_helpers(layout.options.operators), []
    for node in layout.graph.nodes:
        helper = layout.choices[node.index].helper
        assert helper is not None  # refused before anything is written
        made.append(statement(layout, node, pool[helper]))
    return tuple(made)


def statement(layout: Layout, node: Node, helper: Part) -> Statement:
    """One operation, spelled by this helper."""
    return _Writer(layout, node, helper).statement()


class _Writer:
    """Writes one statement: binds the helper's parameters, by their names, to operands, sizes and constants."""

    def __init__(self, layout: Layout, node: Node, helper: Part) -> None:
        self.layout, self.node, self.helper = layout, node, helper
        self.as_int = layout.dtype_of(node) == "int64"
        self.needs: dict[str, range] = {}
        self.casts = False

    def statement(self) -> Statement:
        node, layout = self.node, self.layout
        arguments = self._arguments()
        made = ", ".join(layout.names[value.name] for value in node.results)
        variable = node.results[0].name
        comment = f"        # {node.index} {variable}: {base_op(node.op.name)}, {layout.file}:{node.line}"
        lines = (comment, *folded(f"{made} = {self.helper.name}(", arguments, ")", indent=8))
        operators = operators_of(self.helper.name, layout.options.operators)
        if self.casts and "cast" not in operators:
            operators = (*operators, "cast")
        return Statement(node, self.helper, lines, self.needs, operators)

    def _arguments(self) -> list[str]:
        """The call's arguments: tensors that every call has by their place, what follows them by name."""
        arguments: list[str] = []
        keywords = False
        for name in self.helper.parameters:
            text = self._argument(name)
            if text is None:
                continue
            operand = self.node.operands.get(name)
            tensor = isinstance(operand, Value) or name in self.node.op.indexes
            keywords = keywords or not tensor or name in self.helper.optional
            arguments.append(f"{name}={text}" if keywords else text)
        return arguments

    def _argument(self, name: str) -> str | None:
        """The text for a parameter of the helper; None leaves an absent optional part to its default."""
        operand, _, what = name.rpartition("_")
        if what in ("rows", "columns", "size", "numbers"):
            value = self.node.operands[operand]
            if value is None:
                return None
            assert isinstance(value, Value)
            if what == "numbers":
                return self._constant(f"rows_{value.rows}", range(value.rows))
            return str(getattr(value, what))
        if name in ("zero", "one"):
            return self._constant(name, range(1) if name == "zero" else range(1, 2))
        given = self.node.operands[name]
        return None if given is None else self._operand(name, given)

    def _operand(self, hole: str, operand: Operand) -> str:
        if hole in self.node.op.indexes:
            return self._index(operand)
        if not isinstance(operand, Value):
            return repr(operand)
        text, kind = self._read(operand), self.layout.kind(operand)
        if self.as_int:
            return self._cast(text, ".long()") if kind == "int32" else text
        if kind in ("int32", "int64"):
            return self._cast(text, f".to(self.{self.layout.constant(REAL)}.dtype)")
        return text

    def _index(self, operand: Operand) -> str:
        """A row number as an int32 tensor of shape (1, 1); a literal row is a constant of the module."""
        if isinstance(operand, Value):
            text = self._read(operand)
            return text if self.layout.kind(operand) == "int32" else self._cast(text, ".int()")
        assert isinstance(operand, int)
        return self._constant(f"row_{operand}", range(operand, operand + 1))

    def _cast(self, text: str, cast: str) -> str:
        self.casts = True
        return text + cast

    def _constant(self, what: str, values: range) -> str:
        name = self.layout.constant(what)
        self.needs[name] = values
        return f"self.{name}"

    def _read(self, value: Value) -> str:
        name = self.layout.names[value.name]
        return f"self.{name}" if self.layout.roles.get(value.name) in PARAMETERS else name


def folded(head: str, items: list[str], tail: str, indent: int) -> tuple[str, ...]:
    """`head`, the items and `tail` on one line where they fit, else the items on lines of their own between."""
    margin = " " * indent
    whole = f"{margin}{head}{', '.join(items)}{tail}"
    if len(whole) <= WIDTH:
        return (whole,)
    lines, line = [margin + head], margin + "   "
    for item in items:
        if len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = margin + "   "
        line += f" {item},"
    return (*lines, line, margin + tail.lstrip(","))
