"""What conformance says of a failure: the fault, the program that shows it, the command that shows it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from logos.conformance.trials import Outcome
from logos.source import printable


def failure_lines(target: str, outcome: Outcome, options: Mapping[str, object]) -> Iterator[str]:
    """The program, what it shows, and the command that shows it again."""
    yield f"{outcome.case.op.name} fails: {printable(fault_of(outcome))}"
    yield from (f"    {line}" for line in outcome.case.text.splitlines())
    yield f"  next: save these lines as case.lg and run `{failure_command(target, outcome, options)}`"


def fault_of(outcome: Outcome) -> str:
    """What is wrong with an outcome that does not hold."""
    if outcome.error is not None:
        return f"the target broke: {outcome.error}"
    dtype, verdict = outcome.failures[0]
    return f"{verdict.variable} in {dtype} has the difference {verdict.difference:.3g}, beyond {verdict.bound:.3g}"


def failure_command(target: str, outcome: Outcome, options: Mapping[str, object]) -> str:
    """`logos verify` of the outcome's program."""
    words = ["logos", "verify", "case.lg", "--target", target]
    if outcome.failures:
        words += ["--dtype", outcome.failures[0][0]]
    words += [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    words += [word for name in outcome.case.weights for word in ("--tensor", f"{name}={name}")]
    return shlex.join(words)
