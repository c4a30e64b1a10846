"""A program's text as an author writes it, each weight checked against the checkpoint as it is declared."""

from __future__ import annotations

import re
from collections.abc import Callable

from logos import Header, Spot, nearest, refuse
from logos_gguf.keys import file_of

_SEEN = 1000


class Sentences:
    """Collects sentences; a blank line parts what a section declares from what it computes.

    `tensor` answers which tensor a weight takes; `taken` lists those that the program takes.
    """

    def __init__(self, header: Header, tensor: Callable[[str], str]) -> None:
        self._header, self._tensor = header, tensor
        self._lines: list[str] = []
        self._declares = False
        self.taken: set[str] = set()

    def heading(self, text: str) -> None:
        if self._lines:
            self._lines.append("")
        self._lines.append(f"## {text}")
        self._declares = False

    def comment(self, text: str) -> None:
        self._lines.append(f"# {text}")

    def declare(self, name: str, rows: int, columns: int, kind: str = "Real") -> None:
        self._lines.append(f"Let {name} be a {rows} by {columns} tensor of {kind}.")
        self._declares = True

    def weight(self, name: str, rows: int, columns: int) -> None:
        """Declares a weight. Refused: a tensor that the checkpoint lacks (`missing-tensor`)."""
        tensor = self._tensor(name)
        if tensor not in self._header.tensors:
            near = nearest(tensor, self._header.tensors)
            raise refuse(
                "missing-tensor",
                f"the program needs {name} from {tensor}; the file has no such tensor"
                + (f"; the nearest is {near}" if near else ""),
                Spot(f"{file_of(self._header)}tensor {tensor}"),
                "give the whole checkpoint, or another --family",
            )
        self.taken.add(tensor)
        self.declare(name, rows, columns)

    def let(self, name: str, operation: str) -> None:
        self._compute(f"Let {name} be {operation}.")

    def set_row(self, row: str, table: str, value: str) -> None:
        self._compute(f"Set row {row} of {table} to {value}.")

    def _compute(self, line: str) -> None:
        self._lines += ["", line] if self._declares else [line]
        self._declares = False

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def plain(text: object) -> str:
    """A text of the metadata as one short line of a comment."""
    line = re.sub(r"\s+", " ", "".join(c if c.isprintable() else " " for c in str(text)[:_SEEN])).strip()
    return line if len(line) <= 80 else line[:79] + "…"
