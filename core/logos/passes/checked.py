"""What a pass made, held to what the parser's checks promise of every graph."""

from __future__ import annotations

from collections.abc import Mapping

from logos.graph import Graph, Node, Value
from logos.op import Op
from logos.shapes import Shape, Solution, solve


def checked(graph: Graph) -> Graph:
    """The graph itself. Every value is read below what makes it, no value is made twice, and the shapes are those that
    the ops' rules give. Anything else is a fault of the pass (ValueError)."""
    made = {leaf.value for leaf in graph.leaves}
    solutions: dict[object, Solution] = {}
    for position, node in enumerate(graph.nodes):
        if node.index != position:
            raise ValueError(f"{node.op.name} is numbered {node.index} and stands at {position}")
        if lost := [value for value in node.inputs if value not in made]:
            raise ValueError(f"{node.op.name}, line {node.line}, reads {lost} above what makes it")
        if again := [value for value in node.results if value in made]:
            raise ValueError(f"{node.op.name}, line {node.line}, makes {again} a second time")
        _check_shapes(node, graph.steps, solutions)
        made.update(node.results)
    if graph.output not in made or not all(shown.value in made for shown in graph.shows):
        raise ValueError("the output, or what is shown, is made by no node")
    return graph


def _check_shapes(node: Node, steps: int, solutions: dict[object, Solution]) -> None:
    key = node.op, *((value.shape if isinstance(value, Value) else value) for value in node.operands.values())
    if key not in solutions:
        solutions[key] = solve_node(node.op, node.operands)
    solution = solutions[key]
    out: Shape | None = None if node.out is None else node.out.shape
    if solution.misfits or solution.out != out or solution.sizes != node.sizes:
        raise ValueError(f"the shapes of {node.op.name}, line {node.line}: {solution.misfits or solution.out}")
    for hole in node.op.indexes:
        row = node.operands[hole]
        if isinstance(row, Value) and (row.real or row.shape not in ((1, 1), (steps, 1))):
            raise ValueError(f"the row {row.name} of {node.op.name}, line {node.line}, is {row.rows} by {row.columns}")


def solve_node(op: Op, operands: Mapping[str, object]) -> Solution:
    """The shape rule of an op on the values and counts at its holes."""
    values = {hole: value for hole in op.tensors if isinstance(value := operands.get(hole), Value)}
    names = {hole: value.name for hole, value in values.items()}
    shapes = {hole: value.shape for hole, value in values.items()}
    counts = {hole: count for hole in op.counts if isinstance(count := operands.get(hole), int)}
    return solve(op, names, shapes, counts)
