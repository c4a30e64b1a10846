"""Bad programs and the exact messages that they get.

Each tests/refusals/NAME.lg is checked and, where it passes, run for one step; what it is refused with is NAME.txt.
With LOGOS_REFRESH_GOLDEN=1 the texts are written anew: read their diff as someone who sees the message for the first
time.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

import logos
from logos import Graph, Leaf, Machine, Refused, read_source
from logos.check import read_program
from logos.grammar import make_grammar
from logos.ops import OPS
from logos.reference import initial
from logos.weights.fill import fill

FOLDER = Path(__file__).parents[1] / "refusals"
PROGRAMS = sorted(FOLDER.glob("*.lg"))
GRAMMAR = make_grammar(OPS)


def messages(program: Path) -> tuple[str, list[str]]:
    """What a program is refused with: the whole text, and the codes in order."""
    try:
        graph = read_program(read_source(program, program.name), GRAMMAR)
        Machine(graph, {leaf.name: start(graph, leaf) for leaf in graph.leaves}).step()
    except Refused as refused:
        return f"{refused}\n", [refusal.code for refusal in refused.refusals]
    return "nothing is refused\n", []


def start(graph: Graph, leaf: Leaf) -> NDArray[Any]:
    return initial(leaf.value, leaf.fills) if leaf.fills else fill(graph, leaf, "noise")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_messages_are_exactly_these(program: Path) -> None:
    text, codes = messages(program)
    golden = program.with_suffix(".txt")
    if os.environ.get("LOGOS_REFRESH_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert text == golden.read_text(encoding="utf-8")
    assert codes
    assert all(character.isprintable() or character in "\n\t" for character in text)


def test_every_code_of_the_language_has_a_program() -> None:
    made = {code for program in PROGRAMS for code in messages(program)[1]}
    pinned = {"unreadable-file"}  # no program can hold it: see below
    assert codes_in("source", "parse", "misread", "check", "shapes") - pinned <= made
    assert {"no-value", "row-outside-table"} <= made


def codes_in(*modules: str) -> set[str]:
    """The refusal codes that modules of the core write: the first argument of what makes a refusal, and `_CODES`."""
    found: set[str] = set()
    for module in modules:
        tree = ast.parse((Path(logos.__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Refusal", "refuse", "self.refuse", "Misfit"):
                found |= {text.value for text in node.args[:1] if isinstance(text, ast.Constant)}
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_CODES":
                found |= {text.value for text in node.value.values}  # type: ignore[attr-defined]
    assert found
    return found


def test_twelve_mistakes_are_twelve_messages_in_order_and_nothing_follows_from_them() -> None:
    program = FOLDER / "twelve-mistakes.lg"
    with pytest.raises(Refused) as refused:
        read_program(read_source(program), GRAMMAR)
    found = refused.value.refusals
    lines = [refusal.where.line for refusal in found]  # type: ignore[union-attr]
    assert len(found) == len({refusal.code for refusal in found}) == 12
    assert lines == sorted(lines)


def test_a_program_that_cannot_be_read(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "missing.lg", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(Refused) as refused:
            read_source(path, "p.lg")
        assert str(refused.value) == (
            f"p.lg: cannot read the program: {why} [unreadable-file]\n"
            "  next: give the path of a program (.lg) that exists and may be read"
        )
