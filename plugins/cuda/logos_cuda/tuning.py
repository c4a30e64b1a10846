"""`logos tune`: how many subtiles each tensor-core product of a program is to take, and from how many rows."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from logos import Job, Manager, Source, Spot, TuneReport, make_manager, read_program, refuse
from logos_cuda.choice import storage_of
from logos_cuda.compiling import architectures
from logos_cuda.emit import kernel_text, template
from logos_cuda.executables import gpu_executable
from logos_cuda.generate import STEPS
from logos_cuda.gpu import Gpu, find_gpu
from logos_cuda.lower import stored_graph
from logos_cuda.options import Options
from logos_cuda.ptxas import Report, compile_report, resident_blocks
from logos_cuda.spelling.arithmetic import FILLING_ROWS
from logos_cuda.stages import Kernel, Launch
from logos_cuda.storage import Multiply, Storage, name_of
from logos_cuda.tiling import (
    CROSSOVER,
    LEAST_ARCH,
    SUBTILES,
    THREADS,
    Tiling,
    Tuned,
    columns,
    limits,
    shared_bytes,
    tiles,
)
from logos_cuda.toolkit import find_toolkit
from logos_cuda.tuning_file import MODEL, TIMING, Tuning, number_of, tuning_text

ROWS = (2, 4, 8, 16, 32, 64, 128)
"""Rows at which dp4a and the tensor cores are timed, for the crossover."""

_TIMES = 50
_STEP_CLOCKS = 60
"""Clocks of a step beside its products, for the barrier and what begins the copies."""

_COPY_BYTES = 32
"""Bytes that a multiprocessor takes from the cache in a clock."""



@dataclass(frozen=True, slots=True)
class Device:
    """The device that stands for an architecture in the model.

    count     its multiprocessors
    products  products of bytes that the tensor cores of one add in a clock by mma.sync, dense
    floats    float32 operations of one in a clock
    """

    name: str
    count: int
    products: int
    floats: int


DEVICES = {
    "sm_80": Device("A100", 108, 2048, 64),
    "sm_86": Device("RTX 3090", 82, 1024, 128),
    "sm_89": Device("RTX 4090", 128, 1024, 128),
    "sm_90": Device("H200", 132, 2540, 128),
    "sm_100": Device("B200", 148, 2048, 128),
    "sm_120": Device("RTX 5090", 170, 1024, 128),
}
"""Products of bytes come from the makers' dense figures; of sm_90 62 % of them, what mma.sync is said to reach, and of
sm_100, which gives no figure for mma.sync, those of sm_80: a model's numbers, not measurements."""

Shape = tuple[int, int, int]
"""m, n and k of a product."""

Run = Callable[[Sequence[str]], float]
"""Runs the timing program with these words: the microseconds of a launch."""


def tune(job: Job, say: Callable[[str], None]) -> TuneReport:
    """The counts for the products of a job's program. On this machine's GPU where the job may run there, by timing;
    else for the architectures of the job, from the compiler's report.

    Refused: a program without such products (`nothing-to-tune`), an architecture that no figures are known of
    (`unknown-arch`), `no-gpu`, what finding and running a compiler refuses.
    """
    shapes = tuple(dict.fromkeys(_shapes(job)))
    if not shapes:
        what = "no product by a weight in Q8_0 could go to the tensor cores"
        raise refuse("nothing-to-tune", what, Spot(job.graph.source.name), "name weights with -D q8=NAME,…")
    gpu = find_gpu() if job.options.device != "host" else None
    if gpu is None and job.options.device == "gpu":
        raise refuse("no-gpu", "device gpu asks for this machine's GPU, and it has none", Spot("gpu"), "leave that out")
    toolkit = find_toolkit()
    names = (gpu.arch,) if gpu is not None else architectures(job.options.arch, toolkit)
    _check_architectures(names, known=gpu is None)
    found = [one for arch in names for one in compile_report(_kernels_text(), arch, toolkit)]
    resources = {(one.arch, int(one.name.split("_")[2])): one for one in found}
    if gpu is None:
        return _by_model(shapes, names, resources)
    say(f"timing on {gpu.name} ({gpu.arch})")
    return _by_timing(shapes, gpu, resources, timer(gpu, job.options))


