"""The arguments of a script: the vendor's commands and those of its options that an artifact uses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from sambaflow.double import logged
from sambaflow.samba.pef import arguments

COMMANDS = ("compile", "run", "test", "measure-performance")
Adds = Callable[[argparse.ArgumentParser], None]


def parse_app_args(
    argv: Sequence[str] | None = None, common_parser_fn: Adds | None = None, run_parser_fn: Adds | None = None
) -> argparse.Namespace:
    """The arguments, `command` among them; `run_parser_fn` adds to the command `run` alone."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        one = commands.add_parser(command)
        one.add_argument("--inference", action="store_true")
        one.add_argument("--pef-name")
        one.add_argument("--output-folder", default="out")
        one.add_argument("--pef")
        one.add_argument("--graphamp-preset")
        if common_parser_fn is not None:
            common_parser_fn(one)
        if run_parser_fn is not None and command == "run":
            run_parser_fn(one)
    found = parser.parse_args(argv)
    logged("parse_app_args", found.command)
    arguments.clear()
    arguments.update(vars(found))
    return found
