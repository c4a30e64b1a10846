"""An emitted module as a program: arguments, the loop over steps, and what is read out of it."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logos_sambaflow.emitted.loader import (
    HELD,
    ArtifactError,
    Leaf,
    find_values,
    given_values,
    held_as,
    initial,
    missing_values,
    read_stored,
)

TORCH_DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class Program(NamedTuple):
    """An emitted module with what is known of it: its leaves, the Python names that differ from the variables', the
    fills, (leaf, table, rows) of every row number to check, the output, what forward returns before the states, its
    dtype, and the file that holds it."""

    module: Any
    leaves: Mapping[str, Leaf]
    names: Mapping[str, str]
    fills: Mapping[str, Mapping[int, float]]
    checks: Sequence[tuple[str, str, int]]
    output: str
    outputs: Sequence[str]
    dtype: str
    path: str

    def of_role(self, *roles: str) -> list[str]:
        return [name for name, leaf in self.leaves.items() if leaf.role in roles]

    def python_name(self, name: str) -> str:
        return self.names.get(name, name)


def main(program: Program, argv: Sequence[str]) -> int:
    """Runs the module as a program; 0, or 1 with one message on standard error."""
    arguments = parsed_arguments(program, argv)
    try:
        run(program, arguments)
    except (ArtifactError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parsed_arguments(program: Program, argv: Sequence[str]) -> argparse.Namespace:
    what = "Runs one step of the program, or one for each token, and prints variables of the last step."
    parser = argparse.ArgumentParser(description=what)
    folder = os.path.dirname(program.path)
    parser.add_argument("--weights", metavar="DIR", default=folder, help="folder of weight files [this file's]")
    parser.add_argument("--dtype", choices=list(TORCH_DTYPES), default=program.dtype, help="[%(default)s]")
    value = "a leaf's value: a number (every element), a nested list or @file.npy"
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=value)
    parser.add_argument("--tokens", metavar="IDS", help="comma-separated; fed to tok, the step's number to pos")
    parser.add_argument("--get", metavar="NAMES", default=program.output, help="comma-separated [%(default)s]")
    parser.add_argument("--npy", metavar="DIR", help="write each --get variable over all steps as NAME.npy")
    parser.add_argument("--out", metavar="FILE", help="write the last step's output as raw little-endian values")
    return parser.parse_args(argv)


def run(program: Program, arguments: argparse.Namespace) -> None:
    given = dict(parsed_setting(program, text) for text in arguments.set)
    tokens = parsed_tokens(program, arguments.tokens, given)
    wanted = [name for name in arguments.get.split(",") if name]
    dtype = TORCH_DTYPES[arguments.dtype]
    inputs = input_values(program, arguments.weights, given, tokens)
    module = program.module()
    module.load_weights(arguments.weights, dtype, {n: v for n, v in given.items() if program.leaves[n].role in HELD})
    read = Reader(program, module, [*wanted, program.output])
    states = [
        held_as(name, program.leaves[name], given_values(name, program.leaves[name], given[name]), dtype)
        if name in given
        else initial(name, program.leaves[name], program.fills.get(name, {}), dtype)
        for name in program.of_role("state")
    ]
    steps = max(len(tokens), 1)
    arrays = Arrays(arguments.npy, steps) if arguments.npy else None
    for step in range(steps):
        values, states = read.step(step_inputs(program, module, inputs, states, tokens, step, dtype), states)
        if arrays is not None:
            arrays.add(step, {name: values[name] for name in wanted})
    if arrays is not None:
        arrays.close()
    if arguments.out:
        with open(arguments.out, "wb") as file:
            file.write(raw_bytes(values[program.output]))
    for name in wanted:
        print(json.dumps(summary(name, values[name])))


def parsed_setting(program: Program, text: str) -> tuple[str, Any]:
    """NAME=VALUE as the name and a number, a nested list or an array."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArtifactError(f"--set {text}: NAME=VALUE is due")
    if name not in program.leaves:
        raise ArtifactError(f"--set {name}: the program declares no such leaf{nearest(name, program.leaves)}")
    try:
        return name, np.load(value[1:]) if value.startswith("@") else json.loads(value)
    except ValueError as error:
        raise ArtifactError(f"--set {name}: a number, a nested list or @file.npy is due ({error})") from None


def parsed_tokens(program: Program, text: str | None, given: Iterable[str]) -> list[int]:
    """The token ids of `--tokens`, none without it; what they feed takes no other value."""
    if text is None:
        return []
    fed = fed_by_tokens(program)
    if "tok" not in fed:
        raise ArtifactError("tokens are fed to an input named tok, 1 by 1 of Int; the program has none")
    for name in fed:
        if name in given:
            raise ArtifactError(f"--tokens feeds {name} at every step; it takes no value")
    try:
        return [int(token) for token in text.split(",") if token.strip()]
    except ValueError:
        raise ArtifactError(f"--tokens {text}: whole numbers separated by commas are due") from None


def fed_by_tokens(program: Program) -> list[str]:
    """`tok`, and `pos`, which takes the step's number, where the program has them, 1 by 1 of Int."""
    leaves = ((name, program.leaves.get(name)) for name in ("tok", "pos"))
    return [name for name, leaf in leaves if leaf and leaf.role != "state" and leaf.shape == (1, 1) and leaf.whole]


