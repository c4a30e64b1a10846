"""The command as the `logos` fixture runs it, and the program that it runs it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toy_build import Ran

PROGRAM = """\
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let e be a 4 by 4 tensor of Real.
Set item 2 of e to 1.
Set item 7 of e to 1.
Set item 12 of e to 1.
Set item 13 of e to 1.
Let seen be a 8 by 4 tensor of Real.
Let x be row tok of e.
Set row pos of seen to x.
Let logits be x hadamard x.
Show item 2 of logits.
Show row 0 of seen.
Let next be argmax of logits.
Show next.
"""


Logos = Callable[..., Ran]


def write(text: str, path: str = "q.lg") -> None:
    Path(path).write_text(text, encoding="utf-8")
