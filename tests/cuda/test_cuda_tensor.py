"""The tensor-core product: against float64 and dp4a on the host, its index functions proved, and mistakes in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from fiber_orders import ONE_FAST, ORDERS
from kernel_bench import KERNELS, Array, Bench, Case, differences
from kernel_cases import SHAPES, Spec, case
from narrow_cases import dp4a, product, quantized
from tensor_cases import SPECS, tensor, tiles

from logos_cuda.audit import bodies_of, find_disassembler
from logos_cuda.compiling import COMPILE
from logos_cuda.host_build import HOST, find_host_compiler
from logos_cuda.lower import stored_graph
from logos_cuda.ptxas import reports
from logos_cuda.stages import ForwardError, Kernel
from logos_cuda.tiling import DEPTHS, MOST_COLUMNS, MOST_DEPTH, ROWS, STAGES, SUBTILES, Tiling, Tuned, shared_bytes
from machine_code import needs_disassembler

QUICK = range(3, 6)
QUICK_SPECS = (SPECS[0], SPECS[2])
UNIT = 2.0**-24
"""Half of what a float32 near 1 is apart from the next."""

PROOF = Path(__file__).with_name("tile_proof.cu")


def kernels(specs: Sequence[Spec] = SPECS) -> tuple[Kernel, ...]:
    return tuple(dict.fromkeys(k for spec in specs for one in spec.cases(QUICK) for k in one.graph.kernels))


def dp4a_kernels() -> list[Kernel]:
    return [kernel for k in (64, 4096) for kernel in shaped(0, 3, k, 9).graph.kernels]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The kernels of the smallest tiles, which have most stages, and of large ones, and dp4a's."""
    return Bench(tmp_path_factory.mktemp("tensor"), (*kernels(QUICK_SPECS), *dp4a_kernels()))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The kernel for every nt, and dp4a's."""
    return Bench(tmp_path_factory.mktemp("whole"), (*kernels(), *dp4a_kernels()))


def faults(bench: Bench, numbers: range, order: str, specs: Sequence[Spec] = SPECS) -> list[str]:
    named = [(f"{spec.name} {i}", one) for spec in specs for i, one in zip(numbers, spec.cases(numbers), strict=True)]
    results = bench.run([one for _, one in named], LOGOS_HOST_ORDER=order)
    compared = zip(named, results, strict=True)
    return [f"{name}: {wrong}" for (name, one), result in compared for wrong in differences(one, result)]


@pytest.mark.parametrize("order", ONE_FAST)
def test_products_agree_with_the_reference_machine(bench: Bench, order: str) -> None:
    assert faults(bench, QUICK, order, QUICK_SPECS) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_thirty_shapes_of_every_count(whole: Bench, order: str) -> None:
    assert faults(whole, range(SHAPES), order) == []


@pytest.mark.gpu
def test_thirty_shapes_of_every_count_on_a_gpu(tmp_path: Path) -> None:
    assert faults(Bench(tmp_path, kernels(), arch="native"), range(SHAPES), "forward") == []


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="needs compute-sanitizer on PATH")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck", "initcheck"])
def test_the_device_s_sanitizer_finds_nothing(tool: str, tmp_path: Path) -> None:
    prefix = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9")
    cases = [one for spec in SPECS for one in spec.cases(QUICK)]
    results = Bench(tmp_path, kernels(), arch="native").run(cases, prefix)
    assert [what for one, result in zip(cases, results, strict=True) for what in differences(one, result)] == []


def shaped(nt: int, m: int, k: int, n: int, seed: int = 0) -> Case:
    return product(tensor(nt, "b") if nt else dp4a("b"), m, k, n, np.random.default_rng(seed), 1)


