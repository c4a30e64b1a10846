"""Runs stage graphs of small programs through the kernels, built once for all of them, on the host or a GPU."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logos import OPS, Graph, Machine, Source, unroll
from logos.check import read_program
from logos.grammar import make_grammar
from logos.op import Op
from logos.weights.q8 import quantize, split
from logos_cuda.compiling import COMPILE
from logos_cuda.fusing import FUSES
from logos_cuda.host_build import compile_host
from logos_cuda.lower import stored_graph
from logos_cuda.stages import Argument, Arrivals, Buffer, Element, ForwardGraph, Kernel, Record
from logos_cuda.storage import Storage

KERNELS = Path(__file__).parents[2] / "plugins" / "cuda" / "logos_cuda" / "kernels"
TEMPLATE = Path(__file__).with_name("kernel_bench.cu.in")
GRAMMAR = make_grammar(OPS)

DTYPES = {
    Element.REAL: np.dtype("<f4"), Element.INT: np.dtype("<i8"), Element.QUANT: np.dtype("i1"),
    Element.HALF: np.dtype("<f2"),
}  # fmt: skip

Array = NDArray[Any]
UNSET, GIVEN, SPARSE = 0, 1, 2
FAULTS = {0: None, 1: "row", 2: "nan", 3: "overflow"}


def source_text(kernels: Sequence[Kernel]) -> str:
    """The bench's program: the headers, the kernels, and a launch of each by its number."""
    headers = sorted({kernel.header for kernel in kernels})
    launches = [_launch_line(number, kernel) for number, kernel in enumerate(kernels)]
    return (
        TEMPLATE.read_text("utf-8")
        .replace("@INCLUDES@", "\n".join(f'#include "{header}"' for header in headers))
        .replace("@KERNELS@", "\n".join(kernel.text for kernel in kernels))
        .replace("@LAUNCHES@", "\n".join(launches))
    )


def _launch_line(number: int, kernel: Kernel) -> str:
    arguments, place = [], 0
    for parameter in kernel.parameters.split(", "):
        kind = re.sub(r"\w+$", "", parameter).strip()
        if kind == "Fault *":
            arguments.append("fault")
        elif kind == "int":
            arguments.append(f"static_cast<int>(a[{place}].size)")
            place += 1
        elif kind.endswith("*"):
            arguments.append(f"static_cast<{kind}>(a[{place}].pointer)")
            place += 1
        else:
            arguments.append(f"a[{place}].{'size' if kind == 'Size' else 'real'}")
            place += 1
    listed = ", ".join(arguments)
    allowed = f"allow({kernel.name}, shared);"
    launched = f"LOGOS_LAUNCH({kernel.name}, grid, dim3({kernel.threads}), shared, 0, {listed});"
    return f"    case {number}: {allowed} {launched} break;"


def read(text: str) -> Graph:
    """A program's graph."""
    return read_program(Source("p.lg", text), GRAMMAR)