def _check_architectures(names: Sequence[str], known: bool) -> None:
    for name in names:
        if number_of(name) < LEAST_ARCH:
            what = f"{name} has no tensor cores for bytes of this kind; the kernel takes sm_{LEAST_ARCH} and later"
            raise refuse("unknown-arch", what, Spot("arch"), f"name some such as {', '.join(DEVICES)}")
        if known and name.rstrip("af") not in DEVICES:
            what = f"the model has no figures of {name}"
            next_ = f"name some of {', '.join(DEVICES)}, or tune on the device"
            raise refuse("unknown-arch", what, Spot("arch"), next_)


def _shapes(job: Job) -> Iterator[Shape]:
    """The shapes that tensor cores may multiply: a step's products with a prompt's rows, others as they are."""
    graph, q8 = job.graph, storage_of(job).q8
    rows = job.options.prefill or STEPS
    for node in graph.nodes:
        if node.op.name != "matmul" or name_of(node, "B") not in q8:
            continue
        m, k, n = (node.sizes[symbol] for symbol in "mkn")
        if not limits(k, n):
            yield (rows if m == 1 and job.options.kind != "gemm" else m), n, k


@cache
def _manager() -> Manager:
    return make_manager()


@cache
def _product(shape: Shape, nt: int) -> tuple[Launch, ...]:
    """The launches of a product, the last by `nt` subtiles, by dp4a where that is 0."""
    m, n, k = shape
    text = f"Let x be a {m} by {k} tensor of Real.\nLet W be a {k} by {n} tensor of Real.\nLet y be x matmul W.\n"
    graph = read_program(Source("product.lg", text), _manager().grammar)
    tiling = Tiling(1, nt=nt, asked=True) if nt else None
    return stored_graph(graph, Storage(frozenset("W"), Multiply.DP4A, tiling=tiling)).stages[0].launches


def _kernels_text() -> str:
    return "\n".join(kernel_text(_product((64, 64, 64), nt)[-1].kernel for nt in SUBTILES))


@dataclass(frozen=True, slots=True)
class _Choice:
    """A count for a shape, with the microseconds expected or measured of each count."""

    arch: str
    shape: Shape
    times: dict[int, float]

    @property
    def nt(self) -> int:
        """The fastest; of equals the one that reads x the fewest times."""
        return min(self.times, key=lambda nt: (self.times[nt], -nt))


def _by_model(
    shapes: Sequence[Shape], archs: Sequence[str], resources: dict[tuple[str, int], Report]
) -> TuneReport:
    choices = [
        _Choice(arch, shape, {
            nt: clocks(arch, resources[arch, nt].registers, shape, nt) for nt in SUBTILES
        })
        for arch in archs for shape in shapes
    ]  # fmt: skip
    note = "not timed: registers are ptxas's, the rest is a model of occupancy; time it with `logos tune` on the device"
    return _tabled(choices, resources, Tuning(MODEL, "", CROSSOVER, _tuned(choices)), "clocks", (note,))


