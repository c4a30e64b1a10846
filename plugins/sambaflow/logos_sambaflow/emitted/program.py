"""An emitted module as a program: arguments, the loop over steps, and what is read out of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logos_sambaflow.emitted.loader import (
    HELD,
    TORCH_DTYPES,
    ArtifactError,
    Leaf,
    Stored,
    find_values,
    given_values,
    held_as,
    initial,
    load_parameters,
    missing_values,
    npy_array,
    read_stored,
    torch_dtype,
)
from logos_sambaflow.emitted.prefill import in_chunks, prefill_argument
from logos_sambaflow.emitted.variant import forward_variant, nearest, numpy_values, row_inside, stage_names


class Program(NamedTuple):
    """An emitted module with what is known of it: its leaves, the Python names that differ from the variables', the
    fills, (leaf, table, rows) of every row number to check before a step, the checks within a step (see
    forward_variant), the output, what forward returns before the states, its dtype, and the file that holds it."""

    module: Any
    leaves: Mapping[str, Leaf]
    names: Mapping[str, str]
    fills: Mapping[str, Mapping[int, float]]
    checks: Sequence[tuple[str, str, int]]
    checked: Sequence[Sequence[Any]]
    output: str
    outputs: Sequence[str]
    dtype: str
    path: str
    prefill: Any = None  # with prefill

    def of_role(self, *roles: str) -> list[str]:
        return [name for name, leaf in self.leaves.items() if leaf.role in roles]

    def python_name(self, name: str) -> str:
        return self.names.get(name, name)


def main(program: Program, argv: Sequence[str], tests: Callable[..., int] | None = None) -> int:
    """Runs the module as a program; 0, 1 with one message on standard error, or 130 where it was interrupted. `tests`
    carries out `--selftest` and gives the exit code."""
    arguments = parsed_arguments(program, argv, tests is not None)
    code = 0
    try:
        if tests is not None and arguments.selftest:
            code = tests(program, arguments)
        else:
            run(program, arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        leave_output()  # the reader has gone, as in `… | head`
        return 0
    except (ArtifactError, OSError, MemoryError, RuntimeError) as error:
        # torch says in a RuntimeError that no memory is left; any other is a fault of the module.
        if isinstance(error, RuntimeError) and "alloc" not in str(error):
            raise
        memory = isinstance(error, (MemoryError, RuntimeError))
        print(f"this machine's memory does not suffice: {error}" if memory else error, file=sys.stderr)
        leave_output()
        return 1
    return code


def leave_output() -> None:
    """Python's own exit would write what is left in the buffer, and fail again where the output takes no more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parsed_arguments(program: Program, argv: Sequence[str], tested: bool = False) -> argparse.Namespace:
    what = "Runs one step of the program, or one for each token, and prints variables of the last step."
    parser = argparse.ArgumentParser(description=what)
    folder = os.path.dirname(program.path)
    parser.add_argument("--weights", metavar="DIR", default=folder, help="folder of weight files [this file's]")
    parser.add_argument("--dtype", choices=list(TORCH_DTYPES), default=program.dtype, help="[%(default)s]")
    value = "a leaf's value: a number (every element), a nested list or @file.npy"
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=value)
    parser.add_argument("--tokens", metavar="IDS", help="comma-separated; fed to tok, the step's number to pos")
    names = f"comma-separated, repeatable; *: all that forward makes [{program.output}]"
    parser.add_argument("--get", metavar="NAMES", action="append", default=[], help=names)
    parser.add_argument("--no-checks", action="store_true", help="go on where a check within a step would end it")
    parser.add_argument("--npy", metavar="DIR", help="write each --get variable over all steps as NAME.npy")
    parser.add_argument("--out", metavar="FILE", help="write the last step's output as raw little-endian values")
    prefill_argument(parser)  # with prefill
    if tested:
        what = "run the recorded steps instead, and hold every variable to its bound; 4 where one lies beyond"
        parser.add_argument("--selftest", action="store_true", help=what)
    return parser.parse_args(argv)


