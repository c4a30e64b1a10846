"""Programs of one op in random shapes, and the loop that its sentence stands for."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from logos import Graph, Node, Op, Source, Value
from logos.check import read_program
from logos.conformance import variants
from logos.conformance.cases import Form, make_case
from logos.conformance.sizes import random_sizes
from logos.desugar import node_loop
from logos.grammar import make_grammar
from logos.loops.check import Tensor
from logos.loops.records import Repeat
from logos.ops import OPS

GRAMMAR = make_grammar(OPS)


def graphs(op: Op, random: Random, dimensions: range, number: int = 1) -> Iterator[Graph]:
    """A program for each way to say an op: optional parts, shape rules, Real and Int, rows by variable and number."""
    for present, rule in variants(op):
        by_number = any(hole in present and hole not in op.variables for hole in op.indexes)
        for real in (True, False) if op.exact else (True,):
            for literal in (False, True) if by_number else (False,):
                for _ in range(number):
                    sizes = random_sizes(op, rule, random, dimensions)
                    case = make_case(Form(op, present, rule, real, literal), 1, sizes, random)
                    if op.name != "set row" or sizes["n"] > 1:  # all of a table set is no loop's to say
                        yield read_program(Source("p.lg", case.text), GRAMMAR)


def the_loop(node: Node) -> tuple[Repeat, dict[str, Tensor], str | None]:
    """The loop of a node's sentence, the tensors that it uses, and the one that it makes."""
    values = (*node.inputs, *node.results)
    loop = node_loop(node, {value: value.name for value in values})
    assert loop is not None
    tensors = {value.name: Tensor(value.rows, value.columns, value.real) for value in values}
    return loop, tensors, None if node.out is None else node.out.name


def arguments(node: Node) -> dict[str, object]:
    """What stands at a node's holes: variables by name."""
    return {hole: one.name if isinstance(one, Value) else one for hole, one in node.operands.items()}
