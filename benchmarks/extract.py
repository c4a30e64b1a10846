"""Extraction of a random Q8_0 checkpoint to `.q` and `.s`, against `cp` with fsync and gguf's dequantizer.

The three run in turn on the same file in the same run; the ratios are what counts.

    python benchmarks/extract.py [--gigabytes 1] [--folder DIR] [--repeat 5]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

K, ROWS = 4096, 4096
BLOCK_BYTES = 34
TENSOR_BYTES = ROWS * K // 32 * BLOCK_BYTES
AIM = 0.5
MEMORY = 300

EXTRACT = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from logos.cli.main import cli
program, checkpoint, out = sys.argv[1:]
cli.main(["extract", program, "--checkpoint", checkpoint, "--weights-format", "q8", "--out", out, "-q"],
         prog_name="logos", standalone_mode=False)
def sync(file):
    with open(file, "rb") as made:
        os.fsync(made.fileno())
with ThreadPoolExecutor(8) as pool:
    list(pool.map(sync, Path(out).iterdir()))
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(line.split()[1])
"""


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def write_checkpoint(folder: Path, gigabytes: float) -> tuple[Path, Path, int]:
    """A GGUF file of random Q8_0 matrices and the program that reads them; their paths and the file's bytes."""
    count = max(1, round(gigabytes * 1e9 / TENSOR_BYTES))
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for number in range(count):
        head += text(f"blk.{number}.attn_output.weight")
        head += struct.pack("<I2QIQ", 2, K, ROWS, 8, number * TENSOR_BYTES)
    checkpoint, program = folder / "random.gguf", folder / "random.lg"
    random = np.random.default_rng(1)
    with checkpoint.open("wb") as file:
        file.write(head + b"\0" * (-len(head) % 32))
        for _ in range(count):
            blocks = random.integers(0, 256, (TENSOR_BYTES // BLOCK_BYTES, BLOCK_BYTES), dtype=np.uint8)
            # Scales of a model's size: float16 from 2^-7 to 2^-5.
            blocks[:, 1] = 0x20 | (blocks[:, 1] & 7)
            file.write(blocks.tobytes())
        file.flush()
        os.fsync(file.fileno())
    lines = [f"Let x0 be a 1 by {K} tensor of Real."]
    for number in range(count):
        lines.append(f"Let Wo{number} be a {K} by {ROWS} tensor of Real.")
        lines.append(f"Let x{number + 1} be x{number} matmul Wo{number}.")
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return checkpoint, program, checkpoint.stat().st_size


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--reflink=never", source, target], check=True)
    with target.open("rb") as made:
        os.fsync(made.fileno())


def extract(checkpoint: Path, program: Path, out: Path) -> int:
    """Runs `logos extract`, files synced; its peak memory in kB."""
    command = [sys.executable, "-c", EXTRACT, program, checkpoint, out]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def dequantize(checkpoint: Path, count: int) -> None:
    """gguf's dequantizer over the first tensors' bytes, nothing written."""
    from gguf import GGMLQuantizationType
    from gguf import dequantize as decode

    data = np.memmap(checkpoint, np.uint8, "r")[-count * TENSOR_BYTES :]
    for tensor in data.reshape(count, ROWS, -1):
        decode(tensor, GGMLQuantizationType.Q8_0)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the checkpoint [1]")
    parser.add_argument("--folder", type=Path, help="where to work [a temporary folder]")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, in turn; the median counts [5]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        checkpoint, program, size = write_checkpoint(folder, options.gigabytes)
        print(f"checkpoint: {size / 1e9:.3f} GB of Q8_0, read once before the clock starts")
        copy(checkpoint, folder / "copy")
        copies, extractions, peaks = [], [], []
        for _ in range(options.repeat):
            (folder / "copy").unlink(missing_ok=True)
            copies.append(timed(lambda: copy(checkpoint, folder / "copy")))
            shutil.rmtree(folder / "out", ignore_errors=True)
            extractions.append(timed(lambda: peaks.append(extract(checkpoint, program, folder / "out"))))
        share = min(3, size // TENSOR_BYTES)
        decoding = timed(lambda: dequantize(checkpoint, share))
    ours, theirs = size / statistics.median(extractions), size / statistics.median(copies)
    ratio = statistics.median(one / other for one, other in zip(copies, extractions, strict=True))
    gguf = share * TENSOR_BYTES / decoding
    print(f"cp, fsync:                 {theirs / 1e9:.2f} GB/s")
    print(f"logos extract, fsync:      {ours / 1e9:.2f} GB/s of input, the start of Python included")
    print(f"gguf's dequantizer:        {gguf / 1e9:.3f} GB/s of input, nothing written")
    print(f"logos / cp:                {ratio:.0%} (aim: at least {AIM:.0%})")
    print(f"logos / gguf:              {ours / gguf:.1f} times")
    print(f"peak memory (VmHWM):       {max(peaks) / 1000:.0f} MB (aim: below {MEMORY} MB)")
    return 0 if ratio >= AIM and max(peaks) < MEMORY * 1000 else 1


if __name__ == "__main__":
    sys.exit(main())
