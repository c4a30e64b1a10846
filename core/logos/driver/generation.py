"""Programs that generate: what a decode step is, and the tables of a prompt's many steps at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from logos.driver.tables import DriverTables, c_block
from logos.driver.text import c_string, one_line
from logos.graph import Graph, Value
from logos.refusal import Refusal
from logos.source import Place, Spot


def step_input(graph: Graph, name: str) -> Value | None:
    """The input, `tok` or `pos`, of which each of a graph's steps has its own number: (steps, 1) of Int; None where
    there is none."""
    shape = (graph.steps, 1)
    for leaf in graph.leaves:
        if leaf.name == name and not leaf.state and not leaf.value.real and leaf.value.shape == shape:
            return leaf.value
    return None


def decode_refusals(graph: Graph) -> Iterator[Refusal]:
    """Why a program is no decode step, which kind `generate` takes (`not-a-decode-step`)."""
    maker = graph.producer(graph.output)
    if step_input(graph, "tok") is None:
        yield _refusal(Spot(graph.source.name), "no input tok, 1 by 1 of Int", "declare `tok`")
    if maker is None or maker.op.name != "argmax":
        place = Spot(graph.source.name) if maker is None else maker.span
        yield _refusal(place, f"no argmax as its output, but {graph.output.name}", "end the program with an argmax")


def _refusal(place: Place, what: str, follow: str) -> Refusal:
    next_ = f"{follow}, or leave the option out, for kind forward"
    return Refusal("not-a-decode-step", f"kind generate takes a decode step; this program has {what}", place, next_)


def prompt_tables(
    step: DriverTables, many: DriverTables | None, steps: int, alone: Sequence[str] | None = None
) -> str:
    """The C++ text of the constants of `steps` steps at once, `many`, beside a single one's: the buffers of their
    inputs and of the output (-1: there is none), and how many stages they are.

    Where prompts go token by token `many` is None. Of a program that generates `alone` says why they do, where the
    program is why; of another it is None.
    """
    places = {"TOKEN": _input(step, "tok"), "POSITION": _input(step, "pos")}
    places |= {"CHUNK_TOKEN": _input(many, "tok"), "CHUNK_POSITION": _input(many, "pos")}
    places["CHUNK_OUTPUT"] = "-1" if many is None else many.held[many.graph.output].buffer
    counts = {"CHUNK_STEPS": 1 if many is None else steps, "CHUNK_STAGES": 0 if many is None else len(many.stages)}
    lines = [f"{name} = {number}," for name, number in {**places, **counts}.items()]
    constants = c_block("enum {", lines, "};")
    if alone is None:
        return constants
    return f"{constants}\n\nconst char *const ALONE = {c_string(one_line('; '.join(alone)))};"


def _input(tables: DriverTables | None, name: str) -> str:
    value = None if tables is None else step_input(tables.graph, name)
    return "-1" if tables is None or value is None else tables.held[value].buffer
