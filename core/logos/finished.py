"""A finished build's own account, by which the same command finds that there is nothing to do.

The account is believed where nothing that the build read or wrote has changed and ninja, asked by the build's own
build.ninja, has nothing to run. Reading it imports no plugin and nothing of LOGOS but this file and `stamps`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from logos.stamps import RACY, installed, listing, output_stamp, stamp

FINISHED = "finished.json"
_FORMAT = 2
_PRIVATE = ".logos"


def account(
    arguments: Sequence[str],
    began: int,
    read: Iterable[str],
    listed: Iterable[str],
    written: Iterable[str],
    ninja: str,
    said: str,
    environment: Iterable[str] = (),
) -> str | None:
    """The account of a build that was just finished: what it was called with, read and wrote, the environment
    variables that decided it, and what the same command is to print where nothing is to do. None where something it
    read may have changed since it began (nanoseconds since the epoch)."""
    stamps = {path: stamp(path) for path in read}
    if any(found is not None and max(found[1:3]) > began - RACY for found in stamps.values()):
        return None
    record = {
        **_circumstances(arguments),
        "ninja": ninja,
        "read": stamps,
        "listed": {path: listing(path) for path in listed},
        "written": {path: output_stamp(path) for path in written},
        "said": said,
        "environment": {name: os.environ.get(name) for name in environment},
    }
    return json.dumps(record, separators=(",", ":")) + "\n"


def nothing_to_do(arguments: Sequence[str]) -> str | None:
    """What `logos build` with these arguments prints where an earlier one left nothing to do; None where it must look
    more closely."""
    for folder in _out_folders(arguments):
        private = os.path.join(folder, _PRIVATE)
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(os.path.join(private, FINISHED), "rb") as file:
                record = json.loads(file.read())
            if _holds(record, arguments) and _ninja_is_idle(record["ninja"], private):
                return str(record["said"])
    return None


def _circumstances(arguments: Sequence[str]) -> dict[str, object]:
    """What decides a plan beside the files it reads."""
    return {
        "format": _FORMAT,
        "arguments": list(arguments),
        "here": os.getcwd(),
        "python": [sys.executable, sys.version],
        "path": sys.path,
        "installed": installed(),
    }


def _holds(record: dict[str, Any], arguments: Sequence[str]) -> bool:
    return (
        all(record[key] == value for key, value in _circumstances(arguments).items())
        and all(os.environ.get(name) == value for name, value in record["environment"].items())
        and all(stamp(path) == seen for path, seen in record["read"].items())
        and all(listing(path) == seen for path, seen in record["listed"].items())
        and all(output_stamp(path) == seen for path, seen in record["written"].items())
    )


def _ninja_is_idle(ninja: str, private: str) -> bool:
    """Whether ninja, run without running anything, finds no work. No subprocess module: it costs as much as ninja."""
    end, into = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, into, 1), (os.POSIX_SPAWN_CLOSE, end), (os.POSIX_SPAWN_CLOSE, into)]
    try:
        process = os.posix_spawn(ninja, [ninja, "-C", private, "-n"], os.environ, file_actions=actions)
    except OSError:
        os.close(end)
        return False
    finally:
        os.close(into)
    with open(end, "rb") as output:
        text = output.read()
    _, status = os.waitpid(process, 0)
    return status == 0 and b"ninja: no work to do." in text


def _out_folders(arguments: Sequence[str]) -> Iterator[str]:
    """Where the build may have its out folder: a guess, since the account found there says whether it is right."""
    following = iter(arguments)
    for argument in following:
        if argument.startswith("--out"):
            yield argument[6:] if argument.startswith("--out=") else next(following, "")
            return
    yield "build"
    yield from (os.path.join(argument, "build") for argument in arguments if not argument.startswith("-"))
    with suppress(OSError, ValueError), open("logos.toml", encoding="utf-8") as file:
        for line in file:
            key, _, text = line.partition("=")
            if key.strip() == "out":
                yield text.strip().strip("\"'")
