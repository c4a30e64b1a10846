"""What `logos explain --compiled` says of the machine code of a program's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from logos.cli.build_options import amount
from logos.cli.events import json_text
from logos.compiled import CompiledKernel, CompilingTarget
from logos.refusal import refuse
from logos.source import Spot, printable

if TYPE_CHECKING:
    from logos.hookspecs import Job, Target


def show_compiled(target: Target, job: Job, as_json: bool) -> None:
    """A kernel a line, by architecture; with `as_json` an object a line. Refused: a target that compiles no kernels
    (`no-kernels`), and what the target refuses."""
    if not isinstance(target, CompilingTarget):
        what = f"target {target.name} compiles no kernels"
        raise refuse("no-kernels", what, Spot("--compiled"), "leave the option out, or name a target that does")
    kernels = target.compiled(job)
    if as_json:
        for kernel in kernels:
            click.echo(json_text({**asdict(kernel), "loads": dict(kernel.loads), "products": dict(kernel.products)}))
        return
    for arch in dict.fromkeys(kernel.arch for kernel in kernels):
        of = [kernel for kernel in kernels if kernel.arch == arch]
        click.echo(f"{arch}: {amount(len(of), 'kernel')}, {_faults(of)}")
        for kernel in of:
            click.echo(f"  {printable(kernel.name)}: {_said(kernel)}")


def _faults(kernels: Sequence[CompiledKernel]) -> str:
    odd = [kernel.name for kernel in kernels if kernel.stack or kernel.spills]
    return f"registers do not suffice in {', '.join(odd)}" if odd else "none spills or has a stack"


def _said(kernel: CompiledKernel) -> str:
    words = [
        f"{amount(kernel.threads, 'thread')} of {amount(kernel.registers, 'register')}",
        *([f"{kernel.stack:,} bytes of stack"] if kernel.stack else []),
        *([f"{kernel.spills:,} bytes spilled"] if kernel.spills else []),
        f"{kernel.shared:,} bytes shared", f"occupancy {100 * kernel.occupancy:.0f} %",
        "loads " + (", ".join(f"{count} of {bits} bits" for bits, count in kernel.loads) or "nothing"),
        *(f"{count} {name}" for name, count in kernel.products),
    ]  # fmt: skip
    return "; ".join(words)