def run(program: Program, arguments: argparse.Namespace) -> None:
    given = given_settings(program, arguments.set)
    tokens = parsed_tokens(program, arguments.tokens, given)
    wanted = wanted_names(program, ",".join(arguments.get))
    dtype = torch_dtype(arguments.dtype)
    found = found_values(program, arguments.weights, given, tokens)
    inputs = input_values(program, found, given, tokens)
    module = program.module()
    held = {name: value for name, value in given.items() if program.leaves[name].role in HELD}
    held.update((name, 0) for name in fed_by_tokens(program) if tokens and program.leaves[name].role in HELD)
    load_parameters(module, program.leaves, program.names, program.fills, arguments.weights, dtype, held, found)
    read = Reader(program, module, [*wanted, program.output], not arguments.no_checks)
    every = wanted if arguments.npy else ()  # with prefill
    read = in_chunks(program, read, module, inputs, tokens, dtype, arguments, every)  # with prefill
    states = first_states(program, given, dtype)
    steps = max(len(tokens), 1)
    arrays = Arrays(arguments.npy, steps) if arguments.npy else None
    try:
        for step in range(steps):
            values, states = read.step(step_inputs(program, module, inputs, states, tokens, step, dtype), states)
            if arrays is not None:
                arrays.add(step, {name: values[name] for name in wanted})
        if arrays is not None:
            arrays.close()
    finally:
        if arrays is not None:
            arrays.discard()
    if arguments.out:
        write_whole(arguments.out, raw_bytes(values[program.output]))
    for name in wanted:
        print(json.dumps(summary(name, values[name])))


def wanted_names(program: Program, text: str) -> list[str]:
    """`a, b` as names, each once, `*` as all that forward makes; the output where it names none."""
    names = listed_names(text)
    if "*" in names:
        at = names.index("*")
        names[at : at + 1] = stage_names(program.path, program.names)
    return list(dict.fromkeys(names)) or [program.output]


def listed_names(text: str) -> list[str]:
    """`a, b` as names, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def given_settings(program: Program, texts: Iterable[str]) -> dict[str, Any]:
    """The values of `--set`, by name; the last of a name wins."""
    return dict(parsed_setting(program, text) for text in texts)


def parsed_setting(program: Program, text: str) -> tuple[str, Any]:
    """NAME=VALUE as the name and a number, a nested list or an array. A whole number for a Real is a Real."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise ArtifactError(f"--set {text}: NAME=VALUE is due")
    if name not in program.leaves:
        raise ArtifactError(f"--set {name}: the program declares no such leaf{nearest(name, program.leaves)}")
    if value.startswith("@"):
        return name, npy_array(value[1:])
    try:
        if program.leaves[name].whole:
            return name, json.loads(value)
        return name, json.loads(value, parse_int=finite, parse_float=finite)
    except OverflowError:
        raise ArtifactError(f"a value of {name} is too large for float64") from None
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"--set {name}: a number, a nested list or @file.npy is due ({error})") from None


def finite(digits: str) -> float:
    """Digits as a number; OverflowError where float64 has none so large: `Infinity` is asked for by its name."""
    number = float(digits)
    if np.isinf(number):
        raise OverflowError
    return number


def parsed_tokens(program: Program, text: str | None, given: Iterable[str]) -> list[int]:
    """The token ids of `--tokens`, none without it; what they feed takes no other value."""
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    # int() takes signs, underscores and every script's digits, too.
    if not all(part and len(part) < 19 and all(digit in "0123456789" for digit in part) for part in parts):
        raise ArtifactError(f"--tokens {text}: whole numbers separated by commas are due")
    fed = fed_by_tokens(program)
    if "tok" not in fed:
        raise ArtifactError("tokens are fed to an input named tok, 1 by 1 of Int; the program has none")
    for name in fed:
        if name in given:
            raise ArtifactError(f"--tokens feeds {name} at every step; it takes no value")
    return [int(part) for part in parts]


def fed_by_tokens(program: Program) -> list[str]:
    """`tok`, and `pos`, which takes the step's number, where the program has them, 1 by 1 of Int."""
    leaves = ((name, program.leaves.get(name)) for name in ("tok", "pos"))
    return [name for name, leaf in leaves if leaf and leaf.role != "state" and leaf.shape == (1, 1) and leaf.whole]


