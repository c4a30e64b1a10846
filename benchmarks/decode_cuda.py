"""Decoding on this machine's GPU: LOGOS's cuda target against llama.cpp and the card's copy bandwidth, all in one run.

Of one checkpoint in Q8_0: 128 tokens after a prompt of one, and 128 more behind 4,096 positions, as llama-bench counts
tg128 (`-d 4096`), keys and values in float16 on both sides. The bound is the bytes that a token reads at least, as
`logos explain --json` has them, at the rate by which the card copies memory now.

    python benchmarks/decode_cuda.py MODEL-Q8_0.gguf --llama-bench PATH [--json]

Exits with 1 where there is no GPU, where LOGOS is slower than llama.cpp, and where it is below 85 % of the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from logos_cuda.gpu import find_gpu

DEPTHS, TOKENS, AIM = (0, 4096), 128, 0.85
COPY = """\
#include <stdio.h>

int main() {
    const size_t bytes = size_t(1) << 31;
    char *from, *to;
    cudaEvent_t start, stop;
    if (cudaMalloc(&from, bytes) || cudaMalloc(&to, bytes)) return 1;
    cudaEventCreate(&start), cudaEventCreate(&stop);
    for (int run = 0; run < 12; ++run) {
        float ms = 0;
        cudaEventRecord(start);
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice);
        cudaEventRecord(stop);
        if (cudaEventSynchronize(stop) || cudaEventElapsedTime(&ms, start, stop)) return 1;
        printf("%.9g\\n", 2e3 * double(bytes) / ms);
    }
}
"""


@dataclass(frozen=True)
class Rate:
    """Tokens a second behind so many positions: ours, llama.cpp's, and the bound of the card's bandwidth."""

    positions: int
    ours: float
    llama: float
    bound: float

    @property
    def holds(self) -> bool:
        return self.ours >= self.llama and self.ours >= AIM * self.bound


def ran(command: Sequence[str], what: str) -> str:
    """What a command prints; ends the run where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        by_hand = f"  next: run it by hand: {' '.join(command)}"
        sys.exit(f"{what} failed (exit code {done.returncode}): {lines[0]}\n{by_hand}")
    return done.stdout


def logos(*arguments: object) -> str:
    command = [sys.executable, "-m", "logos", *map(str, arguments)]
    return ran(command, f"logos {arguments[0]}")


def copy_bandwidth(folder: Path) -> float:
    """Bytes a second that the card reads and writes while it copies 2 GiB: the median of ten after two."""
    (folder / "copy.cu").write_text(COPY, encoding="utf-8")
    ran(["nvcc", "-O2", "-o", str(folder / "copy"), str(folder / "copy.cu")], "nvcc")
    return statistics.median([float(line) for line in ran([str(folder / "copy")], "the copy").splitlines()][2:])


def prompt(positions: int, vocabulary: int) -> str:
    """Ids that say nothing: decoding takes as long for any."""
    return ",".join(str(1 + 7 * i % (vocabulary - 1)) for i in range(max(positions, 1)))


def our_rates(checkpoint: Path, folder: Path, repeat: int) -> tuple[dict[int, float], Mapping[str, float]]:
    """Tokens a second by depth, the mean of some runs each; and the bytes of a token as the plan has them: `fixed`, and
    `cached` for each position."""
    program, out = folder / "model.lg", folder / "out"
    context = max(DEPTHS) + TOKENS + 1
    logos("author", checkpoint, "-o", program, "--context", context, "-q")
    given = (program, "--target", "cuda", "--checkpoint", checkpoint)
    logos("build", *given, "--out", out, "-D", "kind=generate", "-D", "arch=native", "-q")
    plan = json.loads(logos("explain", *given, "--json"))
    token = plan["token"][-1]
    work = {"fixed": token["weights"] + token["states"], "cached": token["cached"] / token["positions"]}
    vocabulary = int(re.findall(r"^Let emb be a (\d+) by", program.read_text("utf-8"), re.MULTILINE)[0])
    rates = {}
    for depth in DEPTHS:
        command = [str(out / "generate"), "--prompt-ids", prompt(depth, vocabulary), "-n", str(TOKENS + 1), "--json"]
        told = [json.loads(ran(command, "generate"))["tokens_per_second"] for _ in range(repeat)]
        rates[depth] = statistics.mean(told)
    return rates, work


