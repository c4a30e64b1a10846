"""The `logos` command: finds the subcommand's file, and turns what it raises into messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from importlib.metadata import version
from typing import TypeGuard

import click

from logos.cli.events import event_line
from logos.refusal import Refused, refuse

COMMANDS = (
    "new", "build", "check", "explain", "author", "run", "generate", "verify", "conformance", "probe", "tune",
    "inspect",
    "emit", "extract", "deps", "clean", "ops", "targets", "plugins", "schema",
)  # fmt: skip
"""The subcommands, in the order that `--help` lists them; each is a file of this folder with a `command`."""

_OUTPUT_FAULTS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

DONE, REFUSED, USAGE, TOOL_FAILED, BEYOND_BOUND, INTERRUPTED = 0, 1, 2, 3, 4, 130

TOOL_CODE = "-failed"
"""How the code of a refusal ends that tells of a tool that failed: a compiler, or the program that was built."""


class Commands(click.Group):
    """Loads a subcommand when it is asked for, so that one command does not pay for another."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"logos.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            from logos.near import suggestion

            raise click.UsageError(f"{error.message.rstrip('.')}{suggestion(args[0], COMMANDS)}", context) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version("logos-build"), prog_name="logos")
def cli() -> None:
    """Builds inference programs written as plain sentences.

    Start with `logos check PROGRAM`, then `logos build PROGRAM --target NAME`.

    Exit codes: 0 done, 1 refused, 2 usage, 3 a tool failed, 4 verification beyond its bound, 130 interrupted.
    """


def main(args: list[str] | None = None) -> None:
    """Runs the command line and exits."""
    arguments = sys.argv[1:] if args is None else args
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal's encoding lacks shows as its escape: no message dies of an arrow.
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in arguments
    try:
        code = _run(arguments)
        if sys.stdout:  # None where standard output is closed
            sys.stdout.flush()
    except Refused as refused:
        show(refused, as_json)
        code = TOOL_FAILED if all(one.code.endswith(TOOL_CODE) for one in refused.refusals) else REFUSED
    except MemoryError as error:
        what = f"this machine's memory does not suffice: {error or 'no more can be had'}"
        show(refuse("out-of-memory", what, None, "run a smaller program, or on a machine with more memory"), as_json)
        code = REFUSED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except Exception as error:
        code = _output_fault(error) if _is_output_fault(error) else _plugin_fault(error, arguments)
    sys.exit(code)


def _plugin_fault(error: Exception, arguments: list[str]) -> int:
    """The exit code where a plugin from outside raised what nobody expects; any other error is raised again."""
    from logos.discovery import plugin_fault

    fault = plugin_fault(error)
    if fault is None:
        raise error
    if {"-v", "--verbose"} & set(arguments):
        traceback.print_exception(error)
    show(Refused((fault,)), "--json" in arguments)
    return TOOL_FAILED


def _is_output_fault(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in _OUTPUT_FAULTS and error.filename is None


def _output_fault(error: OSError) -> int:
    """The exit code where standard output could not be written."""
    # Python's own exit would write what is left, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return DONE  # the reader has gone, as in `logos … | head`
    what = f"cannot write the output: {error.strerror}"
    show(refuse("unwritable-output", what, None, "free space, or send the output elsewhere"))
    return TOOL_FAILED


def _run(arguments: list[str]) -> int:
    """Runs the command. click's own `main` is not asked, since it makes a reader that has gone an exit code of 1."""
    if "_LOGOS_COMPLETE" in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "logos", "_LOGOS_COMPLETE", os.environ["_LOGOS_COMPLETE"])
    try:
        with cli.make_context("logos", list(arguments), obj=list(arguments)) as context:
            return cli.invoke(context) or DONE
    except click.exceptions.Exit as stop:
        return stop.exit_code


def show(refused: Refused, as_json: bool = False) -> None:
    """Prints refusals: as text to standard error, or one object a line to standard output."""
    for refusal in refused.refusals:
        if as_json:
            click.echo(event_line("refusal", **refusal.record()))
        else:
            click.echo(refusal.text(), err=True)
    count = len(refused.refusals)
    if not as_json and count > 1:
        click.echo(f"{count} refusals", err=True)
