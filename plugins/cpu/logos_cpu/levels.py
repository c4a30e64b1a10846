"""What this machine's processor has, so that a program to be run here alone is built for that alone."""

from __future__ import annotations

from pathlib import Path

LEVELS = {"plain": 0, "avx2": 1, "avxvnni": 2, "avx512": 3, "dotprod": 4}
"""The number by which the emitted text calls each level."""

_NEEDS = {
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"},
    "avxvnni": {"avx2", "fma", "f16c", "avx_vnni"},
    "avx2": {"avx2", "fma", "f16c"},
    "dotprod": {"asimddp"},
}


def level_here() -> str | None:
    """The best level of this processor; None where the system does not say what it has."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return None
    lines = (line.partition(":") for line in text.splitlines())
    flags = next((value.split() for name, _, value in lines if name.strip() in ("flags", "Features")), [])
    here = set(flags)
    return next((level for level, needs in _NEEDS.items() if needs <= here), "plain")
