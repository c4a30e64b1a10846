"""What an emitted module consists of, decided before any text is written: names, kinds, outputs, constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from logos import Binding, Graph, Job, Leaf, Node, Role, Value
from logos_sambaflow.choice import Choice, choose
from logos_sambaflow.names import fresh, python_names, reserved
from logos_sambaflow.options import Options
from logos_sambaflow.spelling import SPELLS, base_op, helper_of
from logos_sambaflow.support import NOTHING, Support, read_support

PARAMETERS = (Role.WEIGHT, Role.TABLE, Role.CONSTANT)
"""The roles of leaves that are parameters of the module; the others are arguments of forward."""


_INT32 = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True)
class Check:
    """What the host checks ahead of a statement of forward (counted from 0), since a traced module cannot.

    `name` is the check of the emitted variant.py, which takes the variables' values and then `more`; `returned` says
    that forward returns every one of these values.
    """

    statement: int
    returned: bool
    name: str
    variables: tuple[str, ...]
    more: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The module of one job.

    The kind of a value is `real`, `linear` (a Real weight kept as its [out, in] rows, because the program only
    multiplies by it), `int32` (row numbers) or `int64`.
    """

    job: Job

    @property
    def graph(self) -> Graph:
        return self.job.graph

    @property
    def binding(self) -> Binding:
        return self.job.binding

    @property
    def options(self) -> Options:
        options = self.job.options
        assert isinstance(options, Options)
        return options

    @cached_property
    def file(self) -> str:
        """The name of the program's file, for comments: it may hold a line break, which would end one."""
        return "".join(c if c.isprintable() else "?" for c in PurePath(self.graph.source.name).name)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The Python name of every variable."""
        return python_names(self.graph.newest(), self.options.prefill > 0)

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        return {bound.name: bound.role for bound in self.binding.leaves}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The kind of every leaf."""
        return {leaf.name: self._kind(leaf, self.graph.readers(leaf.name)) for leaf in self.graph.leaves}

    def _kind(self, leaf: Leaf, readers: Sequence[tuple[Node, str]]) -> str:
        if not leaf.value.real:
            rows_only = bool(readers) and all(hole in node.op.indexes for node, hole in readers)
            # A fill that no row has is to be refused as it stands, when a step reads it.
            return "int32" if rows_only and all(value in _INT32 for _, value in leaf.fills) else "int64"
        multiplied = bool(readers) and all(node.op.name == "matmul" and hole == "B" for node, hole in readers)
        return "linear" if multiplied and self.roles[leaf.name] is Role.WEIGHT else "real"

    def kind(self, value: Value) -> str:
        """The kind of any value of the program."""
        if value.name in self.kinds:
            return self.kinds[value.name]
        if value.real:
            return "real"
        producer = self.graph.producer(value)
        return "int32" if producer is not None and base_op(producer.op.name) == "argmax" else "int64"

    def dtype_of(self, node: Node) -> str:
        """The dtype that an operation computes in: int64 where its tensors are of Int and it is exact on them."""
        tensors = [node.operands[hole] for hole in node.op.tensors]
        real = any(isinstance(value, Value) and value.real for value in tensors)
        return self.options.dtype if real or not node.op.exact else "int64"

    def first_helper(self, node: Node) -> str:
        """The op's first spelling."""
        b = node.operands.get("B")
        linear = isinstance(b, Value) and self.kind(b) == "linear"
        return helper_of(node.op.name, linear, node.operands.get("P") is not None)

    @cached_property
    def found(self) -> Support:
        """What the probes found. Refused: a support.toml that is not sound (`bad-toml`, `bad-support`)."""
        return NOTHING if self.options.support is None else read_support(self.options.support)

    @cached_property
    def choices(self) -> Mapping[int, Choice]:
        """How each operation is spelled, by its index. Plain spellings have no alternatives."""
        found = self.found if self.options.operators == "listed" else NOTHING
        spelled = (node for node in self.graph.nodes if base_op(node.op.name) in SPELLS)
        return {node.index: choose(self.first_helper(node), self.dtype_of(node), found) for node in spelled}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """What forward returns before the states: as asked, else the output and, of an argmax, its operand."""
        if self.options.outputs:
            return self.options.outputs
        output = self.graph.output
        node = self.graph.producer(output)
        assert node is not None
        operand = node.operands["X"] if node.op.name == "argmax" else None
        named = isinstance(operand, Value) and self.graph.newest()[operand.name] == operand
        if isinstance(operand, Value) and named and operand.name not in self.kinds:
            return output.name, operand.name
        return (output.name,)

    def leaves(self, *roles: Role) -> tuple[Leaf, ...]:
        """The leaves of some roles, in the order of declaration."""
        return tuple(leaf for leaf in self.graph.leaves if self.roles[leaf.name] in roles)

    @cached_property
    def checks(self) -> tuple[tuple[str, str, int], ...]:
        """(leaf, table, rows): the rows that a leaf must lie in before a step, in the order that a step reads them."""
        found: dict[tuple[str, int], str] = {}
        for node in self.graph.nodes:
            for hole in node.op.indexes:
                row, table = node.operands[hole], node.operands[node.op.table(hole)]
                if isinstance(row, Value) and isinstance(table, Value) and row.version == 0 and row.name in self.kinds:
                    found.setdefault((row.name, table.rows), table.name)
        return tuple((name, table, rows) for (name, rows), table in found.items())

    @cached_property
    def checked(self) -> tuple[Check, ...]:
        """Checks within a step, in the order in which the reference machine makes them."""
        return tuple(check for at, node in enumerate(self.graph.nodes) for check in self._checks_of(at, node))

    def _checks_of(self, at: int, node: Node) -> Iterator[Check]:
        read = [node.operands[hole] for hole in node.op.tensors]
        values = [value for value in read if isinstance(value, Value)]
        for hole in node.op.indexes:
            row, table = node.operands[hole], node.operands[node.op.table(hole)]
            leaf = isinstance(row, Value) and row.version == 0 and row.name in self.kinds
            if isinstance(row, Value) and isinstance(table, Value) and not leaf:
                yield self._check(at, "row_inside", [row], row.name, table.name, table.rows)
        op = base_op(node.op.name)
        if op == "argmax" and values[0].real:
            yield self._check(at, "has_largest", values)
        if op in ("plus", "hadamard", "matmul") and not any(value.real for value in values):
            yield self._check(at, "fits_64_bits", values, op)

    def _check(self, at: int, name: str, values: Sequence[Value], *more: str | int) -> Check:
        newest = self.graph.newest()
        returned = all(value.name in self.outputs and newest[value.name] == value for value in values)
        return Check(at, returned, name, tuple(value.name for value in values), more)

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(self.names.values())

    def constant(self, what: str) -> str:
        """The name of one of the module's own int32 constants (`zero`, `rows_256`), no variable's."""
        return fresh(what, self._taken, reserved(self.options.prefill > 0))
