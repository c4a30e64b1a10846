"""The host stand-in on aarch64: its programs cross-compiled, run under an emulator, saying what they say here."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cuda_host import ORDERS, build, run
from test_cuda_host_faults import FAULTS

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
CASES = {
    "collectives": (
        *("shuffles", "halves", "partial", "early", "active", "multiply", "copies", "places", "race", "barrier"),
    ),
    # A division by zero ends no program there, as on a GPU.
    "faults": tuple(case for case in FAULTS if case != "divides"),
    "memory": ("inside", "unwritten", "freed"),
    "numbers": ("narrow", "widen", "half_sums", "bfloat16_sums", "integers", "roundings", "atomics"),
    "runtime": ("launches", "copies", "streams", "replays", "captures"),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
        reason="needs an aarch64 compiler and emulator: apt-get install g++-aarch64-linux-gnu qemu-user",
    ),
]


@pytest.mark.parametrize("name", CASES)
def test_the_programs_say_on_aarch64_what_they_say_here(name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "here", tmp_path / "aarch64"]
    for folder in folders:
        folder.mkdir()
    here = build(name, folders[0])
    there = build(name, folders[1], compiler=COMPILER, flags=["-static"])
    words = np.random.default_rng(3).integers(0, 2**32, (6000, 3), dtype=np.uint32)
    for case in CASES[name]:
        # Positive and finite where the bits of a NaN would be the processor's own.
        data = (words & 0x5FFFFFFF if case == "roundings" else words).tobytes()
        for order in ORDERS[: 1 if case == "shuffles" else None]:
            ran = [run(here, case, data=data, order=order, threads=1, poison=True)]
            ran += [run(there, case, data=data, order=order, threads=1, poison=True, prefix=[EMULATOR])]
            said = [(result.returncode, result.stderr, result.stdout) for result in ran]
            assert said[0] == said[1], (case, order)
            assert said[0][0] == (86 if name == "faults" or case == "freed" else 0)
