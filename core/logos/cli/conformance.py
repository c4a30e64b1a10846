"""`logos conformance`: whether a target keeps its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount
from logos.cli.common import json_option, open_manager, target_options, verbose_option
from logos.cli.events import json_text
from logos.cli.main import BEYOND_BOUND, DONE
from logos.cli.progress import progress
from logos.source import printable

if TYPE_CHECKING:
    from logos.conformance import Check, OpReport, Report

Options = Mapping[str, str]

CHECKS = ("ops", "fusion", "names", "determinism", "refusals")
"""What `--check` takes: the ops' numbers, and the checks of `logos.conformance`."""


@click.command()
@click.argument("target")
@click.option("--op", "names", multiple=True, metavar="NAME", help="Try this op alone; repeatable.")
@click.option("--check", "checks", multiple=True, type=click.Choice(CHECKS),
              help="Check this alone; repeatable [all, and with --op ops].")  # fmt: skip
@click.option("--shapes", type=click.IntRange(min=1), default=20, show_default=True, metavar="N",
              help="How many shapes of each op to try, at least.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="What the shapes are drawn from.")
@target_options
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress, and no line for what holds.")
@verbose_option
def command(
    target: str,
    names: tuple[str, ...],
    checks: tuple[str, ...],
    shapes: int,
    seed: int,
    options: dict[str, str],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Try every op that TARGET spells in many shapes against the reference machine, and what else its contract says.

    The shapes come from the ops' declarations, awkward ones first; everything is filled with noise; the target runs
    what it emits in each of its dtypes. Besides, fusion may change no number, names stay names, the same program gives
    the same files, and what is not spelled is refused. Exits with 4 where a result lies beyond its bound or a check
    fails, and prints the smallest program found that shows it.
    """
    from logos.conformance import check_contract, conform

    due = checks or (("ops",) if names else CHECKS)
    manager = open_manager(verbose)
    report = None
    if "ops" in due:
        with progress(target, quiet) as update:
            report = conform(manager, target, names, shapes, seed, options, update)
    others = [name for name in CHECKS if name in due and name != "ops"]
    ops = report.ops if report is not None else ()
    found: list[Check] = []
    for name in others:
        with progress(f"{target}: {name}", quiet):
            found += check_contract(manager, target, options, (name,), ops, seed)
    if as_json:
        _print_json(target, report, found, options)
    else:
        _print(target, report, found, options, quiet)
    return DONE if all(one.holds for one in (report, *found) if one is not None) else BEYOND_BOUND


def _print(target: str, report: Report | None, checks: Sequence[Check], options: Options, quiet: bool) -> None:
    from logos.conformance.words import failure_lines

    ops = report.ops if report is not None else ()
    wide = max(len(name) for name in (*(one.op.name for one in ops), *(check.name for check in checks)))
    for one in ops:
        if quiet and one.holds:
            continue
        kept = "ok" if one.comparisons else "nothing compared"
        mark = kept if one.holds else f"FAILED in {amount(one.failed, 'shape')}"
        cells = [amount(len(one.outcomes), "shape"), amount(one.comparisons, "comparison"), *_worst(one), mark]
        click.echo(f"{one.op.name:<{wide}}  {'  '.join(cells)}")
        for code, reason in one.reasons.items():
            click.echo(f"    refused in {amount(one.refused[code], 'shape')}: {printable(reason)} [{code}]")
    for check in checks:
        _print_check(check, wide, quiet)
    for one in ops:
        if one.smallest is not None:
            click.echo("\n" + "\n".join(failure_lines(target, one.smallest, options)))
    click.echo(f"{target}: {_summary(report, checks)}")


def _print_check(check: Check, wide: int, quiet: bool) -> None:
    if quiet and check.holds:
        return
    mark = "ok" if check.holds else f"FAILED: {amount(len(check.faults), 'fault')}"
    click.echo(f"{check.name:<{wide}}  {check.tried}  {mark}")
    for line in (*check.faults, *check.notes):
        click.echo(f"    {printable(line)}")


def _worst(one: OpReport) -> Iterator[str]:
    for dtype, verdict in one.worst.items():
        exact = verdict.bound == 0 and verdict.holds
        yield f"{dtype} exact" if exact else f"{dtype} {verdict.difference:.2g} of {verdict.bound:.2g}"


def _summary(report: Report | None, checks: Sequence[Check]) -> str:
    words, failed, ending = [], [], ""
    if report is not None:
        shapes = sum(len(one.outcomes) for one in report.ops)
        refused = sum(sum(one.refused.values()) for one in report.ops)
        comparisons = sum(one.comparisons for one in report.ops)
        words = [amount(len(report.ops), "op"), amount(shapes, "shape"), amount(comparisons, "comparison")]
        words += [f"{refused} refused"] if refused else []
        never = [one.op.name for one in report.ops if one.holds and not one.comparisons]
        words += [f"nothing compared of {' and '.join(never)}"] if never else []
        broken = sum(one.failed for one in report.ops)
        failed += [f"{amount(broken, 'shape')} FAILED"] if broken else []
        ending = f"; not spelled: {', '.join(report.unspelled)}" if report.unspelled else ""
    words += [amount(len(checks), "check")] if checks else []
    faulty = sum(not check.holds for check in checks)
    failed += [f"{amount(faulty, 'check')} FAILED"] if faulty else []
    return ", ".join([*words, *(failed or ["all hold"])]) + ending


def _print_json(target: str, report: Report | None, checks: Sequence[Check], options: Options) -> None:
    for one in report.ops if report is not None else ():
        click.echo(json_text(_op_record(target, one, options)))
    for check in checks:
        record = {"check": check.name, "tried": check.tried, "faults": list(check.faults), "notes": list(check.notes)}
        click.echo(json_text({**record, "holds": check.holds}))
    holds = all(one.holds for one in (report, *checks) if one is not None)
    ops, unspelled = (len(report.ops), list(report.unspelled)) if report is not None else (0, [])
    click.echo(json_text({"target": target, "ops": ops, "checks": len(checks), "holds": holds, "unspelled": unspelled}))


def _op_record(target: str, one: OpReport, options: Options) -> dict[str, object]:
    from logos.conformance.words import failure_command, fault_of

    worst = {dtype: {"difference": verdict.difference, "bound": verdict.bound}
             for dtype, verdict in one.worst.items()}  # fmt: skip
    refused = [{"code": code, "shapes": count, "reason": one.reasons[code]} for code, count in one.refused.items()]
    record = {"op": one.op.name, "shapes": len(one.outcomes), "comparisons": one.comparisons, "worst": worst}
    record |= {"refused": refused, "failed": one.failed, "holds": one.holds}
    if one.smallest is not None:
        command = failure_command(target, one.smallest, options)
        record |= {"fault": fault_of(one.smallest), "program": one.smallest.case.text, "command": command}
    return record
