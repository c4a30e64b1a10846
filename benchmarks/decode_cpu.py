"""Decoding and prompts on this machine's processor: LOGOS's cpu target against llama.cpp, alternating in one run.

Of one checkpoint in Q8_0 and as many threads: 64 tokens after a prompt of one and a prompt of 64, as llama-bench counts
tg64 and pp64. The bound is the bytes of the weights at the rate by which as many threads read memory in the same run.

    python benchmarks/decode_cpu.py MODEL-Q8_0.gguf --llama-bench PATH [--threads 1,2] [--runs 5]

Prints medians, ratios and the share of the bound; exits with 1 where LOGOS is slower than llama.cpp in a run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

READ = """\
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int, char **words) {
    const size_t threads = size_t(atoi(words[1])), count = size_t(1) << 27;  // 1 GiB of 64-bit words
    std::vector<uint64_t> words64(count);
    for (size_t i = 0; i < count; i++) words64[i] = i * 0x9e3779b97f4a7c15u;
    std::vector<uint64_t> sums(threads * 8);
    for (int run = 0; run < 5; run++) {
        const auto start = std::chrono::steady_clock::now();
        std::vector<std::thread> all;
        for (size_t t = 0; t < threads; t++)
            all.emplace_back([&, t] {
                uint64_t lanes[32] = {};
                for (size_t i = count / threads * t; i + 32 <= count / threads * (t + 1); i += 32)
                    for (size_t j = 0; j < 32; j++) lanes[j] ^= words64[i + j];
                for (size_t j = 0; j < 32; j++) sums[t * 8] ^= lanes[j];
            });
        for (std::thread &one : all) one.join();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        printf("%.6g\\n", double(count) * 8 / took.count());
    }
    return sums[0] == 1;
}
"""


def ran(command: Sequence[object], what: str) -> str:
    """What a command prints; ends the run where it fails."""
    words = [str(one) for one in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        sys.exit(f"{what} failed (exit code {done.returncode}): {said}\n  next: run it by hand: {' '.join(words)}")
    return done.stdout


def built(checkpoint: Path, folder: Path) -> tuple[Path, int]:
    """The program that generates, with room for 256 positions, and the bytes of weights that a token reads."""
    logos = [sys.executable, "-m", "logos"]
    program, out = folder / "model.lg", folder / "out"
    ran([*logos, "author", checkpoint, "-o", program, "--context", 256, "-q"], "logos author")
    given = ["--target", "cpu", "--checkpoint", checkpoint, "-D", "kind=generate", "--out", out, "-q"]
    ran([*logos, "build", program, *given], "logos build")
    return out / "generate", sum(path.stat().st_size for path in (out / "weights").glob("*.tiles"))


def ours(program: Path, threads: int) -> tuple[float, float]:
    """Tokens a second: of 64 after a prompt of one, and of a prompt of 64 (the second, which finds all in memory)."""
    prompt = ",".join(str(1 + 7 * place) for place in range(64))
    common = [program, "-t", threads, "--json"]
    decode = json.loads(ran([*common, "--prompt-ids", "1", "-n", 65], "generate"))
    twice = ran([*common, "--prompt-ids", prompt, "--prompt-ids", prompt, "-n", 1], "generate").splitlines()
    return float(decode["tokens_per_second"]), 64 / float(json.loads(twice[1])["prompt_seconds"])


def theirs(bench: str, checkpoint: Path, threads: int) -> tuple[float, float]:
    """llama-bench's tg64 and pp64."""
    command = [bench, "-m", checkpoint, "-t", threads, "-p", 64, "-n", 64, "-r", 1, "-o", "json"]
    told = json.loads(ran(command, "llama-bench"))
    rates = {int(one["n_gen"]): float(one["avg_ts"]) for one in told}
    return rates[64], rates[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    slower = False
    with tempfile.TemporaryDirectory(prefix="logos-decode-") as name:
        folder = Path(name)
        program, weights = built(given.checkpoint, folder)
        (folder / "read.cpp").write_text(READ, encoding="utf-8")
        flags = ["-std=c++17", "-O3", "-march=native", "-pthread"]
        ran(["c++", *flags, folder / "read.cpp", "-o", folder / "read"], "c++")
        for threads in map(int, given.threads.split(",")):
            pairs, bounds = [], []
            for _ in range(given.runs):
                read = [float(line) for line in ran([folder / "read", threads], "the read loop").split()]
                bounds.append(max(read) / weights)
                pairs.append((ours(program, threads), theirs(given.llama_bench, given.checkpoint, threads)))
            slower = slower or any(one < other for mine, its in pairs for one, other in zip(mine, its, strict=True))
            for place, what in enumerate(("decode tg64", "prefill pp64")):
                mine, its = ([pair[side][place] for pair in pairs] for side in (0, 1))
                ratios = " ".join(f"{one / other:.2f}" for one, other in zip(mine, its, strict=True))
                medians = f"{statistics.median(mine):.1f} against {statistics.median(its):.1f} tok/s"
                print(f"{threads} threads, {what}: {medians}; ratios {ratios}")
            share = statistics.median(pair[0][0] for pair in pairs) / statistics.median(bounds)
            print(f"{threads} threads: decode at {share:.0%} of the read bound, {statistics.median(bounds):.1f} tok/s")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
