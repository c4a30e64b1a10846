"""A finished build's own account, by which the same command finds that there is nothing to do.

The account is believed where nothing that the build read or wrote has changed and ninja, asked by the build's own
build.ninja, has nothing to run. Reading it imports no plugin and nothing of LOGOS but this file and `stamps`.
"""

from __future__ import annotations

import os
import sys

from logos.stamps import RACY, installed, listing, output_seen, said_of, seen, stamp

# Each module that this one imports is paid for by every build with nothing to do: typing, contextlib and json are
# dearer than all that is compared here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

FINISHED = "finished.txt"
_FORMAT = 4
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

    It is lines: the circumstances, ninja, how many of each kind follow, for each kind their names and then what was
    seen of them, what to print.
    """
    stamps = {path: stamp(path) for path in read}
    if any(found is not None and max(found[1:3]) > began - RACY for found in stamps.values()):
        return None
    named = (list(listed), list(written), list(environment))
    kinds: _Kinds = [(list(stamps), list(map(said_of, stamps.values())))]
    kinds += [(names, list(map(look, names))) for look, names in zip(_LOOKS[1:], named, strict=True)]
    lines = [_circumstances(arguments), ninja, " ".join(str(len(names)) for names, _ in kinds)]
    for names, found in kinds:
        lines += [*names, *found]
    text = "\n".join([*lines, said])
    return text if _parsed(text) == (lines[0], ninja, kinds, said) else None


def nothing_to_do(arguments: Sequence[str]) -> str | None:
    """What `logos build` with these arguments prints where an earlier one left nothing to do; None where it must look
    more closely."""
    for folder in _out_folders(arguments):
        private = os.path.join(folder, _PRIVATE)
        try:
            with open(os.path.join(private, FINISHED), "rb") as file:
                text = file.read().decode("utf-8", "surrogateescape")
            circumstances, ninja, kinds, said = _parsed(text)
        except (OSError, ValueError):
            continue
        if circumstances == _circumstances(arguments):
            # Ninja looks at most of the same files: on another core, where there is one, at the same time.
            ninja_is_idle = _ask_ninja(ninja, private)
            held = _holds(kinds)
            return said if ninja_is_idle() and held else None
    return None


def _names(folder: str) -> str:
    return repr(listing(folder))


def _value(variable: str) -> str:
    return repr(os.environ.get(variable))


_LOOKS = (seen, _names, output_seen, _value)
"""How each kind is looked at: what was read, folders whose names decided, what was written, environment variables."""


_Kinds = list[tuple[list[str], list[str]]]


def _parsed(text: str) -> tuple[str, str, _Kinds, str]:
    """The parts of an account. Raises ValueError for what is none, or not the whole of one."""
    circumstances, ninja, counts, rest = text.split("\n", 3)
    numbers = [int(count) for count in counts.split(" ")]
    *lines, said = rest.split("\n", 2 * sum(numbers))
    if len(numbers) != len(_LOOKS) or len(lines) != 2 * sum(numbers):
        raise ValueError("an account that was cut short")
    kinds: _Kinds = []
    place = 0
    for number in numbers:
        kinds.append((lines[place : place + number], lines[place + number : place + 2 * number]))
        place += 2 * number
    return circumstances, ninja, kinds, said


def _circumstances(arguments: Sequence[str]) -> str:
    """What decides a plan beside the files it reads, in one line."""
    return repr((_FORMAT, list(arguments), os.getcwd(), sys.executable, sys.version, sys.path, installed()))


def _holds(kinds: _Kinds) -> bool:
    return all(list(map(look, names)) == before for look, (names, before) in zip(_LOOKS, kinds, strict=True))


def _ask_ninja(ninja: str, private: str) -> Callable[[], bool]:
    """Starts ninja, which runs nothing, and returns what waits for its word: whether it finds no work. What it
    complains of is for the closer look to say. No subprocess module: it costs as much as ninja."""
    end, into = os.pipe()
    copies = [(os.POSIX_SPAWN_DUP2, into, descriptor) for descriptor in (1, 2)]
    closed = [(os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in (end, into)]
    try:
        process = os.posix_spawn(ninja, [ninja, "-C", private, "-n"], os.environ, file_actions=[*copies, *closed])
    except OSError:
        os.close(end)
        return lambda: False
    finally:
        os.close(into)

    def is_idle() -> bool:
        with open(end, "rb") as output:
            text = output.read()
        _, status = os.waitpid(process, 0)
        return status == 0 and b"ninja: no work to do." in text

    return is_idle


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
