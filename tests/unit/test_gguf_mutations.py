"""Damaged GGUF files: a refusal or a success, never a traceback, a hang or growth."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from gguf_faults import SMALL
from logos.check import read_program
from logos.grammar import make_grammar
from logos.hookspecs import AuthorOptions, Family
from logos.ops import OPS
from logos.refusal import Refused
from logos.source import Source
from logos.weights.binding import bind
from logos.weights.values import leaf_values
from logos_gguf.checkpoint import GGUFCheckpoint
from logos_gguf.metadata import Array
from logos_gguf.plugin import logos_families

FAMILIES: dict[str, Family] = {family.name: family for family in logos_families()}
GRAMMAR = make_grammar(OPS)
NUMBERS = [0, 1, 2, 3, 7, 8, 9, 31, 33, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63]
SECONDS = 2


def base_files(oracles: Path) -> dict[str, bytes]:
    """A small file, and one of every family whose small size makes damage likely to count."""
    names = ["llama-tiny-rope3", "qwen3-tiny", "qwen3moe-tiny", "qwen35-tiny", "qwen35moe-tiny"]
    return {"small": SMALL} | {name: (oracles / name / f"{name}-q8_0.gguf").read_bytes() for name in names}


def header_end(data: bytes, path: Path) -> int:
    """The byte at which a sound file's tensors begin."""
    path.write_bytes(data)
    with np.errstate(all="ignore"):
        return min(GGUFCheckpoint(path)._shards[name].starts[name] for name in GGUFCheckpoint(path).tensors)


def damage(random: np.random.Generator, end: int) -> list[tuple[int, bytes]]:
    """A few changes: (byte, what is put there)."""
    changes = []
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(4, end))
        kind = random.integers(0, 3)
        if kind == 0:
            changes.append((at, bytes([int(random.choice([0, 1, 4, 9, 127, 128, 255, random.integers(0, 256)]))])))
        elif kind == 1:
            changes.append((at, int(random.choice(np.array(NUMBERS, np.uint64))).to_bytes(8, "little")))
        else:
            changes.append((at, int(random.choice(np.array(NUMBERS[:13], np.uint64))).to_bytes(4, "little")))
    return changes


def read_all(path: Path, whole: bool) -> str:
    """Opens a file and writes its family's program; `whole`: also binds it and reads what the leaves take."""
    reached = "refused"
    with suppress(Refused):
        checkpoint = GGUFCheckpoint(path)
        reached = "opened"
        for value in checkpoint.metadata.values():
            repr(list(value) if isinstance(value, Array) and len(value) < 1000 else value)
        family = FAMILIES.get(str(checkpoint.metadata.get("general.architecture")))
        if family is not None:
            program = family.author(checkpoint, AuthorOptions(context=8))
            reached = "authored"
            if whole:
                binding = bind(read_program(Source("p.lg", program), GRAMMAR), family, checkpoint)
                for bound in binding.leaves:
                    stored = leaf_values(binding, bound)
                    if stored is not None:
                        next(stored.chunks(1 << 12))
        elif whole:
            for name, tensor in checkpoint.tensors.items():
                checkpoint.float_rows(name, 0, min(tensor.rows, 8))
    return reached


def resident() -> int:
    """This process's memory in kB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its own memory from Linux's /proc")
@pytest.mark.parametrize("count", [
    pytest.param(2_000, id="2,000"),
    pytest.param(100_000, id="100,000", marks=pytest.mark.slow),
])  # fmt: skip
def test_random_damage_ends_in_a_refusal_or_a_success(oracles: Path, tmp_path: Path, count: int) -> None:
    random = np.random.default_rng(count)
    outcomes: Counter[str] = Counter()
    before, slowest = 0, 0.0
    bases = base_files(oracles)
    for number, (name, data) in enumerate(bases.items()):
        # Half of the runs are on the small file, which is read in no time.
        share = count // 2 if name == "small" else count // (2 * (len(bases) - 1))
        path = tmp_path / f"{name}.gguf"
        end = header_end(data, path)
        with path.open("r+b", buffering=0) as file:
            for turn in range(share):
                changes = damage(random, end)
                for at, new in changes:
                    file.seek(at)
                    file.write(new[: len(data) - at])
                started = time.process_time()
                outcomes[read_all(path, whole=name == "small" or turn % 20 == 0)] += 1
                slowest = max(slowest, time.process_time() - started)
                for at, new in changes:
                    file.seek(at)
                    file.write(data[at : at + len(new)])
                if number == 0 and turn == share // 2:
                    before = resident()
    assert sum(outcomes.values()) > 0.99 * count
    assert min(outcomes[reached] for reached in ("refused", "opened", "authored")) > count // 100, outcomes
    assert slowest < SECONDS
    assert resident() - before < 100_000


@pytest.mark.parametrize("count", [
    pytest.param(6, id="6"), pytest.param(300, id="300", marks=pytest.mark.slow)
])  # fmt: skip
def test_a_command_on_a_damaged_file_ends_with_a_refusal_or_a_success(
    oracles: Path, tmp_path: Path, count: int
) -> None:
    random = np.random.default_rng(7)
    bases = list(base_files(oracles).values())
    codes: Counter[int] = Counter()
    for turn in range(count):
        data = bases[turn % len(bases)]
        damaged = bytearray(data)
        for at, new in damage(random, header_end(data, tmp_path / "m.gguf")):
            damaged[at : at + len(new)] = new
        (tmp_path / "m.gguf").write_bytes(damaged[: len(data)])
        out = tmp_path / f"{turn}.lg"
        command = [["inspect", "m.gguf"], ["author", "m.gguf", "-o", os.fspath(out)]][turn // len(bases) % 2]
        done = subprocess.run(
            [sys.executable, "-m", "logos", *command], cwd=tmp_path, capture_output=True, text=True, timeout=30
        )
        codes[done.returncode] += 1
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr
        assert ("  next: " in done.stderr) == (done.returncode == 1)
        assert out.exists() == (done.returncode == 0 and command[0] == "author")
    assert set(codes) == {0, 1}
