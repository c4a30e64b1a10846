"""Progress of long work: bytes or steps, rate and time left on a terminal; silent elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from logos.ninja_run import PROGRESS_TERMINAL

Update = Callable[[int, int], None]


@contextmanager
def progress(label: str, quiet: bool = False, in_bytes: bool = False) -> Iterator[Update]:
    """A function of (done, total) that keeps a line on the terminal while a person watches it.

    The terminal is standard error or, for a step that ninja started, the one that the build names.
    """
    named = os.environ.get(PROGRESS_TERMINAL)
    if quiet or not (named or sys.stderr.isatty()):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount = (DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *amount, TimeRemainingColumn())
    with ExitStack() as stack:
        file = stack.enter_context(open(named, "w", encoding="utf-8")) if named else sys.stderr
        bar = stack.enter_context(Progress(*columns, console=Console(file=file), transient=True))
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