def within_rounding(bench: Bench, counts: Sequence[int]) -> None:
    """16 blocks' sums are added one after another, then chunks of those: each rounds, as does every product of scales,
    below the least normal float by an absolute amount. And they equal dp4a's to 4.2e-7 of the largest."""
    shapes = ((65, 576, 130), (17, 4096, 67), (64, 32, 200), (5, 32 * 1029, 3))
    for nt, (m, k, n) in ((nt, shape) for nt in counts for shape in shapes):
        made = shaped(nt, m, k, n)
        found, other = (one.arrays["y"] for one in bench.run([made, shaped(0, m, k, n)]))
        a, b = quantized(made.values["a"], np.float64), made.kept()["b"].astype(np.float64)
        rounds = 16 + -(-k // 512) + 1
        terms = [np.abs(a[:, at : at + 32] @ b[at : at + 32]) for at in range(0, k, 32)]
        denormal = k // 32 * 32 * 127 * 128 * 2.0**-150
        assert (np.abs(found - a @ b) <= 1.01 * rounds * UNIT * sum(terms) + denormal).all()
        assert np.abs(found - other).max() <= 4.2e-7 * np.abs(other).max()


def test_results_lie_within_the_rounding_of_their_grouping(bench: Bench) -> None:
    within_rounding(bench, (2,))


@pytest.mark.slow
def test_results_of_every_count_lie_within_the_rounding_of_their_grouping(whole: Bench) -> None:
    within_rounding(whole, SUBTILES)


def test_a_row_that_holds_no_number_has_no_value_and_the_others_have(bench: Bench) -> None:
    a = np.ones((17, 64), np.float32)
    a[16, 40] = np.nan
    made = replace(case({"a": a, "b": np.ones((64, 9), np.float32)}, "Let y be a matmul b."), storage=tensor(6, "b"))
    found: Array = bench.run([made])[0].arrays["y"]
    assert np.isfinite(found[:16]).all()
    assert np.isnan(found[16]).all()


def test_which_products_go_to_the_tensor_cores() -> None:
    usual = Tiling()
    assert [usual.takes(m, 64, 9) for m in (1, 15, 16, 512)] == [False, False, True, True]
    assert [usual.subtiles(m, 2048, n) for m, n in ((16, 9), (64, 9000), (64, 30000), (512, 30000))] == [2, 2, 6, 8]
    tuned = Tiling(tuned=(Tuned("sm_90", 64, 9, 64, 4), Tuned("sm_90", 256, 9, 64, 8)))
    assert [tuned.subtiles(m, 64, 9) for m in (16, 160, 161, 512)] == [4, 4, 8, 8]
    assert tuned.subtiles(64, 96, 9) == 2


@pytest.mark.parametrize(
    ("k", "n", "what"),
    [
        (MOST_DEPTH + 32, 4, "k is 4,194,336; the kernel takes up to 4,194,304"),
        (32, MOST_COLUMNS + 1, "n is 2,147,483,648; the kernel takes up to 2,147,483,647"),
    ],
)
def test_what_is_beyond_the_kernel_is_refused_with_its_limit(k: int, n: int, what: str) -> None:
    text = f"Let a be a 20 by {k} tensor of Real.\nLet b be a {k} by {n} tensor of Real.\nLet y be a matmul b.\n"
    graph = Case(text, {}).graph.graph
    with pytest.raises(ForwardError) as caught:
        stored_graph(graph, tensor(2, "b"))
    assert [refusal.what for refusal in caught.value.refusals] == [f"matmul: b in Q8_0 by mma: {what}"]
    left = stored_graph(graph, replace(dp4a("b"), tiling=Tiling()))
    assert [launch.kernel.name for launch in left.stages[0].launches][-1].startswith("matvec_q8")


def test_rows_that_are_no_blocks_are_refused() -> None:
    text = "Let a be a 20 by 48 tensor of Real.\nLet b be a 48 by 9 tensor of Real.\nLet y be a matmul b.\n"
    with pytest.raises(ForwardError) as caught:
        stored_graph(Case(text, {}).graph.graph, tensor(2, "b"))
    odd = "no kernel reads b in Q8_0: its rows hold 48 values as stored, no multiple of 32"
    assert [refusal.what for refusal in caught.value.refusals] == [f"matmul: {odd}"]


def proved(folder: Path, include: Path = KERNELS) -> str:
    """What the proof says of a folder of kernels."""
    program = folder / "proof"
    flags = ("-std=c++17", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-pthread")
    command = [*find_host_compiler(), *flags, f"-I{include}", "-isystem", str(HOST), "-x", "c++", str(PROOF)]
    subprocess.run([*command, "-o", str(program)], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr[:300]


def test_fragments_blocks_bounds_and_banks_are_proved(tmp_path: Path) -> None:
    """Over all lanes, registers, warps and counts, and shapes up to the limits; and the host knows the stages' size."""
    assert proved(tmp_path) == "".join(f"{nt} {shared_bytes(nt) // STAGES[nt]}\n" for nt in SUBTILES)
    text = (KERNELS / "tiles.cuh").read_text("utf-8")
    said = dict(re.findall(r"\b(GEMM_ROWS|DEPTHS|DEEPEST) = ([\d <]+)", text))
    assert {name: eval(value) for name, value in said.items()} == {
        "GEMM_ROWS": ROWS, "DEPTHS": DEPTHS, "DEEPEST": MOST_DEPTH,
    }  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """In a header the one `old` becomes `new`; what finds it says `shows`."""

    name: str
    old: str
    new: str
    shows: str
    quick: bool = False
    header: str = "tiles.cuh"


PROVED = (
    Mistake("lane-map-off-by-one", "return lane % 8 + lane / 16 * 8;", "return (lane + 1) % 8 + lane / 16 * 8;",
            "B: lane 0's register 0 is row 1", quick=True),
    Mistake("lane-map-of-a", "return lane % 16;", "return lane % 16 ^ 8;", "A: lane 0's register 0 is row 8"),
    Mistake("unit-of-another-block", "return lane / 8 % 2;", "return lane / 8 % 2 * 2;", "of another scale block"),
    Mistake("swizzle-bit-dropped", "(unit ^ row % UNITS)", "(unit ^ row % (UNITS / 2))", "loads of quants: two in a",
            quick=True),
    Mistake("no-swizzle", "(unit ^ row % UNITS)", "unit", "loads of quants: two in a bank"),
    Mistake("scales-not-apart", "SPARE = 8", "SPARE = 0", "stores of scales: two in a bank"),
    Mistake("results-off-by-one", "return lane % 4 * 2 + i % 2;", "return lane % 4 + i % 2 * 4;", "is kept elsewhere"),
    Mistake("rows-beyond", "return row < last ? row : last;", "return row;", "is copied from beyond"),
    Mistake("one-row-too-many", "static_cast<int>(rows - first) - 1", "static_cast<int>(rows - first)", "from beyond"),
    Mistake("step-too-long", "? depths - step * DEPTHS : DEPTHS", "? DEPTHS : DEPTHS", "a step beyond the last"),
    Mistake("too-deep", "DEEPEST = 1 << 22", "DEEPEST = 1 << 24", "signed integer overflow"),
    Mistake("warps-overlap", "return warp % 4 * 8 * nt;", "return warp % 4 * 8;", "a result is made twice"),
)  # fmt: skip


def mutated(folder: Path, mistake: Mistake) -> Path:
    copy = shutil.copytree(KERNELS, folder / "kernels")
    text = (copy / mistake.header).read_text("utf-8")
    assert text.count(mistake.old) == 1, f"{mistake.header} has {text.count(mistake.old)} of: {mistake.old}"
    (copy / mistake.header).write_text(text.replace(mistake.old, mistake.new), encoding="utf-8")
    return copy


def marked(mistakes: Sequence[Mistake]) -> list[object]:
    return [pytest.param(one, marks=[] if one.quick else pytest.mark.slow, id=one.name) for one in mistakes]


@pytest.mark.parametrize("mistake", marked(PROVED))
def test_the_proof_fails_on_a_mistake(mistake: Mistake, tmp_path: Path) -> None:
    assert re.search(mistake.shows, proved(tmp_path, mutated(tmp_path, mistake)))


GEMM = "gemm_q8.cuh"
RUN = (
    Mistake("stage-missed", "logos_copy_wait<stages - 2>();", "logos_copy_wait<stages - 1>();", "not finite|off by",
            quick=True, header=GEMM),
    Mistake("slot-still-read", "due.begin(free,", "due.begin(full,", "not finite|off by", header=GEMM),
    Mistake("read-before-all-copied", "        __syncthreads();\n        due", "        due", "not finite|off by",
            header=GEMM),
    Mistake("next-tile-too-early", "        // The next tile's copies go to slots that others still read.\n"
            "        __syncthreads();", "", "not finite|off by", header=GEMM),
    Mistake("chunk-lost", "|| step == steps - 1", "", "off by", header=GEMM),
    Mistake("another-row-s-scale", "sum_row(lane, 2 * i)", "sum_row(lane, i)", "off by", header=GEMM),
    Mistake("another-depth-s-scale", "w.scale(start + 8 * c + sum_column(lane, 1), depth)",
            "w.scale(start + 8 * c + sum_column(lane, 1), 0)", "off by", header=GEMM),
    Mistake("another-half-s-fragment", "both[c % 2 * 2 + 1]", "both[1]", "off by", header=GEMM),
    Mistake("row-beyond-kept", "if (row >= m) continue;", "", "AddressSanitizer|off by", header=GEMM),
    Mistake("column-beyond-kept", "if (column < n)", "", "AddressSanitizer|off by", header=GEMM),
    Mistake("sums-with-their-bits", "- 12582912.0f", "- 12582913.0f", "off by", header=GEMM),
)  # fmt: skip


@pytest.mark.parametrize("mistake", marked(RUN))
def test_the_run_on_the_host_fails_on_a_mistake(mistake: Mistake, tmp_path: Path) -> None:
    include = mutated(tmp_path, mistake)
    cases = [shaped(2, 65, 576, 130), replace(shaped(2, 70, 64, 131), blocks=1)]
    bench = Bench(tmp_path, cases[0].graph.kernels, include=include, flags=("-O0",))
    said = []
    for order in ORDERS:
        try:
            results = bench.run(cases, LOGOS_HOST_ORDER=order)
        except AssertionError as error:
            said.append(str(error))
            continue
        said += [what for one, result in zip(cases, results, strict=True) for what in differences(one, result)]
    assert re.search(mistake.shows, "\n".join(said))


@pytest.mark.slow
@needs_disassembler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_the_machine_code_has_imma_ldmatrix_and_wide_copies_and_nothing_spills(arch: str, tmp_path: Path) -> None:
    source, made = tmp_path / "kernels.cu", [kernel for kernel in kernels() if kernel.header == GEMM]
    source.write_text("\n".join([f'#include "{GEMM}"', *(kernel.text for kernel in made)]) + "\n", encoding="utf-8")
    command = ["nvcc", *COMPILE, f"-arch={arch}", f"-I{KERNELS}", "-Xptxas", "-v", "-cubin", "-o", "out", str(source)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    found = {one.name: (one.stack, one.spilled) for one in reports(said)}
    assert found == {f"gemm_q8_{nt}_kernel": (0, 0) for nt in SUBTILES}
    code = subprocess.run([find_disassembler(), "-c", "out"], cwd=tmp_path, capture_output=True, text=True, check=True)
    bodies = bodies_of(code.stdout)
    for nt in SUBTILES:
        body = bodies[f"gemm_q8_{nt}_kernel"]
        # Of a depth, which all counts but the largest have four times: an mma a subtile, and a load of four matrices
        # for each 16 rows of either side.
        depths = 1 if nt == 8 else DEPTHS
        assert len(re.findall(r"\bIMMA\.16832\.S8\.S8", body)) == depths * 2 * nt
        assert len(re.findall(r"\bLDSM\.16\.M\w+\.4\b", body)) == depths * (2 + nt // 2)
        assert re.search(r"\bLDGSTS\.E\.\w*\.?128\b", body)
        assert len(re.findall(r"\bI2F", body)) < 4  # of the division that finds a tile; no sum is converted


def test_tiles_are_those_of_the_cases() -> None:
    """The cases' shapes are about the tiles: rows beyond one, columns beyond one, depths beyond a step."""
    made = [tiles(nt)(np.random.default_rng(i), i) for nt in (2, 8) for i in range(2, SHAPES)]
    sizes = [one.graph.graph.nodes[0].sizes for one in made]
    assert any(size["m"] > ROWS for size in sizes)
    assert any(size["n"] > 256 for size in sizes)
    assert {size["k"] // 32 % DEPTHS for size in sizes} == {0, 1, 2, 3}