@dataclass
class Case:
    """A program with its leaves' values (float32 or int64, in the program's shape); `blocks` holds grids down to that
    many blocks where the kernels stride over the grid; a leaf of `sparse` is address space of which only the given last
    bytes exist; `storage` says what is kept in fewer bits than its value has, `bound` how far a Real may be off, and
    `rounded` holds what the reference machine is to take in place of the kernels' own rounding. The fusion steps of
    `held` do not act; `lean` leaves no room for values that only their own stage reads. `steps` of the program are made
    at once, `tok` and `pos` having a row for each."""

    text: str
    values: Mapping[str, Array]
    blocks: int | None = None
    sparse: Mapping[str, Array] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    bound: float | None = None
    rounded: Mapping[str, Array] = field(default_factory=dict)
    held: Collection[str] = FUSES
    lean: bool = False
    steps: int = 1

    def __post_init__(self) -> None:
        graph = read(self.text)
        if self.steps > 1:
            graph = unroll(graph, self.steps, [node.out for node in graph.nodes if node.out is not None]).graph
        self.graph: ForwardGraph = stored_graph(graph, self.storage, self.held)

    def stored(self) -> dict[Buffer, Array]:
        """What the buffers of leaves hold before a step, as the device keeps it."""
        found: dict[Buffer, Array] = {}
        for value, buffer in self.graph.held.items():
            given = {**self.values, **self.sparse}.get(value.name)
            if given is None or value.version != 0:
                continue
            array = np.ascontiguousarray(given.T if buffer.transposed else given)
            if buffer.scales is not None:
                found[buffer], scales = split(quantize(array).view(np.uint8))
                found[buffer.scales] = scales.astype(np.float16)
            else:
                found[buffer] = array.astype(np.float16) if buffer.element is Element.HALF else array
        return found

    def kept(self) -> dict[str, Array]:
        """The leaves' values as they are once the device keeps them, in the program's shape."""
        made, stored = dict(self.values), self.stored()
        for buffer, array in stored.items():
            if buffer.value is not None and buffer.element in (Element.QUANT, Element.HALF):
                whole = array.astype(np.float32)
                if buffer.scales is not None:
                    whole *= np.repeat(stored[buffer.scales].astype(np.float32), 32, axis=1)
                made[buffer.value.name] = whole.T if buffer.transposed else whole
        return made

    def expected(self) -> dict[str, Array]:
        """What the reference machine makes of the values, by variable."""
        kept = {**self.kept(), **self.rounded}.items()
        values = {name: v.astype(np.float64) if v.dtype == np.float32 else v for name, v in kept}
        made = Machine(self.graph.graph, values).step()
        return {tap: made[value] for tap, value in self.graph.graph.taps.items() if value in made}


@dataclass(frozen=True)
class Result:
    """What the kernels made, by variable, and the fault as (stage, kind, value) or None."""

    arrays: Mapping[str, Array]
    fault: tuple[int, str, int] | None


class Bench:
    """A build of every kernel that some cases use, for the host or, with an `arch`, for a GPU."""

    def __init__(self, folder: Path, kernels: Iterable[Kernel], include: Path = KERNELS,
                 flags: Sequence[str] = ("-O1",), arch: str | None = None) -> None:  # fmt: skip
        self.kernels = tuple(dict.fromkeys(kernels))
        self.numbers = {kernel.name: number for number, kernel in enumerate(self.kernels)}
        assert len(self.numbers) == len(self.kernels), "two kernels of one name"
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        source = folder / "bench.cu"
        source.write_text(source_text(self.kernels), encoding="utf-8")
        self.program = folder / "bench"
        if arch is None:
            compile_host(source, self.program, sanitize=True, flags=(*flags, f"-I{include}"))
        else:
            command = ["nvcc", *COMPILE, f"-arch={arch}", f"-I{include}", "-o", str(self.program), str(source)]
            subprocess.run(command, check=True)

    def run(self, cases: Sequence[Case], prefix: Sequence[str] = (), **environment: str) -> list[Result]:
        """Every case in one run of the program, under the command of `prefix` if given. AssertionError with what it
        said where it fails."""
        plan, data, out = (self.folder / name for name in ("plan", "data", "out"))
        written = [_plan(case, self.numbers) for case in cases]
        plan.write_bytes(struct.pack("<q", len(cases)) + b"".join(plan for plan, _ in written))
        data.write_bytes(b"".join(data for _, data in written))
        settings = {"LOGOS_HOST_POISON": "1", "ASAN_OPTIONS": "detect_leaks=0", **environment}
        command = [*prefix, self.program, plan, data, out]
        ran = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=1800, check=False)
        assert ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr[-3000:]}"
        return _results(cases, out.read_bytes())


def _wanted(case: Case) -> dict[Buffer, str]:
    graph = case.graph
    made = {graph.held[value]: tap for tap, value in graph.graph.taps.items() if graph.graph.producer(value)}
    return {buffer: name for buffer, name in made.items() if not (case.lean and buffer.inner)}


