"""The driver's own text, in files that an emitted program has copies of."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r'^#include "([\w.]+)"\n', re.MULTILINE)
_ONCE = re.compile(r"^#pragma once\n", re.MULTILINE)
_COMMON = ("target.h", "words.h", "rounding.h", "files.h", "values.h", "steps.h")


def driver_text(records: str, tables: str, machine: str, kind: str) -> str:
    """The C++ text of a whole driver, `main` included, to stand behind a target's kernels.

    It takes what kernels have: the types Real (float), Int and Size (64 bits), Quant (a signed byte) and Half (a
    float16's bits), and the kinds of faults FAULT_ROW, FAULT_NAN and FAULT_OVERFLOW.

    records  how a buffer is described, the constant BLOCK (elements that share a scale in Q8_0), and the functions of
             the part `half.h` where kernels do not have them
    tables   the buffers, and `DriverTables.text()`
    machine  what runs the stages: it defines what the part `target.h` declares of a target
    kind     what the kind of program adds, which `target.h` declares too: the part `plain.h` adds nothing; of programs
             that generate, the part `generate.h` and behind it what that declares of a target
    """
    return "\n".join(
        (_read("begin.h"), records, tables, "", *map(_read, _COMMON), machine, kind, _read("main.h"))
    )


def driver_part(name: str) -> str:
    """The C++ text of a part of the driver, a file of `parts/`. Raises FileNotFoundError where there is none."""
    return _read(name)


@cache
def _read(name: str) -> str:
    return (files("logos.driver") / "parts" / name).read_text("utf-8")


def paste_headers(
    names: Iterable[str], read: Callable[[str], str | None], there: Collection[str] = ()
) -> tuple[str, ...]:
    """The texts of headers, each once and after those that it includes, without the lines that include them.

    `read` gives a header's text, None for one that is no part of the source: its line is kept, but for those `there`,
    which stand in the source already.
    """
    found: dict[str, str] = {}
    pending: set[str] = set()

    def kept(include: re.Match[str]) -> str:
        name = include[1]
        return "" if name in there or add(name) else include[0]

    def add(name: str) -> bool:
        if name in found or name in pending:
            return True
        text = read(name)
        if text is None:
            return False
        pending.add(name)
        found[name] = _ONCE.sub("", _INCLUDE.sub(kept, text))  # what it includes comes in before it
        return True

    for name in names:
        add(name)
    return tuple(found.values())
