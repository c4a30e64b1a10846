"""Prints the table of ops in language.md from the ops' declarations; `--write` puts it into the page."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from logos.op import Op
from logos.ops import OPS

PAGE = Path(__file__).with_name("language.md")
BEGIN, END = "<!-- ops: made by docs/op_table.py -->\n", "<!-- end of ops -->\n"


def table() -> str:
    """One part an op: its name, its sentence, its shapes, and its page."""
    return "\n".join(part for op in OPS for part in (f"### {op.name}", "", *_lines(op), ""))


def _lines(op: Op) -> list[str]:
    facts = [f"- shapes: `{rule.text.replace('->', '→')}`" for rule in op.shapes]
    facts += [f"- writes `{state}`" for state in op.writes]
    facts += [f"- `{hole}` is {value:g} unless the sentence says otherwise" for hole, value in op.values.items()]
    return [f"    {op.pattern.text}.", "", inspect.cleandoc(op.doc), "", *facts]


def page_with(made: str) -> str:
    """The page's text with this table between its marks."""
    text = PAGE.read_text("utf-8")
    return text[: text.index(BEGIN) + len(BEGIN)] + "\n" + made + "\n" + text[text.index(END) :]


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page_with(table()), "utf-8")
    else:
        print(table())
