"""The driver's own text, in files that an emitted program has copies of."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def driver_part(name: str) -> str:
    """The C++ text of a part of the driver, a file of `parts/`. Raises FileNotFoundError where there is none."""
    return _read(name)


@cache
def _read(name: str) -> str:
    return (files("logos.driver") / "parts" / name).read_text("utf-8")