def found_values(
    program: Program, directory: str, given: Mapping[str, Any], tokens: Sequence[int]
) -> dict[str, Stored]:
    """Where a folder holds the values that `--set` and `--tokens` do not give. One error lists every weight and input
    that is missing."""
    present = {**given, **dict.fromkeys(fed_by_tokens(program) if tokens else ())}
    leaves = {name: leaf for name, leaf in program.leaves.items() if leaf.role != "state" and name not in present}
    found = find_values(directory, leaves)
    missing = missing_values(leaves, program.fills, found)
    if missing:
        raise ArtifactError(f"missing: {', '.join(missing)}; give --weights with a folder that holds them, or --set")
    return found


def input_values(
    program: Program, found: Mapping[str, Stored], given: Mapping[str, Any], tokens: Sequence[int]
) -> dict[str, Tensor]:
    """Every input's value: `--set`, else a file of the folder; zero where steps feed it."""
    values = {}
    for name in program.of_role("input"):
        leaf = program.leaves[name]
        if name in found:
            exact = leaf._replace(kind="int64" if leaf.whole else "real")
            values[name] = read_stored(name, exact, found[name], torch.float64)
        else:
            values[name] = given_values(name, leaf, given.get(name, 0))
    return values


def first_states(program: Program, given: Mapping[str, Any], dtype: torch.dtype) -> list[Tensor]:
    """The states before the first step: `--set`, else zero but for the program's fills."""
    states = []
    for name in program.of_role("state"):
        leaf = program.leaves[name]
        if name in given:
            states.append(held_as(name, leaf, given_values(name, leaf, given[name]), dtype))
        else:
            states.append(initial(name, leaf, program.fills.get(name, {}), dtype))
    return states


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
    fed = {
        name: torch.tensor([[tokens[step] if name == "tok" else step]])
        for name in (fed_by_tokens(program) if tokens else ())
    }
    now = {**inputs, **fed}
    known = {**now, **dict(zip(program.of_role("state"), states))}
    for name, table, rows in program.checks:
        # In 64 bits: what forward takes is narrowed to 32.
        row_inside(known[name] if name in known else getattr(module, program.python_name(name)), name, table, rows)
    for name in fed:
        if program.leaves[name].role != "input":
            value = held_as(name, program.leaves[name], fed[name], dtype)
            setattr(module, program.python_name(name), torch.nn.Parameter(value, requires_grad=False))
    return [held_as(name, program.leaves[name], now[name], dtype) for name in program.of_role("input")]


class Reader:
    """Steps a module and reads variables out of it: what forward returns, what the module holds, and, by a variant of
    forward that returns it too and, with `checks`, checks as it goes, everything else. The file on disk stays as it
    is."""

    def __init__(self, program: Program, module: Any, wanted: Iterable[str], checks: bool = True) -> None:
        self.program, self.module = program, module
        self.returned = [*program.outputs, *program.of_role("state")]
        known = [*self.returned, *program.leaves]
        self.extra = [name for name in dict.fromkeys(wanted) if name not in known]
        self.forward = type(module).forward
        checked = program.checked if checks else ()
        if self.extra or checked:
            held, scope = program.of_role(*HELD), program.module.forward.__globals__
            self.forward = forward_variant(program.path, scope, program.names, held, checked, self.extra)

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

    def discard(self) -> None:
        """Leaves no half file behind."""
        for name in self.files:
            path = os.path.join(self.directory, name + ".npy.part")
            if os.path.exists(path):
                os.remove(path)


def write_whole(path: str, data: bytes) -> None:
    """The file has its name once all of it is there. What is no file, as /dev/stdout, is written to as it is."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    try:
        with open(path + ".part", "wb") as file:
            file.write(data)
        os.replace(path + ".part", path)
    finally:
        if os.path.exists(path + ".part"):
            os.remove(path + ".part")


def raw_bytes(values: Tensor) -> bytes:
    """Row-major, little-endian, of the tensor's own dtype."""
    values = values.detach().contiguous()
    array = (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()
    return bytes(array.astype(array.dtype.newbyteorder("<")).tobytes())


def summary(name: str, values: Tensor) -> dict[str, Any]:
    flat = values.detach().reshape(-1)
    return {"output": name, "shape": list(values.shape), "first": json_number(flat[0]), "last": json_number(flat[-1])}


def json_number(value: Tensor) -> Any:
    """JSON has no numbers for what is not finite: the words inf, -inf and nan."""
    number = value.item()
    return number if np.isfinite(number) else str(number)