def clocks(arch: str, registers: int, shape: Shape, nt: int) -> float:
    """The clocks that a product is expected to take: a multiprocessor's blocks, as many at once as it holds, each step
    of which is bound by tensor cores, by the scaling of their sums (12 operations a lane for each mma) or by copies.
    Eight warps are taken to reach three quarters of that, sixteen all of it."""
    (m, n, k), device = shape, DEVICES[arch.rstrip("af")]
    held = max(1, resident_blocks(arch, THREADS, registers, shared_bytes(nt)))
    products = 64 * nt
    bound = max(
        products * 4096 / device.products,
        products * 12 * 32 / device.floats,
        (64 + columns(nt)) * 136 / _COPY_BYTES,
    )
    blocks, total = -(-tiles(nt, m, n) // device.count), 0.0
    while blocks > 0:
        together = min(blocks, held)
        total += together * bound / min(1.0, 0.5 + together / 4) + _STEP_CLOCKS
        blocks -= together
    return total * -(-k // 128)


def _tuned(choices: Sequence[_Choice]) -> tuple[Tuned, ...]:
    return tuple(Tuned(one.arch, *one.shape, one.nt) for one in choices)


def _tabled(
    choices: Sequence[_Choice], resources: dict[tuple[str, int], Report], tuning: Tuning, unit: str,
    notes: tuple[str, ...],
) -> TuneReport:  # fmt: skip
    heads = ("arch", "m", "n", "k", "nt", "registers", "spilled", "shared bytes", "blocks held", unit, "of the next")
    rows = []
    for one in choices:
        report, shared = resources[one.arch, one.nt], shared_bytes(one.nt)
        held = resident_blocks(one.arch, THREADS, report.registers, shared)
        next_ = sorted(one.times.values())[1]
        figures = (report.registers, report.spilled, shared, held, round(one.times[one.nt], 1))
        rows.append((one.arch, *one.shape, one.nt, *figures, f"{one.times[one.nt] / next_:.2f}"))
    return TuneReport(tuning_text(tuning), heads, tuple(rows), (f"crossover: {tuning.crossover} rows", *notes))


def _by_timing(
    shapes: Sequence[Shape], gpu: Gpu, resources: dict[tuple[str, int], Report], run: Run
) -> TuneReport:
    choices = [
        _Choice(gpu.arch, shape, {nt: run(product_words(shape, nt)) for nt in SUBTILES}) for shape in shapes
    ]
    _, n, k = max(shapes, key=lambda shape: shape[1] * shape[2])
    times = {m: [run(product_words((m, n, k), nt)) for nt in (0, *SUBTILES)] for m in ROWS}
    faster = [m for m in ROWS if min(times[m][1:]) <= times[m][0]]
    slower = max((m for m in ROWS if m not in faster), default=0)
    crossover = next((m for m in ROWS if m > slower), 2 * ROWS[-1])
    tuning = Tuning(TIMING, gpu.name, crossover, _tuned(choices))
    return _tabled(choices, resources, tuning, "us", (f"timed on {gpu.name}, {_TIMES} launches each",))


def quantizing_words(shape: Shape) -> tuple[str, ...]:
    """The words of a timing of what quantizes a product's rows."""
    return _said(_product(shape, 0)[0], shape)


def product_words(shape: Shape, nt: int) -> tuple[str, ...]:
    """The words of a timing of a product: by `nt` subtiles, by dp4a where that is 0."""
    return _said(_product(shape, nt)[-1], shape)


def _said(launch: Launch, shape: Shape) -> tuple[str, ...]:
    return tuple(map(str, (_timed().index(launch.kernel), launch.grid[0], launch.shared, *shape, _TIMES)))


@cache
def _timed() -> tuple[Kernel, ...]:
    """The kernels of the timing program: by each count; dp4a's for one row and several; what quantizes."""
    others = [(m, n, k) for m in (1, 8) for n in (64, FILLING_ROWS) for k in (64, 4096)]
    made = [_product((64, 64, 64), nt)[-1] for nt in SUBTILES] + [one for shape in others for one in _product(shape, 0)]
    return tuple(dict.fromkeys(launch.kernel for launch in made))


def timing_text() -> str:
    """The source of the timing program."""
    cases = []
    for number, kernel in enumerate(_timed()):
        given = "from, x, xs, m * k" if kernel.name == "quantize_kernel" else "x, xs, w, ws, y, m, k, n"
        launch = f"LOGOS_LAUNCH({kernel.name}, grid, dim3({kernel.threads}), shared, 0, {given}); break;"
        cases.append(f"        case {number}: allow({kernel.name}, shared); {launch}")
    program = Template(template("tune.cu.in")).substitute(launches="\n".join(cases))
    return "\n".join((*kernel_text(_timed()), program))


def timer(gpu: Gpu, options: Options) -> Run:
    """The timing program, built for a GPU."""
    with tempfile.TemporaryDirectory(prefix="logos-cuda-") as scratch:
        source = Path(scratch) / "tune.cu"
        source.write_text(timing_text(), encoding="utf-8")
        program = gpu_executable(source, gpu.arch, options)

    def run(words: Sequence[str]) -> float:
        done = subprocess.run([os.fspath(program), *words], capture_output=True, encoding="utf-8", errors="replace")
        if done.returncode:
            said = done.stderr.strip() or f"it ended with exit code {done.returncode}"
            raise refuse("cuda-failed", f"the timing program failed: {said}", Spot(gpu.name), "run it again")
        return float(done.stdout)

    return run
