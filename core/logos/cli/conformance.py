"""`logos conformance`: every op that a target spells, in many shapes, against the reference machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount
from logos.cli.common import json_option, open_manager, target_options, verbose_option
from logos.cli.events import json_text
from logos.cli.main import BEYOND_BOUND, DONE
from logos.cli.progress import progress
from logos.source import printable

if TYPE_CHECKING:
    from logos.conformance import OpReport, Outcome, Report

Options = Mapping[str, str]


@click.command()
@click.argument("target")
@click.option("--op", "names", multiple=True, metavar="NAME", help="Try this op alone; repeatable.")
@click.option("--shapes", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
              help="How many shapes of each op to try, at least.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="What the shapes are drawn from.")
@target_options
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, and no line for an op that holds.")
@verbose_option
def command(
    target: str,
    names: tuple[str, ...],
    shapes: int,
    seed: int,
    options: dict[str, str],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Try every op that TARGET spells in many shapes against the reference machine.

    The shapes come from the ops' declarations, awkward ones first; everything is filled with noise; the target runs
    what it emits in each of its dtypes. Exits with 4 where a result lies beyond its bound or the target breaks, and
    prints the smallest program found that does it.
    """
    from logos.conformance import conform

    manager = open_manager(verbose)
    with progress(target, quiet) as update:
        report = conform(manager, target, names, shapes, seed, options, update)
    if as_json:
        _print_json(report, options)
    else:
        _print(report, options, quiet)
    return DONE if report.holds else BEYOND_BOUND


def _print(report: Report, options: Options, quiet: bool) -> None:
    wide = max(len(one.op.name) for one in report.ops)
    for one in report.ops:
        if quiet and one.holds:
            continue
        mark = "ok" if one.holds else f"FAILED in {amount(one.failed, 'shape')}"
        cells = [amount(len(one.outcomes), "shape"), amount(one.comparisons, "comparison"), *_worst(one), mark]
        click.echo(f"{one.op.name:<{wide}}  {'  '.join(cells)}")
        for code, reason in one.reasons.items():
            click.echo(f"    refused in {amount(one.refused[code], 'shape')}: {printable(reason)} [{code}]")
    for one in report.ops:
        if one.smallest is not None:
            click.echo("\n" + "\n".join(_failure(report.target, one.smallest, options)))
    left_out = f"; not spelled: {', '.join(report.unspelled)}" if report.unspelled else ""
    click.echo(f"{report.target}: {_summary(report)}{left_out}")


def _worst(one: OpReport) -> Iterator[str]:
    for dtype, verdict in one.worst.items():
        exact = verdict.bound == 0 and verdict.holds
        yield f"{dtype} exact" if exact else f"{dtype} {verdict.difference:.2g} of {verdict.bound:.2g}"


def _summary(report: Report) -> str:
    shapes = sum(len(one.outcomes) for one in report.ops)
    refused = sum(sum(one.refused.values()) for one in report.ops)
    failed = sum(one.failed for one in report.ops)
    words = [amount(len(report.ops), "op"), amount(shapes, "shape")]
    words += [amount(sum(one.comparisons for one in report.ops), "comparison")]
    words += [f"{refused} refused"] if refused else []
    return ", ".join([*words, f"{amount(failed, 'shape')} FAILED" if failed else "all hold"])


def _failure(target: str, outcome: Outcome, options: Options) -> Iterator[str]:
    """The program, what it shows, and the command that shows it again."""
    yield f"{outcome.case.op.name} fails: {printable(_fault(outcome))}"
    yield from (f"    {line}" for line in outcome.case.text.splitlines())
    yield f"  next: save these lines as case.lg and run `{_command(target, outcome, options)}`"


def _fault(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"the target broke: {outcome.error}"
    dtype, verdict = outcome.failures[0]
    return f"{verdict.variable} in {dtype} has the difference {verdict.difference:.3g}, beyond {verdict.bound:.3g}"


def _command(target: str, outcome: Outcome, options: Options) -> str:
    words = ["logos", "verify", "case.lg", "--target", target]
    if outcome.failures:
        words += ["--dtype", outcome.failures[0][0]]
    words += [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    words += [word for name in outcome.case.weights for word in ("--tensor", f"{name}={name}")]
    return shlex.join(words)


def _print_json(report: Report, options: Options) -> None:
    for one in report.ops:
        worst = {dtype: {"difference": verdict.difference, "bound": verdict.bound}
                 for dtype, verdict in one.worst.items()}  # fmt: skip
        refused = [{"code": code, "shapes": count, "reason": one.reasons[code]} for code, count in one.refused.items()]
        record = {"op": one.op.name, "shapes": len(one.outcomes), "comparisons": one.comparisons, "worst": worst}
        record |= {"refused": refused, "failed": one.failed, "holds": one.holds}
        if one.smallest is not None:
            command = _command(report.target, one.smallest, options)
            record |= {"fault": _fault(one.smallest), "program": one.smallest.case.text, "command": command}
        click.echo(json_text(record))
    summary = {"target": report.target, "ops": len(report.ops), "holds": report.holds}
    click.echo(json_text({**summary, "unspelled": list(report.unspelled)}))
