"""Variants of an emitted forward: they return further variables, and check on the host what a traced one cannot."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from logos_sambaflow.emitted.loader import ArtifactError


def row_inside(row: Tensor, name: str, table: str, rows: int) -> None:
    number = int(row)
    if not 0 <= number < rows:
        raise ArtifactError(f"{name} is {number}, outside the rows 0 to {rows - 1} of {table}")


def has_largest(values: Tensor) -> None:
    if bool(values.isnan().any()):
        raise ArtifactError("argmax: the operand holds a NaN, so it has no largest element")


def fits_64_bits(a: Tensor, b: Tensor, op: str) -> None:
    """Raises ArtifactError where plus, hadamard or matmul of Int tensors leaves 64 bits: torch's integers wrap."""
    first, second = numpy_values(a), numpy_values(b)
    # The magnitudes bound every result: only where they leave it open is it computed in Python's integers.
    one, other = magnitude(first), magnitude(second)
    if (one + other if op == "plus" else one * other * (first.shape[1] if op == "matmul" else 1)) < 2**63:
        return
    first, second = first.astype(object), second.astype(object)
    result = first + second if op == "plus" else first * second if op == "hadamard" else first.dot(second)
    if not all(-(2**63) <= value < 2**63 for value in result.reshape(-1)):
        raise ArtifactError(f"{op}: a result does not fit 64 bits")


def magnitude(values: Any) -> int:
    return max(abs(int(values.max())), abs(int(values.min())))


def numpy_values(values: Tensor) -> Any:
    """Int as int64; bfloat16, which numpy lacks, as float32."""
    values = values.detach().cpu()
    if not values.dtype.is_floating_point:
        return values.long().numpy()
    return (values if values.element_size() > 2 else values.float()).numpy()


STEP_CHECKS: Mapping[str, Any] = {"row_inside": row_inside, "has_largest": has_largest, "fits_64_bits": fits_64_bits}


def forward_variant(
    path: str,
    scope: Mapping[str, Any],
    names: Mapping[str, str],
    held: Iterable[str],
    checked: Iterable[Sequence[Any]],
    extra: Sequence[str],
) -> Any:
    """LogosModule.forward as its own file has it, with checks ahead of statements (number, whether forward returns what
    is checked, check, variables, further arguments), and returning further variables at the end.

    `scope` are the file's globals, `names` the Python names that differ, `held` the variables that are parameters.
    """
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    module = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LogosModule")
    forward = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    stored = (node for node in ast.walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    variables = {python: name for name, python in names.items()}
    known = [variables.get(node.id, node.id) for node in stored]
    for name in extra:
        if name not in known:
            raise ArtifactError(f"--get {name}: the program has no such variable{nearest(name, known)}")
    last = forward.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise ArtifactError(f"{path}: forward does not end with the tuple that it returns")
    last.value.elts += [ast.Name(names.get(name, name), ast.Load()) for name in extra]
    parameters = frozenset(held)
    # They come in the statements' order: from the last on, the numbers of those before stay right.
    for number, _, check, read, more in reversed(list(checked)):
        python = [("self." if name in parameters else "") + names.get(name, name) for name in read]
        call = f"_{check}({', '.join([*python, *map(repr, more)])})"
        forward.body.insert(number, ast.parse(call).body[0])
    tree.body = [forward]
    # No variable's Python name begins with an underscore.
    inside = {**scope, **{"_" + name: check for name, check in STEP_CHECKS.items()}}
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), inside)
    return inside["forward"]


def check_returned(checked: Iterable[Sequence[Any]], values: Mapping[str, Tensor]) -> None:
    """The checks of a step for which what forward returned suffices."""
    for _, returned, check, read, more in checked:
        if returned:
            STEP_CHECKS[check](*(values[name] for name in read), *more)


def nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""
