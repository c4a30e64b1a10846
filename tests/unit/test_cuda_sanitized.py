"""LOGOS_HOST_SANITIZE: runs on the host by a build with sanitizers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_nvcc import without_nvcc
from toy_build import Toy

import logos_cuda.executables
import logos_cuda.running
from logos_cuda.host_build import compile_host

RIGHT, WRONG = "y[i] = Function::of(x[i]);", "y[i] = Function::of(x[i + n]);"


@pytest.fixture
def silu(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A program to run, on a machine without a GPU."""
    monkeypatch.setattr(logos_cuda.running, "find_gpu", lambda: None)
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path / "cache"))
    toy.write("p.lg", "Let x be a 1 by 3 tensor of Real.\nLet y be silu of x.\n")
    return toy


def test_a_read_beyond_the_end_is_found(silu: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(source: Path, output: Path, sanitize: bool = False) -> None:
        text = source.read_text("utf-8")
        assert RIGHT in text
        source.write_text(text.replace(RIGHT, WRONG), "utf-8")
        compile_host(source, output, sanitize, flags=["-O0"])

    monkeypatch.setattr(logos_cuda.executables, "compile_host", mistaken)
    monkeypatch.setenv("LOGOS_HOST_SANITIZE", "1")
    ran = silu.logos("run", "p.lg", "--fill", "noise", "--engine", "cuda", "-q")
    assert (ran.code, "heap-buffer-overflow" in ran.err) == (3, True)


def test_each_way_of_building_is_kept_apart(silu: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[bool] = []

    def note(source: Path, output: Path, sanitize: bool = False) -> None:
        built.append(sanitize)
        output.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
        output.chmod(0o755)

    monkeypatch.setattr(logos_cuda.executables, "compile_host", note)
    for asked in ("", "1", "0", "1"):
        monkeypatch.setenv("LOGOS_HOST_SANITIZE", asked)
        assert silu.logos("run", "p.lg", "--fill", "noise", "--engine", "cuda", "-q").code == 3
    assert built == [False, True]
