"""Prompts of an emitted module: chunks of tokens by LogosPrefill, in one pass over the weights each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logos_sambaflow.emitted.loader import HELD, ArtifactError, held_as
from logos_sambaflow.emitted.variant import forward_variant


class Prefill(NamedTuple):
    """LogosPrefill with what is known of it: how many steps it makes at once, the inputs that have a row for each of
    them, the checks within its forward (as Program.checked), and what it has of the last of the steps alone."""

    module: Any
    steps: int
    fed: Sequence[str]
    checked: Sequence[Sequence[Any]]
    last: Sequence[str]


def rows_inside(row: Tensor, name: str, table: str, rows: int) -> None:
    if not bool(((row >= 0) & (row < rows)).all()):
        raise ArtifactError(f"a row of {name} lies outside the rows 0 to {rows - 1} of {table}")


def prefill_argument(parser: argparse.ArgumentParser) -> None:
    what = "take the tokens in chunks by LogosPrefill, and those that fill none one by one"
    parser.add_argument("--prefill", action="store_true", help=what)


def recorded_chunk(program: Any, steps: int) -> None:
    """ArtifactError where a recording of so many steps holds no whole chunk."""
    due = program.prefill.steps
    if steps < due:
        what = f"the recording has {steps} steps, fewer than LogosPrefill makes at once"
        raise ArtifactError(f"{what}; build with -D selftest={due} or more")


def prefill_inputs(
    program: Any, inputs: Mapping[str, Tensor], tokens: Sequence[int], first: int, dtype: torch.dtype
) -> list[Tensor]:
    """The inputs of a whole chunk that begins at step `first`, as LogosPrefill.forward takes them. ArtifactError: a row
    number outside its table."""
    steps, fed = program.prefill.steps, {}
    for name in program.prefill.fed:
        numbers = tokens[first : first + steps] if name == "tok" else range(first, first + steps)
        fed[name] = torch.tensor(list(numbers)).reshape(steps, 1)
    for name, table, rows in program.checks:
        if name in fed:
            rows_inside(fed[name], name, table, rows)
    now = {**inputs, **fed}
    return [held_as(name, program.leaves[name], now[name], dtype) for name in program.of_role("input")]


def in_chunks(
    program: Any,
    read: Any,
    module: Any,
    inputs: Mapping[str, Tensor],
    tokens: Sequence[int],
    dtype: torch.dtype,
    arguments: argparse.Namespace,
    every: Iterable[str],
) -> Any:
    """What steps the program's tokens: a Reader, and with `--prefill` a Prompt around it; `every` are the values that
    are wanted of every step."""
    if not arguments.prefill:
        return read
    if not tokens:
        raise ArtifactError("--prefill takes chunks of tokens, and none are given")
    checked = () if arguments.no_checks else program.prefill.checked
    held, scope = program.of_role(*HELD), {**program.module.forward.__globals__, "_rows_inside": rows_inside}
    forward = forward_variant(program.path, scope, program.names, held, checked, read.extra, 1)
    whole = with_weights_of(module, program, dtype)
    prompt = Prompt(read, lambda *given: forward(whole, *given), inputs, tokens, dtype, every)
    prompt.checks = not arguments.no_checks
    return prompt


class Prompt:
    """Steps a program's tokens in their order, as a Reader does: whole chunks of them at once, by LogosPrefill's
    `forward`, the rest by that Reader. What LogosPrefill has of a chunk's last step alone, such as a state, single
    steps give for those before, where it is one of `every`.

    With `checks`, where a chunk fails one or gives what is not finite, its steps are made singly, so that an error is
    said at its own step; ArtifactError where these find nothing.
    """

    checks = True

    def __init__(
        self,
        read: Any,
        forward: Any,
        inputs: Mapping[str, Tensor],
        tokens: Sequence[int],
        dtype: torch.dtype,
        every: Iterable[str],
    ) -> None:
        self.program, self.prefill = read.program, read.program.prefill
        self.read, self.forward, self.inputs, self.tokens, self.dtype = read, forward, inputs, tokens, dtype
        # What a state was before a step, LogosPrefill has of the first step of a chunk.
        states = read.program.of_role("state")
        self.before = [name for name in read.extra if "@" in name and name.partition("@")[0] in states]
        self.lacking = [name for name in (*every, *self.before) if name in self.prefill.last]
        self.at, self.whole = 0, len(tokens) // self.prefill.steps * self.prefill.steps
        self.made: Any = iter(())
        self.doubt = ""

    def step(self, inputs: Sequence[Tensor], states: Sequence[Tensor]) -> tuple[dict[str, Tensor], Sequence[Tensor]]:
        """The next step on its inputs, and on the states that the one before left."""
        if self.at < self.whole and self.at % self.prefill.steps == 0:
            self.made = iter(self.chunk(self.at, states))
        self.at += 1
        for values, left in self.made:
            return values, left
        values, left = self.read.step(inputs, states)
        if not all_finite(values[name] for name in self.read.returned):
            self.doubt = ""
        if self.doubt and self.at % self.prefill.steps == 0:
            steps = f"steps {self.at - self.prefill.steps} to {self.at - 1}"
            raise ArtifactError(f"LogosPrefill errs in {steps}, which single steps make: {self.doubt}")
        return values, left

    def chunk(self, first: int, states: Sequence[Tensor]) -> Iterable[tuple[dict[str, Tensor], Sequence[Tensor]]]:
        """Every step of the chunk that begins at step `first`; none where they are to be made singly."""
        self.doubt = ""
        try:
            rows = prefill_inputs(self.program, self.inputs, self.tokens, first, self.dtype)
            with torch.no_grad():
                made = self.forward(*rows, *states)
        except ArtifactError as error:
            self.doubt = str(error)
            return
        if self.checks and not all_finite(made):
            self.doubt = "it gives what is not finite"
            return
        outputs, returned = len(self.program.outputs), len(self.read.returned)
        results = dict(zip([*self.read.returned, *self.read.extra], made))
        given = {**held_values(self.program, self.read.module), **dict(zip(self.program.of_role("input"), rows))}
        before = states
        for step in range(self.prefill.steps):
            whole = {name: value for name, value in results.items() if name in self.prefill.last}
            stepwise = {**{name: given[name] for name in self.prefill.fed}, **results}
            values = {name: value[step : step + 1] for name, value in stepwise.items() if name not in whole}
            values = {**given, **values, **whole}
            lacking = self.lacking if step + 1 < self.prefill.steps else self.before
            if lacking:
                single, before = self.read.step([values[name] for name in self.program.of_role("input")], before)
                values.update((name, single[name]) for name in lacking)
            yield values, made[outputs:returned]


def all_finite(values: Iterable[Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in values)


def held_values(program: Any, module: Any) -> dict[str, Tensor]:
    """What a module holds, in the program's shapes."""
    values = {name: getattr(module, program.python_name(name)) for name in program.of_role(*HELD)}
    return {name: value.t() if program.leaves[name].kind == "linear" else value for name, value in values.items()}


def with_weights_of(module: Any, program: Any, dtype: torch.dtype) -> Any:
    """A LogosPrefill with the very parameters of a module, and its own of that dtype."""
    other = program.prefill.module()
    for name, value in module.named_parameters():
        setattr(other, name, value)
    return other.to(dtype)
