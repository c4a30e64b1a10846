"""What several commands share: the manager with its warnings, options, values given on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from logos.refusal import Refused, refuse
from logos.source import Spot, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logos.graph import Graph
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
    """`a,b` as names."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if value else ()


def known_names(graph: Graph, wanted: Iterable[str]) -> None:
    """Refuses names that the program has no variable for (`unknown-variable`), all at once."""
    from logos.near import suggestion
    from logos.refusal import Refusal

    known = graph.newest()
    lost = [
        Refusal(
            "unknown-variable",
            f"the program has no variable {name}{suggestion(name, known)}",
            Spot(graph.source.name),
            "name a variable that the program declares or produces",
        )
        for name in wanted
        if name not in known
    ]
    if lost:
        raise Refused(lost)


def given_arrays(graph: Graph, given: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """The values of `--set`, in their variables' shapes (of a state: where it starts). Refused: an unknown variable,
    one that an operation produces, another shape or type, text that is no number, list or file."""
    known_names(graph, given)
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    arrays = {}
    for name, text in given.items():
        if name not in leaves:
            what = f"{name} is produced by an operation; it takes no value"
            raise refuse("set-of-computed", what, Spot(f"--set {name}"), "set a declared variable")
        arrays[name] = _array(name, text, leaves[name].value.shape, leaves[name].value.real)
    return arrays


def _array(name: str, text: str, shape: tuple[int, int], real: bool) -> NDArray[Any]:
    import numpy as np

    place = Spot(f"--set {name}")
    due = f"{shape[0]} by {shape[1]} of {'Real' if real else 'Int'}"
    try:
        array = np.load(text[1:], allow_pickle=False) if text.startswith("@") else np.array(json.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        what = f"this is no value for {name}: {error}"
        raise refuse("bad-value", what, place, "write a number, a nested list, or @file.npy") from None
    if array.dtype.kind not in ("iuf" if real else "iu"):
        what = f"{name} is {due}; the value holds {array.dtype}"
        raise refuse("value-type", what, place, "give whole numbers for Int, numbers for Real")
    if not real and array.size and not -(2**63) <= int(array.min()) <= int(array.max()) < 2**63:
        raise refuse("int-out-of-range", f"a value of {name} does not fit 64 bits", place, "give smaller numbers")
    array = array.astype(np.float64 if real else np.int64)
    if array.ndim == 0:
        array = np.full(shape, array)
    if array.shape != shape:
        said = " by ".join(map(str, array.shape))
        what = f"{name} is {due}; the value is {said}"
        raise refuse("value-shape", what, place, "give a number, or a list of that shape")
    return array


def array_text(array: NDArray[Any]) -> str:
    """`[[…], …]`: the shortest text that reads back the same."""
    return json.dumps(array.tolist())
