"""The emitted program: kernels, each once, and the driver that launches them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from string import Template

from logos import c_comment, c_string, driver_part, driver_text, one_line, paste_headers
from logos_cuda.driver import Driver
from logos_cuda.stages import ForwardGraph, Kernel

COMMON = "logos.cuh"
LICENCE = "// The helper text is yours to use, change and pass on without conditions (MIT-0)."


def emit_forward(graph: ForwardGraph, *, checksum: bool = False, file: str = "forward.cu") -> str:
    """The whole text of a program as one CUDA source, which nvcc or a C++ compiler with the host stand-in takes.

    `checksum` prints the output's sum in place of its elements; `file` is what messages call the text.
    """
    kind = template("checksum.cuh") if checksum else driver_part("plain.h")
    return program_text(Driver(graph), graph.kernels, kind, file)


def program_text(driver: Driver, kernels: Iterable[Kernel], kind: str, file: str) -> str:
    """A driver's program with these kernels; `kind` is the text of what only its kind of program has."""
    return "\n".join((_head(driver), *kernel_text(kernels), _driver_text(driver, kind, file)))


def _head(driver: Driver) -> str:
    graph, output = driver.program, driver.program.output
    kind = "Real" if output.real else "Int"
    made = f"{len(graph.nodes)} ops in {len(driver.graph.stages)} stages, output {output.name}"
    shape = f"{output.rows} by {output.columns} of {kind}"
    return f"// {c_comment(driver.own.file)} as a CUDA program, emitted by LOGOS: {made} ({shape}).\n{LICENCE}\n"


def kernel_text(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The headers that the kernels need, then the kernels themselves; the host stand-in's header is no part of it."""
    kernels = tuple(kernels)
    headers = (COMMON, *(kernel.header for kernel in kernels))
    yield from paste_headers(headers, lambda name: kernel_header(name) if name.endswith(".cuh") else None)
    yield "\n".join(kernel.text for kernel in kernels) + "\n"


@cache
def kernel_header(name: str) -> str:
    """The text of a file of `kernels/`."""
    return (files("logos_cuda") / "kernels" / name).read_text("utf-8")


@cache
def template(name: str) -> str:
    """The text of a file of `templates/`."""
    return (files("logos_cuda") / "templates" / name).read_text("utf-8")


def _driver_text(driver: Driver, kind: str, file: str) -> str:
    name = c_string(one_line(file))
    machine = Template(template("machine.cu.in")).substitute(stages=driver.stages(), file=name)
    own = (machine, template("storage.cuh"), template("steps.cuh"))
    records = (template("memory.cuh"), driver_part("half.h"))
    return driver_text("\n".join(records), driver.tables(), "\n".join(own), kind)
