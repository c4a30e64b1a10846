"""The emitted program: the driver, its tables, and the kernels for every level, in one file that includes itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from string import Template

from logos import c_comment, driver_part, driver_text, paste_headers
from logos_cpu.tables import Tables

LICENCE = "// The helper text is yours to use, change and pass on without conditions (MIT-0)."
_SHARED = ("types.h", "half.h")
_MACHINE = ("memory.h", "files.h", "options.h", "steps.h")


def program_text(tables: Tables, kind: str, file: str, exact: bool) -> str:
    """A program's source, which is called `file`; `kind` is forward or generate."""
    name = c_comment(file)
    levels = Template(_source("runtime", "levels.h.in")).substitute(file=file)
    parts = [
        f"// {c_comment(tables.own.file)} as a C++ program, emitted by LOGOS: {_made(tables)}.",
        f"// Build it with: c++ -std=c++17 -O3 -ffp-contract=off -pthread {name}",
        LICENCE,
        "",
        "#ifndef LOGOS_LEVEL",
        "#define LOGOS_EXACT" if exact else "",
        _runtime("types.h"),
        driver_part("half.h"),
        _runtime("pool.h"),
        levels,
        driver_text(_runtime("records.h"), tables.text(), _runtime(*_MACHINE), _kind(kind)),
        "#else  // the kernels, for the level that is asked for",
        "namespace LOGOS_NAMESPACE {",
        "",
        *paste_headers((call.header for call in tables.calls), _kernel_header, _SHARED),
        *_kernels(tables),
        "",
        "}  // namespace LOGOS_NAMESPACE",
        "#endif",
        "",
    ]
    return "\n".join(parts)


def _kind(kind: str) -> str:
    """What only a kind of program has."""
    if kind == "forward":
        return driver_part("plain.h")
    return "\n".join((driver_part("generate.h"), _runtime("generate.h")))


def _made(tables: Tables) -> str:
    graph, output = tables.program, tables.program.output
    shape = f"{output.rows} by {output.columns} of {'Real' if output.real else 'Int'}"
    return f"{len(graph.nodes)} ops in {len(tables.step.calls)} stages, output {c_comment(output.name)} ({shape})"


def _kernels(tables: Tables) -> Iterator[str]:
    """Every distinct call as a function of its operands, and their list."""
    for text, number in tables.kernels.items():
        places = len(set(re.findall(r"\{(\d+)\}", text)))
        body = text.format(*(f"b[{place}]" for place in range(places)))
        yield f"void kernel_{number}(const Worker &w, void *const *b) {{ {body}; }}"
    names = "".join(f"\n    kernel_{number}," for number in tables.kernels.values())
    yield f"\nconst Kernel kernels[] = {{{names}\n    nullptr,\n}};"


def _kernel_header(name: str) -> str:
    return _source("kernels", name)


def _runtime(*names: str) -> str:
    return "\n".join(paste_headers(names, lambda name: _source("runtime", name)))


@cache
def _source(folder: str, name: str) -> str:
    return (files("logos_cpu") / folder / name).read_text("utf-8")
