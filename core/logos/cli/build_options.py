"""The options that `logos build`, `logos emit` and `logos extract` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from logos.cli.common import pairs
from logos.source import Place, Spot

F = TypeVar("F", bound=Callable[..., Any])

hold_option = click.option(
    "--hold", multiple=True, metavar="STEP", help="Keep a fusion step of the target from acting; repeatable."
)
tensor_option = click.option(
    "--tensor",
    "tensors",
    multiple=True,
    metavar="VARIABLE=TENSOR",
    callback=lambda context, parameter, values: pairs(values, "--tensor"),
    help="Take a variable from this tensor, as [weights] of logos.toml does; repeatable.",
)
since_option = click.option(
    "--since", metavar="REV", help="Of these only what has an input that changed since this git revision."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print nothing but refusals and failures.")
one_target_option = click.option("--target", required=True, metavar="NAME", help="The target to write for.")
folder_option = click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The artifact's folder."
)


def tensor_place(variable: str) -> Place:
    """Where a `--tensor` was written."""
    return Spot(f"--tensor {variable}")


def size(count: int) -> str:
    """Bytes as a person reads them: whole below ten thousand, then in units of 1000."""
    if count < 10_000:
        return f"{count:,} bytes"
    scaled, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while scaled >= 999.95 and len(units) > 1:
        scaled, units = scaled / 1000, units[1:]
    return f"{scaled:.1f} {units[0]}"


def amount(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def waiting_for(out: Path) -> str:
    """What is said while another build holds the lock of an out folder."""
    return f"another build is at work in {out}: waiting for it to end"
