"""The reference machine: the meaning of a program, in numpy float64 and exact 64-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from logos.graph import Graph, Node, Operand, Value
from logos.graph import token_inputs as token_inputs
from logos.memory import room_for
from logos.refusal import refuse
from logos.source import Spot

if TYPE_CHECKING:
    from logos.prefill import Prefill

Array = NDArray[Any]


def row_outside(name: str, row: int, rows: int, table: str) -> str:
    """The words for a row outside its table; targets say the same."""
    return f"{name} is {row}, outside the rows 0 to {rows - 1} of {table}"


class Machine:
    """Runs a graph step by step, carrying its states.

    `values` gives every weight, table, constant and input its value by name, in the program's shape (float64 or
    int64); inputs may instead come with each step. A state starts at its value there, else at its fills, else at zero.
    """

    def __init__(self, graph: Graph, values: Mapping[str, Array]) -> None:
        self.graph = graph
        self.values = dict(values)
        self.states: dict[str, Array] = {}
        for leaf in graph.states:
            with room_for(leaf.value, leaf.span):
                given = leaf.name in values
                self.states[leaf.name] = values[leaf.name] if given else initial(leaf.value, leaf.fills)
        self._newest = graph.newest()

    def step(self, inputs: Mapping[str, Array] | None = None) -> dict[Value, Array]:
        """One step: every value of the program, by version. Refused at its sentence: a row outside its table
        (`row-outside-table`), a value without meaning (`no-value`) or without room (`too-large-for-memory`)."""
        given = {**self.values, **(inputs or {}), **self.states}
        now: dict[Value, Array] = {leaf.value: given[leaf.name] for leaf in self.graph.leaves}
        with np.errstate(all="ignore"):
            for node in self.graph.nodes:
                now.update(evaluate(node, now))
        for leaf in self.graph.states:
            self.states[leaf.name] = now[self._newest[leaf.name]]
        return now


def initial(value: Value, fills: Sequence[tuple[int, int | float]]) -> Array:
    """Zeros with the fills set, in the value's shape."""
    array = np.zeros(value.size, dtype=np.float64 if value.real else np.int64)
    for index, number in fills:
        array[index] = number
    return array.reshape(value.shape)


def evaluate(node: Node, now: Mapping[Value, Array]) -> dict[Value, Array]:
    """What a node makes of the values that it reads (float64 or int64). Refused as `Machine.step` says."""
    try:
        with room_for(node.results[0], node.span):
            result = node.op.value(**_arguments(node, now))
    except ArithmeticError as error:
        what = f"{node.op.name}: {error}"
        next_ = "look at its operands: end the program above this sentence and run it with `--get`"
        raise refuse("no-value", what, node.span, next_) from None
    made: dict[Value, Array] = {}
    states = result if node.op.statement else (result[1] if node.op.writes else {})
    if node.out is not None:
        made[node.out] = result[0] if node.op.writes else result
    for hole, value in node.writes.items():
        made[value] = states[hole]
    for value, array in made.items():
        if np.shape(array) != value.shape:
            raise TypeError(f"the op {node.op.name} gave {np.shape(array)} where its shape rule gives {value.shape}")
    return made


def _arguments(node: Node, now: Mapping[Value, Array]) -> dict[str, Any]:
    tensors = [node.operands[hole] for hole in node.op.tensors]
    as_int = node.op.exact and not any(isinstance(value, Value) and value.real for value in tensors)
    as_int = as_int or node.op.block is not None
    arguments: dict[str, Any] = {}
    for hole, operand in node.operands.items():
        if hole in node.op.indexes:
            arguments[hole] = _row(node, hole, operand, now)
        elif isinstance(operand, Value):
            array = now[operand]
            arguments[hole] = array if as_int or array.dtype == np.float64 else array.astype(np.float64)
        else:
            arguments[hole] = operand
    return arguments


def _row(node: Node, hole: str, operand: Operand, now: Mapping[Value, Array]) -> int | Array | None:
    """A row number (of many steps: an array of them), checked against the table that bounds it."""
    if not isinstance(operand, Value):
        return None if operand is None else int(operand)
    numbers, rows = now[operand][:, 0], node.sizes[node.op.indexes[hole]]
    outside = numbers[(numbers < 0) | (numbers >= rows)]
    if outside.size:
        table = node.operands[node.op.table(hole)]
        assert isinstance(table, Value)
        what = row_outside(operand.name, int(outside[0]), rows, table.name)
        raise refuse("row-outside-table", what, node.span, f"give {operand.name} a row that {table.name} has")
    return numbers if operand.rows > 1 else int(numbers[0])