def _plan(case: Case, numbers: Mapping[str, int]) -> tuple[bytes, bytes]:
    graph, wanted = case.graph, _wanted(case)
    buffers, stored = [one for one in graph.buffers if not (case.lean and one.inner)], case.stored()
    launches = [(stage, launch) for stage, one in enumerate(graph.stages) for launch in one.launches]
    words, data = [len(buffers), len(launches)], []
    for buffer in buffers:
        given = stored.get(buffer)
        count = 0 if given is None else given.nbytes
        bytes_ = buffer.elements * DTYPES[buffer.element].itemsize
        sparse = buffer.value is not None and buffer.value.name in case.sparse
        kind = SPARSE if sparse else UNSET if given is None else GIVEN
        read = 0 if buffer not in wanted else count if sparse else bytes_
        words += [bytes_, kind, read, bytes_ - count if sparse else 0, count]
        if given is not None:
            data.append(given.tobytes())
    for stage, launch in launches:
        blocks = launch.grid[0] if case.blocks is None else min(case.blocks, launch.grid[0])
        places = {buffer: place for place, buffer in enumerate(buffers)}
        words += [numbers[launch.kernel.name], blocks, launch.shared, len(launch.arguments)]
        for argument in launch.arguments:
            words += _word(argument, places, stage)
    return struct.pack(f"<{len(words)}q", *words), b"".join(data)


def _word(argument: Argument, places: Mapping[Buffer, int], stage: int) -> tuple[int, int]:
    if isinstance(argument, Buffer):
        return 0, places.get(argument, -1)
    if isinstance(argument, Record):
        return 1, stage
    if isinstance(argument, Arrivals):
        return 3, argument.count
    if isinstance(argument, float):
        return 2, struct.unpack("<i", struct.pack("<f", argument))[0]
    return 1, argument


def _results(cases: Sequence[Case], out: bytes) -> list[Result]:
    results, at = [], 0
    for case in cases:
        arrays: dict[str, Array] = {}
        wanted = _wanted(case)
        for buffer in case.graph.buffers:
            if buffer not in wanted:
                continue
            assert buffer.value is not None
            sparse = case.sparse.get(wanted[buffer])
            shape = buffer.value.shape if sparse is None else sparse.shape
            dtype = DTYPES[buffer.element]
            arrays[wanted[buffer]] = np.frombuffer(out, dtype, shape[0] * shape[1], at).reshape(shape)
            at += arrays[wanted[buffer]].nbytes
        stage, kind, value = struct.unpack_from("<iiq", out, at)
        at += 16
        name = FAULTS[kind]
        results.append(Result(arrays, None if name is None else (stage, name, value)))
    assert at == len(out)
    return results


def differences(case: Case, result: Result, bound: float = 1e-5) -> list[str]:
    """What is wrong with a result: a fault, an Int that differs, a Real further off than `bound` (or the case's own) of
    the largest."""
    bound = bound if case.bound is None else case.bound
    if result.fault is not None:
        return [f"fault {result.fault}"]
    found, due = [], case.expected()
    for name, got in result.arrays.items():
        expected = due[name]
        if expected.dtype == np.int64:
            wrong = np.count_nonzero(got != expected)
            found += [f"{name}: {wrong} of {expected.size} Int differ"] if wrong else []
            continue
        if not np.isfinite(got).all():
            found.append(f"{name}: {np.count_nonzero(~np.isfinite(got))} of {got.size} are not finite")
            continue
        off = float(np.abs(got - expected).max()) / (float(np.abs(expected).max()) or 1.0)
        found += [f"{name}: off by {off:.2e} of the largest"] if off > bound else []
    return found


def op_named(name: str) -> Op:
    """The op of a name."""
    return next(op for op in OPS if op.name == name)