def input_values(
    program: Program, directory: str, given: Mapping[str, Any], tokens: Sequence[int]
) -> dict[str, Tensor]:
    """Every input's value: `--set`, else a file of the folder; `tok` and `pos` are 0 where steps feed them. One error
    lists every weight and input that is missing."""
    found = find_values(directory, program.leaves)
    fed = [name for name in fed_by_tokens(program) if tokens or name == "pos"]
    missing = missing_values(program.leaves, program.fills, {**found, **given, **dict.fromkeys(fed)})
    if missing:
        raise ArtifactError(f"missing: {', '.join(missing)}; give --weights with a folder that holds them, or --set")
    values = {}
    for name in program.of_role("input"):
        leaf = program.leaves[name]
        if name in found and name not in given:
            exact = leaf._replace(kind="int64" if leaf.whole else "real")
            values[name] = read_stored(name, exact, found[name], torch.float64)
        else:
            values[name] = given_values(name, leaf, given.get(name, 0))
    return values


def step_inputs(
    program: Program,
    module: Any,
    inputs: Mapping[str, Tensor],
    states: Sequence[Tensor],
    tokens: Sequence[int],
    step: int,
    dtype: torch.dtype,
) -> list[Tensor]:
    """The inputs of a step as forward takes them, after every row number was found in the table that it indexes."""
    now = dict(inputs)
    for name in fed_by_tokens(program) if tokens else ():
        number = torch.tensor([[tokens[step] if name == "tok" else step]])
        if program.leaves[name].role == "input":
            now[name] = number
        else:
            value = held_as(name, program.leaves[name], number, dtype)
            setattr(module, program.python_name(name), torch.nn.Parameter(value, requires_grad=False))
    known = {**now, **dict(zip(program.of_role("state"), states))}
    for name, table, rows in program.checks:
        row = int(known[name] if name in known else getattr(module, program.python_name(name)))
        if not 0 <= row < rows:
            raise ArtifactError(f"{name} is {row}, outside the rows 0 to {rows - 1} of {table}")
    return [held_as(name, program.leaves[name], now[name], dtype) for name in program.of_role("input")]


class Reader:
    """Steps a module and reads variables out of it: what forward returns, what the module holds, and, by a variant of
    forward that returns it too, everything else. The file on disk stays as it is."""

    def __init__(self, program: Program, module: Any, wanted: Iterable[str]) -> None:
        self.program, self.module = program, module
        self.returned = [*program.outputs, *program.of_role("state")]
        known = [*self.returned, *program.leaves]
        self.extra = [name for name in dict.fromkeys(wanted) if name not in known]
        self.forward = forward_returning(program, self.extra) if self.extra else type(module).forward

    def step(self, inputs: Sequence[Tensor], states: Sequence[Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Every readable variable's value, in the program's shape, and the states for the next step."""
        with torch.no_grad():
            results = self.forward(self.module, *inputs, *states)
        values = dict(zip(self.program.of_role("input"), inputs))
        values.update(zip([*self.returned, *self.extra], results))
        for name in self.program.of_role(*HELD):
            value = getattr(self.module, self.program.python_name(name))
            values[name] = value.t() if self.program.leaves[name].kind == "linear" else value
        first = len(self.program.outputs)
        return values, list(results[first : len(self.returned)])


def forward_returning(program: Program, extra: Sequence[str]) -> Any:
    """LogosModule.forward as written in the program's own file, returning further variables at the end."""
    with open(program.path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    module = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "LogosModule")
    forward = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
    stored = (node for node in ast.walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    variables = {python: name for name, python in program.names.items()}
    known = [variables.get(node.id, node.id) for node in stored]
    for name in extra:
        if name not in known:
            raise ArtifactError(f"--get {name}: the program has no such variable{nearest(name, known)}")
    last = forward.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        raise ArtifactError(f"{program.path}: forward does not end with the tuple that it returns")
    last.value.elts += [ast.Name(program.python_name(name), ast.Load()) for name in extra]
    tree.body = [forward]
    scope = dict(program.module.forward.__globals__)
    exec(compile(ast.fix_missing_locations(tree), program.path, "exec"), scope)
    return scope["forward"]


def nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]}?" if found else ""


def numpy_values(values: Tensor) -> Any:
    """Int as int64; bfloat16, which numpy lacks, as float32."""
    values = values.detach()
    if not values.dtype.is_floating_point:
        return values.to(torch.int64).numpy()
    return values.to(torch.float32 if values.dtype == torch.bfloat16 else values.dtype).numpy()


class Arrays:
    """NAME.npy over all steps, written as they come: (steps, columns) for one row, else (steps, rows, columns).
    The files take their names when all steps are done."""

    def __init__(self, directory: str, steps: int) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory, self.steps = directory, steps
        self.files: dict[str, Any] = {}

    def add(self, step: int, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            array = numpy_values(value[0] if len(value) == 1 else value)
            if name not in self.files:
                path = os.path.join(self.directory, name + ".npy.part")
                shape = (self.steps, *array.shape)
                self.files[name] = np.lib.format.open_memmap(path, "w+", array.dtype, shape)
            self.files[name][step] = array

    def close(self) -> None:
        for name, file in self.files.items():
            file.flush()
            path = os.path.join(self.directory, name + ".npy")
            os.replace(path + ".part", path)


def raw_bytes(values: Tensor) -> bytes:
    """Row-major, little-endian, of the tensor's own dtype."""
    values = values.detach().contiguous()
    array = (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()
    return bytes(array.astype(array.dtype.newbyteorder("<")).tobytes())


def summary(name: str, values: Tensor) -> dict[str, Any]:
    flat = values.detach().reshape(-1)
    return {"output": name, "shape": list(values.shape), "first": flat[0].item(), "last": flat[-1].item()}