@dataclass
class Record:
    """What a run of several steps leaves: the named variables' values at every step, the generated ids, and all of the
    last step's values."""

    arrays: dict[str, list[Array]] = field(default_factory=dict)
    generated: list[int] = field(default_factory=list)
    last: Mapping[Value, Array] = field(default_factory=dict)

    def stacked(self, name: str) -> Array:
        """(steps, rows, columns)."""
        return np.stack(self.arrays[name])


def run_steps(
    machine: Machine,
    names: Sequence[str],
    tokens: Sequence[int] = (),
    generate: int = 0,
    progress: Callable[[int, int], None] | None = None,
    goes_on: Callable[[int], bool] | None = None,
    prefill: Prefill | None = None,
) -> Record:
    """Runs a program.

    With tokens: what `fed_by_tokens` names is fed, T + generate − 1 steps are made (T without generate), and each
    output after the last given token is an id, fed to the next step. Without: one step on
    the machine's values. `names` (of `Graph.taps`) are recorded at every step. `goes_on` is asked with each generated
    id; at False the run ends there. `prefill`, made for the machine's graph and `names`, makes the given tokens' steps
    many at once.
    """
    graph = machine.graph
    if generate:
        check_generates(graph)
    record = Record({name: [] for name in names})
    fed, done = list(tokens), 0
    total = len(tokens) + max(generate - 1, 0) if tokens else 1
    for steps, arrays, record.last in _advances(machine, names, fed, total, prefill):
        for name in names:
            record.arrays[name] += arrays[name]
        done += steps
        if progress is not None:
            progress(done, total)
        if generate and done >= len(tokens):
            record.generated.append(int(record.last[graph.output][0, 0]))
            fed.append(record.generated[-1])
            if goes_on is not None and not goes_on(record.generated[-1]):
                break
    return record


def _advances(
    machine: Machine, names: Sequence[str], tokens: Sequence[int], total: int, prefill: Prefill | None
) -> Iterator[tuple[int, Mapping[str, Sequence[Array]], Mapping[Value, Array]]]:
    """How many steps were made, their arrays by name, and the last one's values, until all are."""
    taps, given = machine.graph.taps, len(tokens)
    if prefill is not None:
        for chunk in prefill.chunks(machine, tokens[:given]):
            yield chunk.steps, chunk.arrays, chunk.last
    for now in each_step(machine, tokens, total, first=0 if prefill is None else given):
        yield 1, {name: (now[taps[name]],) for name in names}, now


def each_step(
    machine: Machine, tokens: Sequence[int], total: int | None = None, first: int = 0
) -> Iterator[dict[Value, Array]]:
    """Every value of each step, by version: with tokens one step for each from the `first` on, else one. A `total`
    beyond them counts on tokens that are added as the steps go."""
    taken = fed_by_tokens(machine.graph) if tokens else ()
    for step in range(first, max(len(tokens), 1) if total is None else total):
        numbers = {"tok": tokens[step], "pos": step} if tokens else {}
        yield machine.step({name: _scalar(numbers[name]) for name in taken})


def _scalar(number: int) -> Array:
    return np.full((1, 1), number, dtype=np.int64)


def check_generates(graph: Graph) -> None:
    """Refuses a program whose output is no token id (`output-not-a-token`)."""
    output = graph.output
    if output.real or output.shape != (1, 1):
        what = f"the output {output.name} is {output.rows} by {output.columns}, not one token id"
        next_ = "end the program with an argmax, or leave --generate out"
        raise refuse("output-not-a-token", what, Spot(graph.source.name), next_)


def fed_by_tokens(graph: Graph, given: Collection[str] = ()) -> tuple[str, ...]:
    """The inputs that `--tokens` feeds: `tok`, and `pos` where the program has it as an input, 1 by 1 of Int.

    Refused: a program without such an input `tok` (`no-token-input`), a value of `given` for one that is fed
    (`set-of-fed`).
    """
    fed = token_inputs(graph)
    if not fed:
        what = "tokens are fed to an input named tok, 1 by 1 of Int; the program has none"
        raise refuse("no-token-input", what, Spot(graph.source.name), "leave --tokens out, or declare `tok`")
    for name in fed:
        if name in given:
            what = f"--tokens feeds {name} at every step; it takes no value"
            raise refuse("set-of-fed", what, Spot(f"--set {name}"), "leave out --tokens or this value")
    return fed
