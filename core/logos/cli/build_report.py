"""What `logos build` tells: the plan, steps as they end, failures, artifacts; as text or as events."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount, size, waiting_for
from logos.cli.events import event_line
from logos.cli.progress import progress
from logos.source import printable

if TYPE_CHECKING:
    from logos.ninja_run import Failure, Progress
    from logos.plan import Plan, Unit
    from logos.steps import Step


@dataclass(frozen=True)
class BuildReport:
    """How one build speaks: as events (`as_json`), quietly or fully."""

    as_json: bool
    quiet: bool
    verbose: bool

    def reading(self, name: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """Shows the reading of a file that weights come from."""
        return progress(f"reading {name}", self.quiet, in_bytes=True)

    def waiting(self, plan: Plan) -> None:
        """Another build holds the out folder."""
        if self.as_json:
            click.echo(event_line("waiting", folder=os.fspath(plan.out)))
        elif not self.quiet:
            click.echo(waiting_for(plan.out), err=True)

    def since(self, revision: str, reasons: Mapping[str, str], whole: int) -> None:
        """Which of the artifacts are looked at, since their inputs changed."""
        if self.quiet or self.as_json:
            return
        click.echo(f"{len(reasons)} of {amount(whole, 'artifact')} changed since {printable(revision)}", err=True)
        for title, reason in reasons.items() if self.verbose else ():
            click.echo(f"  {title}: {printable(reason)}", err=True)

    def nothing(self) -> str:
        """What a build prints of which no input changed."""
        if self.as_json:
            return event_line("built", artifacts=0, steps=0) + "\n"
        return "" if self.quiet else "nothing to do\n"

    def fetched(self, title: str) -> None:
        """The cache had what a step makes."""
        if self.as_json:
            click.echo(event_line("fetched", step=title))
        elif self.verbose:
            click.echo(f"[cache] {title}", err=True)

    def warning(self, text: str) -> None:
        """Something is wrong that does not end the build, and that somebody should look at."""
        if self.as_json:
            click.echo(event_line("warning", what=printable(text)))
        else:
            click.echo(f"warning: {printable(text)}", err=True)

    def step(self, step: Progress) -> None:
        """A step has ended."""
        if self.as_json:
            click.echo(event_line("step", step=step.title, done=step.done, total=step.total))
        if self.verbose or (sys.stderr.isatty() and not self.quiet):
            # A step's own progress may stand on the terminal's line.
            clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
            click.echo(f"{clear}[{step.done}/{step.total}] {step.title}", err=True)

    def failed(self, failure: Failure, refused: bool) -> None:
        """A refusal as the step said it; a tool's own words, then its exit code and the command to run by hand."""
        if self.as_json:
            words = {"step": failure.title, "code": failure.code, "output": failure.output}
            click.echo(event_line("refused" if refused else "failed", **words, command=failure.command))
            return
        if failure.output:
            click.echo(failure.output, err=True)
        if not refused:
            click.echo(f"{failure.title} failed with exit code {failure.code}{_reason(failure)}", err=True)
            if failure.command:
                click.echo(f"  by hand: {failure.command}", err=True)

    def planned(self, plan: Plan, due: Sequence[Step]) -> None:
        """What a build would do now."""
        for unit in plan.units:
            steps = [step for step in unit.steps if step in due]
            if self.as_json:
                files = [{"path": file} for file in unit.files]
                click.echo(_artifact("planned", unit, steps=[step.title for step in steps], files=files))
                continue
            click.echo(f"{unit.order.title} → {unit.folder}")
            if steps:
                click.echo(f"  {_contents(unit)}")
            for tool in unit.tools if steps else ():
                click.echo(f"  with {tool}")
            for step in steps:
                click.echo(f"  {step.title}")
                for path in step.outputs:
                    click.echo(f"    → {os.path.relpath(path)}")
        if not self.as_json:
            click.echo(f"{_sum(plan, due)}; nothing was written" if due else _idle(plan))

    def idle(self, plan: Plan) -> str:
        """What a build of the plan prints where nothing is to do."""
        return self.done(plan, ())

    def done(self, plan: Plan, ran: Sequence[str], fetched: Sequence[str] = ()) -> str:
        """What a sound build prints, by the titles of the steps that ran and of those that the cache had."""
        if self.as_json:
            lines = [_artifact("artifact", unit, files=_files(unit)) for unit in plan.units]
            counts = {"fetched": len(fetched)} if fetched else {}
            lines.append(event_line("built", artifacts=len(plan.units), steps=len(ran), **counts))
        elif self.quiet:
            lines = []
        else:
            lines = [line for unit in plan.units for line in _unit_lines(unit, bool(ran or fetched))]
            more = f", {len(fetched):,} more from the cache" if fetched else ""
            lines.append(f"built {_sum(plan, ran)}{more}" if ran or fetched else _idle(plan))
            lines.append(f"next: {_verify(plan.units[0])}")
        return "".join(f"{line}\n" for line in lines)


def _reason(failure: Failure) -> str:
    # A compiler's driver ends with a code of its own when the system ended one of its programs.
    ended = failure.code == 137 or "died due to signal 9" in failure.output
    return ": the system ended it, as it does when memory runs out" if ended else ""


def _sum(plan: Plan, steps: Sequence[object]) -> str:
    return f"{amount(len(plan.units), 'artifact')} in {amount(len(steps), 'step')}"


def _idle(plan: Plan) -> str:
    return f"nothing to do: {amount(len(plan.units), 'artifact')} up to date"


def _unit_lines(unit: Unit, whole: bool) -> list[str]:
    lines = [f"{unit.order.title} → {unit.folder}"]
    if whole:
        lines.append(f"  {_contents(unit)}")
        lines += [f"  with {tool}" for tool in unit.tools]
        lines += [f"  {file}: {size((unit.folder / file).stat().st_size)}" for file in unit.files]
    return lines


def _files(unit: Unit) -> list[dict[str, object]]:
    return [{"path": file, "bytes": (unit.folder / file).stat().st_size} for file in unit.files]


def _artifact(event: str, unit: Unit, **more: object) -> str:
    return event_line(
        event,
        name=unit.order.name,
        target=unit.order.target,
        folder=os.fspath(unit.folder),
        operations=unit.operations,
        leaves=dict(unit.leaves),
        tools=list(unit.tools),
        **more,
    )


def _contents(unit: Unit) -> str:
    leaves = ", ".join(amount(count, role) for role, count in unit.leaves.items())
    return f"{amount(unit.operations, 'operation')}; {leaves}"


def _verify(unit: Unit) -> str:
    """The command that compares the artifact with the reference machine."""
    from logos.steps import choices

    request = unit.order.request
    words = ["logos", "verify", os.fspath(request.program), "--target", unit.order.target]
    for flag, value in (
        ("--checkpoint", request.checkpoint),
        ("--weights", request.weights),
        ("--family", request.family),
    ):
        words += [flag, os.fspath(value)] if value is not None else []
    words += choices(request)
    return " ".join(map(shlex.quote, words))
