"""`logos tune`: from the compiler's report and a model, by timing, what it refuses, and that a build takes its file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_cuda_choice import job_of
from test_cuda_gemm import PRODUCT

from logos import Refused, Source
from logos.cli.main import cli
from logos_cuda import choice, tuning
from logos_cuda.executables import host_executable
from logos_cuda.gpu import Gpu
from logos_cuda.options import Options
from logos_cuda.ptxas import Report, reports, resident_blocks
from logos_cuda.target import graph_of
from logos_cuda.tiling import SUBTILES
from logos_cuda.tuning_file import TIMING, read_tuning

SAID = """\
ptxas info    : Compiling entry function 'gemm_q8_8_kernel' for 'sm_80'
ptxas info    : Function properties for gemm_q8_8_kernel
    16 bytes stack frame, 20 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 416 bytes cmem[0]
ptxas info    : Compiling entry function 'sum' for 'sm_90'
ptxas info    : Function properties for sum
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 128 bytes smem
"""
REGISTERS = {2: 116, 4: 165, 6: 221, 8: 254}
FEW = PRODUCT.replace("20 by", "1 by")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, and a compiler that is asked nothing."""

    def report(text: str, arch: str, toolkit: object) -> tuple[Report, ...]:
        assert text.count("__global__") == len(SUBTILES)
        return tuple(Report(f"gemm_q8_{nt}_kernel", arch, count, 0, 0, 0) for nt, count in REGISTERS.items())

    monkeypatch.setattr(tuning, "find_gpu", lambda: None)
    monkeypatch.setattr(tuning, "find_toolkit", lambda: None)
    monkeypatch.setattr(tuning, "architectures", lambda names, toolkit: names)
    monkeypatch.setattr(tuning, "compile_report", report)


def test_the_compiler_s_report_is_read() -> None:
    assert list(reports(SAID)) == [
        Report("gemm_q8_8_kernel", "sm_80", 255, 16, 44, 0), Report("sum", "sm_90", 12, 0, 0, 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "registers", "threads", "shared", "held"),
    [
        ("sm_80", 116, 256, 74_752, 2),  # 2 by registers (120 a thread), 2 by shared memory
        ("sm_80", 128, 256, 0, 2),
        ("sm_80", 129, 256, 0, 1),
        ("sm_120", 32, 256, 74_752, 1),
        ("sm_90", 32, 1024, 0, 2),
        ("sm_90", 16, 32, 0, 32),
        ("sm_120", 16, 1024, 0, 1),
        ("sm_120", 16, 32, 100 << 10, 0),
    ],
)
def test_what_a_multiprocessor_holds(arch: str, registers: int, threads: int, shared: int, held: int) -> None:
    assert resident_blocks(arch, threads, registers, shared) == held


def test_the_model_takes_large_tiles_for_large_products_and_small_ones_for_few() -> None:
    def best(m: int, n: int) -> int:
        return min(SUBTILES, key=lambda nt: tuning.clocks("sm_90", REGISTERS[nt], (m, n, 4096), nt))

    assert best(64, 2048) == 2
    assert best(512, 65_536) > 2
    twice, once = (tuning.clocks("sm_90", 116, (64, 2048, k), 2) for k in (8192, 4096))
    assert twice == 2 * once


