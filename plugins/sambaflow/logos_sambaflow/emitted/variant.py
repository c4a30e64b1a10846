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
    at: int = 0,  # with prefill
) -> Any:
    """LogosModule.forward as its own file has it, with checks ahead of statements (number, whether forward returns what
    is checked, check, variables, further arguments), and returning further variables at the end: a variable's last
    value by its name, an earlier one as `x@1`.

    `scope` are the file's globals, `names` the Python names that differ, `held` the variables that are parameters.
    """
    tree, forward = parsed_forward(path)
    # LogosModule's, then LogosPrefill's.  # with prefill
    methods = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))  # with prefill
    forward = [node for node in methods if node.name == "forward"][at]  # with prefill
    made = made_values(forward, names)
    for name in extra:
        if name not in made:
            raise ArtifactError(f"--get {name}: the program has no such variable{nearest(name, made)}")
    last = forward.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise ArtifactError(f"{path}: forward does not end with the tuple that it returns")
    parameters, added = frozenset(held), []
    for name in extra:
        number, python = made[name]
        kept = name.replace("@", "_")
        if kept != name:
            added.append((number, f"_{kept} = {python}"))
            python = f"_{kept}"
        last.value.elts.append(ast.Name(python, ast.Load()))
    for number, _, check, read, more in checked:
        arguments = [("self." if name in parameters else "") + names.get(name, name) for name in read]
        added.append((number, f"_{check}({', '.join([*arguments, *map(repr, more)])})"))
    added.sort(key=lambda item: item[0])
    # From the last on, the numbers of the statements before stay right.
    for number, text in reversed(added):
        forward.body.insert(number, ast.parse(text).body[0])
    tree.body = [forward]
    # No variable's Python name begins with an underscore.
    inside = {**scope, **{"_" + name: check for name, check in STEP_CHECKS.items()}}
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), inside)
    return inside["forward"]


def parsed_forward(path: str) -> Any:
    """A module's file, parsed, and its LogosModule.forward."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    module = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LogosModule")
    return tree, next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "forward")


def made_values(forward: ast.FunctionDef, names: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """What forward takes and what its statements make, in that order: a variable's last value by its name, an earlier
    one as `x@1`, an argument's own as `x@0`. Each with the number of the statement ahead of which it is there (0 for an
    argument), and its Python name."""
    variables = {python: name for name, python in names.items()}
    stored = [(0, argument.arg) for argument in forward.args.args[1:]]
    versions = {python: 0 for _, python in stored}
    for number, statement in enumerate(forward.body, 1):
        targets = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        stored += [(number, node.id) for node in targets if isinstance(node.ctx, ast.Store)]
    last = {python: number for number, python in stored}
    made = {}
    for number, python in stored:
        version = versions.get(python, 1)
        versions[python] = version + 1
        name = variables.get(python, python)
        made[name if last[python] == number else f"{name}@{version}"] = (number, python)
    return made


def stage_names(path: str, names: Mapping[str, str]) -> list[str]:
    """All that the statements of a file's forward make, in their order."""
    _, forward = parsed_forward(path)
    return [name for name, (number, _) in made_values(forward, names).items() if number]


def check_returned(checked: Iterable[Sequence[Any]], values: Mapping[str, Tensor]) -> None:
    """The checks of a step for which what forward returned suffices."""
    for _, returned, check, read, more in checked:
        if returned:
            STEP_CHECKS[check](*(values[name] for name in read), *more)


def nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""
