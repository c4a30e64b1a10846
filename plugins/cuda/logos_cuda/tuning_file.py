"""tune.toml: which products go to the tensor cores, and with how many subtiles, as `logos tune` found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from logos import Refused, Source, Toml, read_toml, refuse, suggestion
from logos_cuda.tiling import CROSSOVER, SUBTILES, Tuned

SCHEMA = "logos.cuda.tune"
VERSION = 1
"""Raised when a key changes its meaning or goes."""

MODEL, TIMING = "model", "timing"
"""How counts were found: from the compiler's report and a model of occupancy, or by timing on a GPU."""

_AGAIN = "write it with `logos tune`"
_MOST = 2**31 - 1
_TOP = ("schema", "version", "found_by", "device", "crossover", "subtiles")
_ARCH = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_SHAPE = re.compile(r"([1-9][0-9]{0,9})x([1-9][0-9]{0,9})x([1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a tuning found.

    found_by   MODEL or TIMING
    device     the GPU that was timed; empty by MODEL
    crossover  the rows of a product from which tensor cores are faster than dp4a
    shapes     counts of subtiles by architecture and shape
    """

    found_by: str = MODEL
    device: str = ""
    crossover: int = CROSSOVER
    shapes: tuple[Tuned, ...] = ()

    def of(self, archs: Sequence[str]) -> tuple[Tuned, ...]:
        """The shapes for the newest of some architectures that was tuned: a source has one count a product."""
        there = [arch for arch in sorted(archs, key=number_of) if any(one.arch == arch for one in self.shapes)]
        return tuple(one for one in self.shapes if there and one.arch == there[-1])


def number_of(arch: str) -> int:
    """The capability of an architecture times ten, 80 of `sm_80`; 0 of `native`, which is not known yet."""
    digits = "".join(c for c in arch if c.isdigit())
    return int(digits) if digits else 0


def tuning_text(tuning: Tuning) -> str:
    """A tuning as tune.toml."""
    said = "timed on the device that is named" if tuning.found_by == TIMING else "not timed: what a model expects"
    lines = [
        f"# Subtiles of the tensor-core products by architecture and shape, m x n x k; {said}.",
        "# Written by `logos tune`, read by -D tune=FILE and the key tune of [target.cuda].",
        f'schema = "{SCHEMA}"', f"version = {VERSION}", f'found_by = "{tuning.found_by}"',
        *([f"device = {_string(tuning.device)}"] if tuning.device else []), f"crossover = {tuning.crossover}",
    ]  # fmt: skip
    for arch in sorted({one.arch for one in tuning.shapes}, key=lambda arch: (number_of(arch), arch)):
        lines += ["", f"[subtiles.{arch}]"]
        lines += [f'"{one.m}x{one.n}x{one.k}" = {one.nt}' for one in tuning.shapes if one.arch == arch]
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    """A device's name as TOML."""
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in text) + '"'


@cache
def read_tuning(source: Source) -> Tuning:
    """The tuning of a tune.toml. Refused: text that is no TOML (`bad-toml`), another schema or version, or a key that
    does not hold what it should (`bad-tune`), at its line."""
    toml = read_toml(source)
    values = toml.values
    if values.get("schema") != SCHEMA:
        raise _bad(toml, f"it is no tune.toml: its schema is not {SCHEMA!r}", "schema")
    if values.get("version") != VERSION or values["version"] is True:
        raise _bad(toml, f"this LOGOS reads version {VERSION} of it", "version")
    _check_keys(toml, values, _TOP)
    if values.get("found_by") not in (MODEL, TIMING):
        raise _bad(toml, f"found_by is {MODEL} or {TIMING}", "found_by")
    device = values.get("device", "")
    if not isinstance(device, str):
        raise _bad(toml, "a string is due", "device")
    found = tuple(_tuned(toml, values.get("subtiles", {})))
    return Tuning(values["found_by"], device, _number(toml, values, "crossover"), found)


def _tuned(toml: Toml, archs: Any) -> Iterator[Tuned]:
    for arch, shapes in _table(toml, archs, "subtiles").items():
        path = ("subtiles", arch)
        if not _ARCH.fullmatch(arch):
            raise _bad(toml, f"{_line(arch)} is no architecture, such as sm_90", *path)
        for shape, nt in _table(toml, shapes, *path).items():
            sizes = _SHAPE.fullmatch(shape)
            if sizes is None:
                raise _bad(toml, f"{_line(shape)} is no shape, such as 64x1536x576 (m, n, k)", *path, shape)
            if type(nt) is not int or nt not in SUBTILES:
                raise _bad(toml, f"the subtiles are one of {', '.join(map(str, SUBTILES))}", *path, shape)
            m, n, k = map(int, sizes.groups())
            yield Tuned(arch, m, n, k, nt)


def _table(toml: Toml, value: Any, *path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(toml, "a table is due", *path)
    return value


def _number(toml: Toml, table: Mapping[str, Any], key: str, *path: str) -> int:
    value = table.get(key)
    if type(value) is not int or not 1 <= value <= _MOST:
        raise _bad(toml, f"{key} is a number from 1 on", *path, key)
    return value


def _check_keys(toml: Toml, table: Mapping[str, Any], known: Sequence[str], *path: str) -> None:
    for key in table:
        if key not in known:
            raise _bad(toml, f"unknown key {_line(key)}{suggestion(key, known)}", *path, key)


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:300])


def _bad(toml: Toml, what: str, *path: str) -> Refused:
    return refuse("bad-tune", what, toml.place(*path), _AGAIN)