def test_without_a_gpu_a_file_says_that_nothing_was_timed(
    no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.lg").write_text(FEW, "utf-8")
    out = tmp_path / "tune.toml"
    given = [str(tmp_path / "p.lg"), "--target", "cuda", "-D", "q8=W", "-o", str(out)]
    cli.main(["tune", *given], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == [
        " arch   m  n   k  nt  registers  spilled  shared bytes  blocks held  clocks  of the next",
        "sm_80  64  9  64   2        116        0         74752            2  1084.0         0.51",
        "sm_90  64  9  64   2        116        0         74752            2   785.3         0.68",
        "crossover: 16 rows",
        "not timed: registers are ptxas's, the rest is a model of occupancy; time it with `logos tune` on the device",
        f"wrote {out}; next: build with -D tune={out}",
    ]
    text = out.read_text("utf-8")
    assert 'found_by = "model"\ncrossover = 16\n\n[subtiles.sm_80]\n"64x9x64" = 2\n' in text
    cli.main(["tune", *given, "--json"], standalone_mode=False)
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["arch"], first["nt"], first["registers"]) == ("sm_80", 2, 116)
    job = job_of(tmp_path, PRODUCT, q8="W", tune=str(out))
    assert graph_of(job).stages[0].launches[-1].kernel.name == "gemm_q8_2_kernel"


def test_a_build_of_a_project_takes_its_file(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PRODUCT, "utf-8")
    (tmp_path / "tune.toml").write_text(
        'schema = "logos.cuda.tune"\nversion = 1\nfound_by = "model"\ncrossover = 4\n'
        '[subtiles.sm_90]\n"20x9x64" = 8\n', "utf-8",
    )  # fmt: skip
    (tmp_path / "logos.toml").write_text(
        '[project]\nname = "p"\nprogram = "p.lg"\n[target.cuda]\ncompile = "off"\nq8 = ["W"]\ntune = "tune.toml"\n',
        "utf-8",
    )
    run = subprocess.run([sys.executable, "-m", "logos", "build", "-q"], cwd=tmp_path, check=False)
    assert run.returncode == 0
    (source,) = tmp_path.rglob("forward.cu")
    assert "gemm_q8<8, 2>(" in source.read_text("utf-8")


def test_native_is_this_machine_s_gpu_and_a_tuning_of_others_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tuned = tmp_path / "tune.toml"
    tuned.write_text(
        'schema = "logos.cuda.tune"\nversion = 1\nfound_by = "model"\ncrossover = 4\n'
        '[subtiles.sm_90]\n"20x9x64" = 8\n[subtiles.sm_120]\n"20x9x64" = 4\n', "utf-8",
    )  # fmt: skip

    def notes(gpu: str | None, arch: str, **options: str) -> tuple[str, list[str]]:
        monkeypatch.setattr(choice, "find_gpu", lambda: None if gpu is None else Gpu("Some GPU", gpu))
        job = job_of(tmp_path, PRODUCT, q8="W", arch=arch, compile="off", tune=str(tuned), **options)
        kernel = graph_of(job).stages[0].launches[-1].kernel.name
        return kernel, [note for note in choice.choice_notes(job) if "tune.toml" in note]

    assert notes("sm_120", "native") == ("gemm_q8_4_kernel", [])
    assert notes("sm_90", "native") == ("gemm_q8_8_kernel", [])
    assert notes("sm_75", "native") == ("matvec_q8_by_warps_rows_kernel", [])
    said = "tune.toml has tiles for sm_90, sm_120 and none for sm_80, sm_86: they are as without it (-D arch)"
    kernel, found = notes(None, "sm_80,sm_86")
    assert (kernel, [note.removeprefix(f"{tmp_path}/") for note in found]) == ("gemm_q8_2_kernel", [said])
    with pytest.raises(Refused) as caught:
        notes("sm_75", "native", multiply="mma")
    assert caught.value.refusals[0].text() == (
        "multiply: mma takes devices from sm_80 on; arch names sm_75 [no-multiply]\n"
        "  next: leave out those architectures, or name dp4a"
    )


def timed(monkeypatch: pytest.MonkeyPatch, times: dict[str, float]) -> list[Sequence[str]]:
    """A GPU whose timing program says these microseconds by the kernel's number; dp4a's grow with the rows."""
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str]) -> float:
        asked.append(words)
        return times[words[0]] if words[0] in times else float(words[3])

    monkeypatch.setattr(tuning, "find_gpu", lambda: Gpu("Some GPU", "sm_90"))
    monkeypatch.setattr(tuning, "timer", lambda gpu, options: run)
    return asked


