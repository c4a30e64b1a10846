"""The host stand-in against a GPU: the same programs, built by nvcc, print the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cuda_host import PROGRAMS, build, run

from logos_cuda.gpu import Gpu, find_gpu
from logos_cuda.host_build import HOST
from logos_cuda.toolkit import find_toolkit

CASES = {
    # Without those that ask what a GPU leaves open: which lanes are active, a copy before its wait, a race, an order.
    "collectives": ("shuffles", "halves", "partial", "early", "multiply", "matrices", "places", "barrier"),
    "numbers": ("narrow", "half_sums", "bfloat16_sums", "integers", "roundings", "atomics"),
    "runtime": ("launches", "replays", "captures"),
}

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    found = find_gpu()
    if found is None:
        pytest.skip("needs an NVIDIA GPU and its driver")
    return found


def build_for_gpu(name: str, folder: Path, arch: str) -> Path:
    """The executable of `tests/cuda/NAME.cu` for a GPU."""
    toolkit = find_toolkit()
    output = folder / name
    flags = ["-std=c++17", f"-arch={arch}", "-fmad=false", f"-I{HOST.parent / 'kernels'}", *toolkit.library_flags]
    command = [os.fspath(toolkit.nvcc), *flags, os.fspath(PROGRAMS / f"{name}.cu"), "-o", os.fspath(output)]
    subprocess.run(command, check=True)
    return output


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_prints_what_the_host_prints(name: str, gpu: Gpu, tmp_path: Path) -> None:
    folders = [tmp_path / "host", tmp_path / "gpu"]
    for folder in folders:
        folder.mkdir()
    programs = [build(name, folders[0]), build_for_gpu(name, folders[1], gpu.arch)]
    words = np.random.default_rng(3).integers(0, 2**32, (6000, 3), dtype=np.uint32)
    for case in CASES[name]:
        # Positive and finite where the bits of a NaN would be the device's own.
        data = (words & 0x5FFFFFFF if case == "roundings" else words).tobytes()
        host, device = (run(program, case, data=data) for program in programs)
        assert (host.returncode, device.returncode) == (0, 0)
        assert host.stdout == device.stdout, case
