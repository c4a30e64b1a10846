"""A checkpoint's metadata as a family reads it: below the architecture's prefix, of the right type, in range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from logos import Header, Refused, Spot, refuse

# Far above any model's, and low enough that what is computed from them before the tensors are looked at stays small:
# sizes; things that are gone through one by one (layers, heads, experts); the items of an array.
_LARGEST = 2**31 - 1
FEW = 2**12
_ITEMS = 2**16


def file_of(header: Header) -> str:
    """How messages about a header begin: the checkpoint's path and a comma, or nothing where there is no file."""
    path = getattr(header, "path", None)
    return "" if path is None else f"{path}, "


@dataclass(frozen=True)
class Keys:
    """Typed reading of `<architecture>.<key>`. A method's default stands for a key that the file lacks.

    `file` is how messages begin: see `file_of`.

    Refused: a key that is missing without a default, of another type, or out of range (`checkpoint-metadata`).
    """

    metadata: Mapping[str, object]
    architecture: str
    file: str = ""

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.metadata

    def bad(self, key: str, what: str) -> Refused:
        """The refusal of a key's value."""
        return refuse(
            "checkpoint-metadata",
            what,
            Spot(f"{self.file}metadata key {self.architecture}.{key}"),
            "convert the model again with a current converter; if that changes nothing, LOGOS lacks this model's rule",
        )

    def count(self, key: str, default: int | None = None, least: int = 1, most: int = _LARGEST) -> int:
        """A whole number from `least` to `most`. An array of equal numbers, one a layer, counts as that number."""
        value = self._value(key, default)
        if _short(value):
            items = list(value)
            if any(item != items[0] for item in items):
                raise self.bad(key, f"differs from layer to layer ({_shown(items)}), which LOGOS does not do yet")
            value = items[0]
        if type(value) is not int or not least <= value <= most:
            raise self.bad(key, f"is {_shown(value)}; a whole number from {least} to {most} is due")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not abs(value) < float("inf"):  # type: ignore[arg-type]
            raise self.bad(key, f"is {_shown(value)}; a finite number is due")
        return float(value)  # type: ignore[arg-type]

    def text(self, key: str, default: str) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.bad(key, f"is {_shown(value)}; a text is due")
        return value

    def flags(self, key: str) -> tuple[bool, ...] | None:
        """An array of true and false (or of 1 and 0); None for a key that the file lacks."""
        if not self.has(key):
            return None
        value = self._value(key, None)
        if _short(value):
            items = tuple(value)
            if all(item in (0, 1) for item in items):
                return tuple(bool(item) for item in items)
        raise self.bad(key, f"is {_shown(value)}; an array of true and false is due")

    def _value(self, key: str, default: object) -> object:
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise self.bad(key, "the file has no such key, and the model cannot be written without it")
        return value


def _short(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is an array of numbers, of no more items than it is worth looking at."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and 0 < len(value) <= _ITEMS
        and not isinstance(value[0], str)
    )


def _shown(value: object) -> str:
    text = repr(value[:81] if isinstance(value, str) else value)
    return text if len(text) <= 80 else text[:80] + "…"
