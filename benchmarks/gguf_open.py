"""Opening a GGUF checkpoint, all checks on, against the reader of gguf (PyPI).

Both open the same file in the same run, in turn, warm; imports are excluded, the medians count.

    python benchmarks/gguf_open.py SmolLM2-135M-Instruct.Q4_1.gguf [--repeat 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from gguf import GGUFReader

from logos_gguf.checkpoint import GGUFCheckpoint

AIM = 100


def timed(open_it: Callable[[Path], object], path: Path) -> float:
    started = time.perf_counter()
    open_it(path)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="a .gguf file")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each; the median counts [5]")
    options = parser.parse_args()
    path: Path = options.checkpoint
    for opener in (GGUFCheckpoint, GGUFReader):
        opener(path)
    ours, theirs = [], []
    for _ in range(options.repeat):
        ours.append(timed(GGUFCheckpoint, path))
        theirs.append(timed(GGUFReader, path))
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {len(GGUFCheckpoint(path).tensors)} tensors")
    print(f"logos:       {1000 * statistics.median(ours):9.2f} ms")
    print(f"gguf {version('gguf')}: {1000 * statistics.median(theirs):9.2f} ms")
    print(f"ratio:       {ratio:9.0f} times faster (aim: at least {AIM})")
    return 0 if ratio >= AIM else 1


if __name__ == "__main__":
    sys.exit(main())