def their_rates(checkpoint: Path, bench: str, repeat: int) -> dict[int, float]:
    """llama-bench's tg128 by depth."""
    depths = ",".join(map(str, DEPTHS))
    command = [bench, "-m", str(checkpoint), "-p", "0", "-n", str(TOKENS), "-d", depths, "-r", str(repeat)]
    command += ["-ngl", "99", "-fa", "1", "-ctk", "f16", "-ctv", "f16", "-o", "json"]
    told = json.loads(ran(command, "llama-bench"))
    return {int(one["n_depth"]): float(one["avg_ts"]) for one in told if int(one["n_gen"]) == TOKENS}


def lacking(checkpoint: Path, bench: str) -> str:
    """What keeps this machine from the run, with what to do; empty where nothing does."""
    if find_gpu() is None:
        return "there is no GPU here\n  next: run this on a machine with an NVIDIA GPU and its driver"
    if not checkpoint.is_file():
        return f"there is no checkpoint {checkpoint}\n  next: name a GGUF file in Q8_0"
    if shutil.which("nvcc") is None:
        return "there is no nvcc on PATH\n  next: install NVIDIA's toolkit, or put its bin folder on PATH"
    if shutil.which(bench) is None:
        return f"there is no {bench}\n  next: build llama.cpp with CUDA and give --llama-bench build/bin/llama-bench"
    return ""


def rates_of(checkpoint: Path, bench: str, repeat: int) -> tuple[float, tuple[Rate, ...]]:
    """The card's bandwidth, and the rates at each depth."""
    with tempfile.TemporaryDirectory(prefix="logos-decode-") as name:
        folder = Path(name)
        before = copy_bandwidth(folder)
        ours, work = our_rates(checkpoint, folder, repeat)
        theirs = their_rates(checkpoint, bench, repeat)
        bandwidth = statistics.mean((before, copy_bandwidth(folder)))
    rates = []
    for depth in DEPTHS:
        # The cache grows while the tokens are made.
        bytes_ = work["fixed"] + work["cached"] * (depth + TOKENS / 2)
        rates.append(Rate(depth, ours[depth], theirs[depth], bandwidth / bytes_))
    return bandwidth, tuple(rates)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", type=Path, help="A GGUF file in Q8_0.")
    parser.add_argument("--llama-bench", default="llama-bench", help="llama.cpp's benchmark, built with CUDA.")
    parser.add_argument("--repeat", type=int, default=3, help="Runs of each; their mean counts.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object.")
    given = parser.parse_args()
    if why := lacking(given.checkpoint, given.llama_bench):
        print(why, file=sys.stderr)
        return 1
    gpu = find_gpu()
    assert gpu is not None
    bandwidth, rates = rates_of(given.checkpoint, given.llama_bench, given.repeat)
    if given.json:
        print(json.dumps({"gpu": asdict(gpu), "copy_bandwidth": bandwidth, "rates": [asdict(one) for one in rates]}))
    else:
        print(f"{gpu.name} ({gpu.arch}), copies at {bandwidth / 1e9:,.0f} GB/s; {os.path.basename(given.checkpoint)}")
        for one in rates:
            print(
                f"  behind {one.positions:,} positions: {one.ours:,.1f} tok/s, llama.cpp {one.llama:,.1f} "
                f"({one.ours / one.llama:.2f} times), {100 * one.ours / one.bound:.0f} % of the bound {one.bound:,.1f}"
            )
    return 0 if all(one.holds for one in rates) else 1


if __name__ == "__main__":
    sys.exit(main())
