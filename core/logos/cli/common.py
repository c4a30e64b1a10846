"""What several commands share: the manager with its warnings, options, values given on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logos.source import printable

if TYPE_CHECKING:

    from logos.manager import Manager

F = TypeVar("F", bound=Callable[..., Any])


def open_manager(verbose: bool = False) -> Manager:
    """The installed plugins. What `warn` shows at the end of a command is in its `problems`."""
    from logos.manager import make_manager

    manager = make_manager()
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(lambda: warn(manager, verbose))
    return manager


def warn(manager: Manager, verbose: bool) -> None:
    """One warning to standard error for each plugin that was left out."""
    for problem in dict.fromkeys(manager.problems):
        hint = "" if verbose or not problem.trace else " (-v shows the traceback)"
        click.echo(f"warning: {problem.text()}{hint}", err=True)
        if verbose and problem.trace:
            click.echo("\n".join(printable(line) for line in problem.trace.splitlines()), err=True)


def program_options(function: F) -> F:
    """The options that say where a program's weights come from."""
    for option in reversed(
        (
            click.option("--checkpoint", type=click.Path(path_type=Path), help="Take weights from this checkpoint."),
            click.option("--weights", type=click.Path(path_type=Path), help="Take weights from this folder's files."),
            click.option("--family", help="Whose naming decides which variables are weights [the checkpoint's]."),
        )
    ):
        function = option(function)
    return function


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say more; show plugins' tracebacks.")
target_options = click.option(
    "-D", "options", multiple=True, metavar="KEY=VALUE", callback=lambda c, p, values: pairs(values, "-D"),
    help="Set an option of the target; repeatable.",
)  # fmt: skip
set_option = click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", callback=lambda c, p, values: pairs(values, "--set"),
    help="Give a variable its value: a number, a nested list, or @file.npy; repeatable.",
)  # fmt: skip
fill_option = click.option(
    "--fill", type=click.Choice(["zero", "ramp", "noise"]), help="Fill whatever has no value."
)
tokens_option = click.option(
    "--tokens", metavar="1,2,3", callback=lambda c, p, value: token_ids(value), help="Feed these token ids, one a step."
)


def saying(quiet: bool) -> Callable[[str], None]:
    """What shows a run's own words to a person, on standard error; nothing where `quiet`."""
    return lambda text: None if quiet else click.echo(printable(text), err=True)


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE texts as a mapping; the last of a key wins."""
    found = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=option)
        found[key.strip()] = value
    return found


def token_ids(value: str | None) -> tuple[int, ...]:
    """`1,2,3` as ids."""
    if value is None:
        return ()
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of token ids such as 1,2,3", param_hint="--tokens")
    return tuple(int(part) for part in parts)


def names(value: str | None) -> tuple[str, ...]:
    """`a,b` as names, each once."""
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip())) if value else ()
