"""A finished build's own account, by which the same command finds that there is nothing to do.

The account is believed where nothing that the build read or wrote has changed and ninja, asked by the build's own
build.ninja, has nothing to run. Reading it imports no plugin and nothing of LOGOS but this file and `stamps`.
"""

from __future__ import annotations

import os
import sys

from logos.stamps import RACY, Stamp, installed, listing, output_stamp, stamp

# Each module that this one imports is paid for by every build with nothing to do: typing, contextlib and json are
# dearer than all that is compared here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FINISHED = "finished.txt"
_FORMAT = 3
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
    read may have changed since it began (nanoseconds since the epoch), or where a path holds a line break.

    It is lines: the circumstances, ninja, how many lines of each kind follow, those lines, what to print.
    """
    stamps = {path: stamp(path) for path in read}
    if any(found is not None and max(found[1:3]) > began - RACY for found in stamps.values()):
        return None
    kinds = (
        [f"{_text(found)} {path}" for path, found in stamps.items()],
        [f"{path}\n{listing(path)!r}" for path in listed],
        [f"{_text(output_stamp(path))} {path}" for path in written],
        [f"{name}\n{os.environ.get(name)!r}" for name in environment],
    )
    lines = [_circumstances(arguments), ninja, " ".join(str(len(kind)) for kind in kinds)]
    for kind in kinds:
        lines += kind
    text = "\n".join([*lines, said])
    return text if _parsed(text) == (lines[0], ninja, *kinds, said) else None


def nothing_to_do(arguments: Sequence[str]) -> str | None:
    """What `logos build` with these arguments prints where an earlier one left nothing to do; None where it must look
    more closely."""
    for folder in _out_folders(arguments):
        private = os.path.join(folder, _PRIVATE)
        try:
            with open(os.path.join(private, FINISHED), "rb") as file:
                text = file.read().decode("utf-8", "surrogateescape")
            circumstances, ninja, read, listed, written, environment, said = _parsed(text)
        except (OSError, ValueError, IndexError):
            continue
        if circumstances == _circumstances(arguments) and _holds(read, listed, written, environment):
            return said if _ninja_is_idle(ninja, private) else None
    return None


_Parsed = tuple[str, str, list[str], list[str], list[str], list[str], str]


def _parsed(text: str) -> _Parsed:
    """The parts of an account. Raises ValueError and IndexError for what is none."""
    circumstances, ninja, counts, rest = text.split("\n", 3)
    read, listed, written, environment = map(int, counts.split(" "))
    lines = rest.split("\n", read + 2 * listed + written + 2 * environment)
    first, second, third = read, read + 2 * listed, read + 2 * listed + written
    return (
        circumstances,
        ninja,
        lines[:first],
        _pairs(lines[first:second]),
        lines[second:third],
        _pairs(lines[third:-1]),
        lines[read + 2 * listed + written + 2 * environment],
    )


def _pairs(lines: list[str]) -> list[str]:
    return ["\n".join(lines[place : place + 2]) for place in range(0, len(lines), 2)]


def _text(found: Stamp | None) -> str:
    return "-" if found is None else ",".join(map(str, found))


def _circumstances(arguments: Sequence[str]) -> str:
    """What decides a plan beside the files it reads, in one line."""
    return repr((_FORMAT, list(arguments), os.getcwd(), sys.executable, sys.version, sys.path, installed()))


def _holds(read: list[str], listed: list[str], written: list[str], environment: list[str]) -> bool:
    for line in read:
        seen, _, path = line.partition(" ")
        if _text(stamp(path)) != seen:
            return False
    for line in written:
        seen, _, path = line.partition(" ")
        if _text(output_stamp(path)) != seen:
            return False
    for pair in listed:
        path, _, seen = pair.partition("\n")
        if repr(listing(path)) != seen:
            return False
    return all(repr(os.environ.get(pair.partition("\n")[0])) == pair.partition("\n")[2] for pair in environment)


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
    try:
        with open("logos.toml", encoding="utf-8") as file:
            lines = file.readlines()
    except (OSError, ValueError):
        return
    for line in lines:
        key, _, text = line.partition("=")
        if key.strip() == "out":
            yield text.strip().strip("\"'")
