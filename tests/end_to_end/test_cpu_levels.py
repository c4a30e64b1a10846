"""One model of every kind of layer by the cpu target: the same ids at every level, under sanitizers and under qemu."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from logos import Request, Source, make_job, make_manager
from logos.author import Author, author_program
from logos.execution import write_artifact
from logos_cpu.building import FLAGS, SANITIZING, find_compiler
from logos_cpu.options import Options

PROMPT = "5,9,17,33,2,8,7,6,5,4,3"
"""Longer than what goes at once."""

CROSS, QEMU = "aarch64-linux-gnu-g++", "qemu-aarch64"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def artifact(oracles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of a program that generates, and its weights."""
    folder, checkpoint = tmp_path_factory.mktemp("levels"), oracles / "qwen35moe-tiny/qwen35moe-tiny-q8_0.gguf"
    manager = make_manager()
    source = Source("m.lg", author_program(manager, Author(checkpoint, 96), None))
    options = {"kind": "generate", "prefill": 8}
    target, job = make_job(manager, Request(checkpoint, checkpoint, source=source, options=options), "cpu")
    write_artifact(target, job, {}, folder)
    return folder


def built(folder: Path, name: str, compiler: tuple[str, ...], *flags: str) -> Path:
    command = [*compiler, *FLAGS, "-Wall", "-Wextra", "-Werror", *flags, "generate.cpp", "-o", name]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return folder / name


def ids(*command: object) -> list[int]:
    given = [*map(str, command), "--prompt-ids", PROMPT, "-n", "16"]
    ran = subprocess.run(
        given, capture_output=True, text=True, check=False, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    )
    assert ran.returncode == 0, ran.stderr
    return list(map(int, ran.stdout.split()))


@pytest.fixture(scope="module")
def due(artifact: Path) -> list[int]:
    """By plain C++, on one thread."""
    return ids(built(artifact, "plain", find_compiler(Options()), "-DLOGOS_ONLY=0"), "-t", 1)


def test_every_level_that_is_here_says_the_same_at_any_number_of_threads(artifact: Path, due: list[int]) -> None:
    # GCC 12 takes its own header of AVX-512 for one that reads what it has not set.
    program = built(artifact, "all", find_compiler(Options()), "-Wno-uninitialized", "-Wno-maybe-uninitialized")
    assert len(due) == 16
    tried = 0
    for level in ("plain", "avx2", "avxvnni", "avx512", "dotprod"):
        for threads in (1, 2, 3):
            ran = subprocess.run([program, "--level", level, "--list"], capture_output=True, check=False)
            assert ran.returncode == 0
            given = [program, "--level", level, "-t", str(threads), "--prompt-ids", PROMPT, "-n", "16"]
            done = subprocess.run(given, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                assert list(map(int, done.stdout.split())) == due
                tried += 1
            else:
                assert "this processor has not what" in done.stderr or "there is no" in done.stderr
    assert tried >= 3


STAND_IN = """\
#include <immintrin.h>
inline __m256i dot_of_bytes(__m256i sums, __m256i a, __m256i b) {
    int sum[8];
    unsigned char x[32];
    signed char y[32];
    _mm256_storeu_si256((__m256i *)sum, sums);
    _mm256_storeu_si256((__m256i *)x, a);
    _mm256_storeu_si256((__m256i *)y, b);
    for (int i = 0; i < 32; i++) sum[i / 4] += x[i] * y[i];
    return _mm256_loadu_si256((const __m256i *)sum);
}
#define _mm256_dpbusd_avx_epi32 dot_of_bytes
"""
"""AVX-VNNI's instruction, of which few processors have the form that level 2 takes."""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="takes an x86 processor")
def test_avxvnni_says_the_same_by_a_stand_in(artifact: Path, due: list[int]) -> None:
    (artifact / "vnni.h").write_text(STAND_IN, "utf-8")
    flags = ("-DLOGOS_ONLY=2", "-DLOGOS_PORTABLE", "-mavx2", "-mfma", "-mf16c", "-include", "vnni.h")
    program = built(artifact, "avxvnni", find_compiler(Options()), *flags)
    assert ids(program, "-t", 2, "--level", "avxvnni") == due


@pytest.mark.skipif(shutil.which("clang++") is None, reason="takes clang++")
def test_clang_s_program_says_the_same(artifact: Path, due: list[int]) -> None:
    assert ids(built(artifact, "clang", ("clang++",)), "-t", 2) == due


def test_sanitizers_find_nothing(artifact: Path, due: list[int]) -> None:
    program = built(artifact, "sanitized", find_compiler(Options()), *SANITIZING, "-Wno-error")
    assert ids(program, "-t", 2) == due


@pytest.mark.skipif(
    shutil.which(CROSS) is None or shutil.which(QEMU) is None, reason=f"takes {CROSS} and {QEMU} (Debian's qemu-user)"
)
def test_neon_says_the_same_under_qemu(artifact: Path, due: list[int]) -> None:
    program = built(artifact, "neon", (CROSS,), "-static")
    assert ids(QEMU, program, "-t", 2, "--level", "dotprod") == due
    assert ids(QEMU, program, "-t", 1, "--level", "plain") == due