def test_on_a_gpu_it_is_timed(no_gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = timed(monkeypatch, {"0": 30.0, "1": 20.0, "2": 25.0, "3": 40.0})
    said: list[str] = []
    report = tuning.tune(job_of(tmp_path, PRODUCT, q8="W"), said.append)
    found = read_tuning(Source("tune.toml", report.text))
    assert (found.found_by, found.device, found.crossover) == (TIMING, "Some GPU", 32)
    assert [(one.arch, one.m, one.nt) for one in found.shapes] == [("sm_90", 20, 4)]
    assert said == ["timing on Some GPU (sm_90)"]
    assert report.rows[0][-2:] == (20.0, "0.80")
    assert asked[0] == ("0", "1", "74752", "20", "9", "64", "50")
    timed(monkeypatch, dict.fromkeys("0123", 1000.0))
    assert "crossover: 256 rows" in tuning.tune(job_of(tmp_path, PRODUCT, q8="W"), said.append).notes
    monkeypatch.setattr(tuning, "find_gpu", lambda: Gpu("Old GPU", "sm_75"))
    with pytest.raises(Refused) as caught:
        tuning.tune(job_of(tmp_path, PRODUCT, q8="W"), said.append)
    assert caught.value.refusals[0].text() == (
        "arch: sm_75 has no tensor cores for bytes of this kind; the kernel takes sm_80 and later [unknown-arch]\n"
        "  next: name some such as sm_80, sm_86, sm_89, sm_90, sm_100, sm_120"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"q8": "none"},
         "p.lg: no product by a weight in Q8_0 could go to the tensor cores [nothing-to-tune]\n"
         "  next: name weights with -D q8=NAME,…"),
        ({"q8": "W", "device": "gpu"},
         "gpu: device gpu asks for this machine's GPU, and it has none [no-gpu]\n  next: leave that out"),
        ({"q8": "W", "arch": "sm_103"},
         "arch: the model has no figures of sm_103 [unknown-arch]\n"
         "  next: name some of sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, or tune on the device"),
    ],
)  # fmt: skip
def test_what_is_not_tuned_is_refused(no_gpu: None, tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(Refused) as caught:
        tuning.tune(job_of(tmp_path, PRODUCT, **options), str)
    assert [one.text().removeprefix(f"{tmp_path}/") for one in caught.value.refusals] == [said]


def test_a_target_without_kernels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PRODUCT, "utf-8")
    with pytest.raises(Refused) as caught:
        cli.main(["tune", str(tmp_path / "p.lg"), "--target", "rdu-sambaflow"], standalone_mode=False)
    assert caught.value.refusals[0].text() == (
        "target rdu-sambaflow: the target rdu-sambaflow has nothing to tune [no-tuning]\n"
        "  next: tune a target that has: cuda"
    )


@pytest.mark.slow
def test_the_timing_program_runs_every_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the host, with a GPU's name: its numbers are none, its shapes are."""
    monkeypatch.setenv("LOGOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "gpu_executable", lambda source, arch, options: host_executable(source))
    monkeypatch.setattr(tuning, "_TIMES", 1)
    run = tuning.timer(Gpu("Some GPU", "sm_90"), Options())
    for nt in (0, *SUBTILES):
        assert run(tuning.product_words((20, 70, 96), nt)) > 0
    for shape in ((9, 70, 4096), (1, 70, 96), (1, 70, 4096), (9, 3000, 4096)):
        assert run(tuning.product_words(shape, 0)) > 0
    assert run(tuning.quantizing_words((9, 70, 4096))) > 0
    with pytest.raises(Refused) as caught:
        run(("1", "1", "1000000", "20", "9", "64", "1"))
    assert caught.value.refusals[0].text() == (
        "Some GPU: the timing program failed: shared: invalid argument [cuda-failed]\n  next: run it again"
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
def test_the_default_architectures_are_tuned_by_the_compiler_here(tmp_path: Path) -> None:
    report = tuning.tune(job_of(tmp_path, PRODUCT, q8="W", arch="sm_80,sm_90,sm_120", device="host"), str)
    assert [row[:4] for row in report.rows] == [(arch, 20, 9, 64) for arch in ("sm_80", "sm_90", "sm_120")]
    assert {row[6] for row in report.rows} == {0}
