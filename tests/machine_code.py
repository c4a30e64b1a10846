"""Whether this machine has what reads kernels' machine code."""

from __future__ import annotations

import shutil

import pytest

from logos import Refused
from logos_cuda.audit import find_disassembler


def _disassembles() -> bool:
    try:
        find_disassembler()
    except Refused:
        return False
    return shutil.which("nvcc") is not None


needs_disassembler = pytest.mark.skipif(not _disassembles(), reason="needs nvcc on PATH, and nvdisasm")
