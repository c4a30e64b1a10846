"""Kind gemm, the ways to multiply many rows, and tune.toml."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_cuda_choice import job_of, refused

from logos import Q8Reference, Source, make_manager, read_program
from logos_cuda import Multiply, emit_forward, emit_generate, emit_marlin_q8_gemm, forward_graph
from logos_cuda.choice import choice_notes, storage_of
from logos_cuda.host_build import compile_host
from logos_cuda.stages import ForwardError
from logos_cuda.target import CudaTarget, graph_of
from logos_cuda.tiling import Tiling, Tuned
from logos_cuda.tuning_file import MODEL, TIMING, Tuning, read_tuning, tuning_text

PRODUCT = """\
Let x be a 20 by 64 tensor of Real.
Let W be a 64 by 9 tensor of Real.
Let y be x matmul W.
"""
FEW = PRODUCT.replace("20 by", "1 by")
TUNED = Tuning(
    TIMING, 'a "GPU"', 9,
    (Tuned("sm_80", 64, 1536, 576, 6), Tuned("sm_90", 20, 9, 64, 4), Tuned("sm_90", 512, 9, 64, 8)),
)  # fmt: skip


def kernels(folder: Path, text: str = PRODUCT, **options: str) -> list[str]:
    graph = graph_of(job_of(folder, text, q8="W", **options))
    return [launch.kernel.name.removesuffix("_kernel") for launch in graph.stages[-1].launches]


@pytest.mark.parametrize(
    ("rows", "options", "last"),
    [
        (20, {}, "gemm_q8_2"),
        (16, {}, "gemm_q8_2"),
        (15, {}, "matvec_q8_by_warps_rows"),
        (15, {"multiply": "mma"}, "gemm_q8_2"),
        (1, {"multiply": "mma"}, "matvec_q8_by_warps"),
        (1, {"kind": "gemm"}, "gemm_q8_2"),
        (20, {"multiply": "dp4a"}, "matvec_q8_by_warps_rows"),
        (20, {"multiply": "dp4a", "kind": "gemm"}, "matvec_q8_by_warps_rows"),
        (20, {"multiply": "exact"}, "matvec_exact_rows"),
        (20, {"arch": "sm_75,sm_90"}, "matvec_q8_by_warps_rows"),
    ],
)
def test_rows_decide_how_a_product_is_made(tmp_path: Path, rows: int, options: dict[str, str], last: str) -> None:
    assert kernels(tmp_path, PRODUCT.replace("20 by", f"{rows} by"), **options)[-1] == last


def test_a_tuning_decides_from_when_and_by_how_many_subtiles(tmp_path: Path) -> None:
    (tmp_path / "tune.toml").write_text(tuning_text(TUNED), "utf-8")
    asked = {"tune": str(tmp_path / "tune.toml")}
    assert kernels(tmp_path, **asked) == ["quantize", "gemm_q8_4"]
    assert kernels(tmp_path, PRODUCT.replace("20 by", "400 by"), **asked)[-1] == "gemm_q8_8"
    assert kernels(tmp_path, PRODUCT.replace("20 by", "9 by"), **asked)[-1] == "gemm_q8_4"
    assert kernels(tmp_path, PRODUCT.replace("20 by", "8 by"), **asked)[-1] == "matvec_q8_by_warps_rows"
    assert kernels(tmp_path, arch="sm_80", **asked)[-1] == "gemm_q8_2"
    job = job_of(tmp_path, PRODUCT, q8="W", **asked)
    assert storage_of(job).tiling == Tiling(9, TUNED.shapes[1:])
    assert next(choice_notes(job)) == (
        "1 weight in Q8_0, 0.0 MB, multiplied dp4a, 9 rows and more at once by mma (-D q8, -D multiply, -D experts)"
    )
    (stage,) = graph_of(job).stages
    assert stage.notes == ("W in Q8_0, multiplied mma by 4 subtiles",)


def test_a_tuning_is_read_as_it_is_written() -> None:
    text = tuning_text(TUNED)
    assert text == (
        "# Subtiles of the tensor-core products by architecture and shape, m x n x k; timed on the device that is "
        "named.\n# Written by `logos tune`, read by -D tune=FILE and the key tune of [target.cuda].\n"
        'schema = "logos.cuda.tune"\nversion = 1\nfound_by = "timing"\ndevice = "a ?GPU?"\ncrossover = 9\n\n'
        '[subtiles.sm_80]\n"64x1536x576" = 6\n\n[subtiles.sm_90]\n"20x9x64" = 4\n"512x9x64" = 8\n'
    )
    assert read_tuning(Source("tune.toml", text)) == Tuning(TIMING, "a ?GPU?", 9, TUNED.shapes)
    plain = tuning_text(Tuning())
    assert "not timed: what a model expects" in plain
    assert read_tuning(Source("tune.toml", plain)) == Tuning(MODEL)


GOOD = tuning_text(TUNED)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("crossover = 9", "crossover = ", ":7: not TOML: Invalid value [bad-toml]"),
        ("logos.cuda.tune", "logos", ":3: schema: it is no tune.toml: its schema is not 'logos.cuda.tune' [bad-tune]"),
        ("version = 1", "version = 2", ":4: version: this LOGOS reads version 1 of it [bad-tune]"),
        ("version = 1", "version = true", ":4: version: this LOGOS reads version 1 of it [bad-tune]"),
        ('"timing"', '"guess"', ":5: found_by: found_by is model or timing [bad-tune]"),
        ('"a ?GPU?"', "7", ":6: device: a string is due [bad-tune]"),
        ("crossover = 9", "crossover = 0", ":7: crossover: crossover is a number from 1 on [bad-tune]"),
        ("crossover", "crosover", ":7: crosover: unknown key crosover; did you mean crossover? [bad-tune]"),
        ("[subtiles.sm_80]", "[subtiles.gpu]", ":9: subtiles.gpu: gpu is no architecture, such as sm_90 [bad-tune]"),
        ("64x1536x576", "64x1536",
         ':10: subtiles.sm_80.64x1536: 64x1536 is no shape, such as 64x1536x576 (m, n, k) [bad-tune]'),
        ("= 6", "= 5", ":10: subtiles.sm_80.64x1536x576: the subtiles are one of 2, 4, 6, 8 [bad-tune]"),
        ("[subtiles.sm_80]\n", "[subtiles]\nsm_80 = 1\n#", ":10: subtiles.sm_80: a table is due [bad-tune]"),
    ],
)  # fmt: skip
def test_a_tuning_that_is_not_sound_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = tmp_path / "tune.toml"
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    file.write_text(text, "utf-8")
    first = refused(tmp_path, PRODUCT, q8="W", tune=str(file))[0].split("\n")[0]
    assert re.sub(r"^(\S+:\d+):\d+:", r"\1:", first) == f"{file}{said}"


@pytest.mark.parametrize(
    ("text", "q8", "has"),
    [
        (PRODUCT, "none", "its weight W in float32"),
        (PRODUCT.replace("x matmul W", "x plus x"), "none", "0 matmuls"),
        (PRODUCT + "Let z be x matmul W.\n", "W", "2 matmuls"),
        (PRODUCT + "Let t be a 3 by 9 tensor of Real.\nLet r be row 0 of y.\nSet row 0 of t to r.\n"
         "Let z be row 0 of t.\n", "W", "the state t"),
    ],
)  # fmt: skip
def test_a_program_that_is_no_product_is_refused(tmp_path: Path, text: str, q8: str, has: str) -> None:
    said = refused(tmp_path, text, q8=q8, kind="gemm")
    assert said[-1] == (
        f"{tmp_path}/p.lg: kind gemm takes a program with one matmul by a weight in Q8_0 and no state; this one has "
        f"{has} [not-a-gemm]\n  next: name the weight in -D q8=NAME, or leave the option kind out"
    )


def test_a_job_of_the_kind_writes_its_source(tmp_path: Path) -> None:
    (artifact,) = CudaTarget().emit(job_of(tmp_path, PRODUCT, q8="W", kind="gemm"))
    assert artifact.path == "gemm.cu"
    assert "gemm_q8<2, 4>(" in artifact.text
    assert "captured_graph(make_launches" in artifact.text
    said = next(choice_notes(job_of(tmp_path, PRODUCT, q8="W", kind="gemm")))
    assert said.startswith("1 weight in Q8_0, 0.0 MB, multiplied mma (-D q8")


def reference(n: int, k: int) -> Q8Reference:
    return Q8Reference(n, k, Path("folder/w.q"), Path("folder/w.s"))


@pytest.mark.parametrize(
    ("nt", "rows", "weight", "what"),
    [
        (3, 1, reference(9, 64), "nt is 3; there are kernels for 2, 4, 6, 8"),
        (2, 0, reference(9, 64), "rows is 0; there is at least one"),
        (2, 1, Q8Reference(9, 64, Path("w.q"), Path("v.s")), "w.q and v.s are not named alike"),
    ],
)
def test_what_a_gemm_is_not_emitted_of(nt: int, rows: int, weight: Q8Reference, what: str) -> None:
    with pytest.raises(ValueError, match="^" + what.replace(".", r"\.")):
        emit_marlin_q8_gemm(nt, rows, weight)


def test_a_depth_beyond_the_kernel_is_refused_with_its_limit() -> None:
    with pytest.raises(ForwardError) as caught:
        emit_marlin_q8_gemm(2, 1, reference(9, (1 << 22) + 32))
    (refusal,) = caught.value.refusals
    assert refusal.what == "matmul: W in Q8_0 by mma: k is 4,194,336; the kernel takes up to 4,194,304"


def test_an_emitted_gemm_runs_on_its_weight_s_files(tmp_path: Path) -> None:
    """The same numbers captured and plain, and those of the quants."""
    random = np.random.default_rng(1)
    quants, x = random.integers(-127, 128, (70, 96), dtype=np.int8), random.integers(-127, 128, (20, 96))
    x[:, ::32] = 127
    scales = np.exp2(random.integers(-1, 1, (70, 3))).astype(np.float32)
    (tmp_path / "weights").mkdir()
    quants.tofile(tmp_path / "weights" / "w.q")
    scales.tofile(tmp_path / "weights" / "w.s")
    x.astype("<f4").tofile(tmp_path / "x.f32")
    source = tmp_path / "gemm.cu"
    source.write_text(emit_marlin_q8_gemm(4, 20, reference(70, 96)), "utf-8")
    compile_host(source, tmp_path / "gemm", flags=("-O0",))
    due = x.astype(np.float64) @ (quants * np.repeat(scales, 32, axis=1).astype(np.float64)).T
    for more in ([], ["--no-graph"], ["--repeat", "2"]):
        command = [tmp_path / "gemm", "--set", f"x={tmp_path}/x.f32", *more]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert np.array_equal(np.array(ran.stdout.split(), np.float32).reshape(20, 70), due)
    assert ran.stderr.startswith("2 times, ")


def test_the_library_takes_mma_for_several_rows() -> None:
    graph = read_program(Source("p.lg", PRODUCT), make_manager().grammar)
    weight = {"W": reference(9, 64)}
    made = forward_graph(graph, weight, multiply=Multiply.MMA)
    assert [kernel.name for kernel in made.kernels] == ["quantize_kernel", "gemm_q8_2_kernel"]
    one = read_program(Source("p.lg", FEW), make_manager().grammar)
    assert "gemm" not in emit_forward(forward_graph(one, weight, multiply=Multiply.MMA))


def test_prompts_of_a_program_that_generates_go_to_the_tensor_cores() -> None:
    text = (
        "Let tok be a 1 by 1 tensor of Int.\nLet emb be a 9 by 64 tensor of Real.\n"
        "Let W be a 64 by 9 tensor of Real.\nLet K be a 9 by 9 tensor of Real.\nLet pos be a 1 by 1 tensor of Int.\n"
        "Let x be row tok of emb.\nLet l be x matmul W.\nSet row pos of K to l.\nLet next be argmax of l.\n"
    )
    program = read_program(Source("p.lg", text), make_manager().grammar)
    weight = {"W": reference(9, 64)}
    assert "gemm_q8<" in emit_generate(program, weight, multiply=Multiply.MMA)
    assert "gemm_q8<" not in emit_generate(program, weight)
