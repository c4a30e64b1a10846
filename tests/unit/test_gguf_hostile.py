"""Files made to hurt: one refusal that names the fault, soon, in little memory, and nothing written."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguf_faults import BROKEN, SMALL
from gguf_writer import Info, Raw, gguf, text
from logos_gguf.container import MOST_STRINGS, MOST_TENSORS

SECONDS = 2
KILOBYTES = 300_000

# Each command on each file, in one process; what each came to with its seconds of computing (alone on a machine it
# takes as long on the clock; a busy one would make a flaky test of that), and the most memory that any took.
COMMANDS = """
import json, os, sys, time
from pathlib import Path
from logos.cli.main import cli
from logos.refusal import Refused
sys.stdout = open(os.devnull, "w")
out = sys.argv[2]
with open(out + ".lg", "w") as program:
    program.write("Let Wo0 be a 4 by 3 tensor of Real.\\nLet x be a 1 by 4 tensor of Real.\\nLet y be x matmul Wo0.")
records = []
for path in sorted(Path(sys.argv[1]).iterdir()):
    for command in (
        ["inspect", path], ["author", path, "-o", out + "/p.lg"],
        ["extract", out + ".lg", "--checkpoint", path, "--weights-format", "raw", "--out", out],
    ):
        started, refusals = time.process_time(), []
        try:
            cli.main(list(map(str, command)), prog_name="logos", standalone_mode=False)
        except Refused as refused:
            refusals = [[one.code, one.text()] for one in refused.refusals]
        records.append([path.name, command[0], refusals, time.process_time() - started])
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
json.dump({"records": records, "peak": int(peak)}, sys.stderr)
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads a process's peak memory from Linux's /proc"
)


def run_commands(files: Path, out: Path) -> list[tuple[str, str, list[tuple[str, str]], float]]:
    """What inspect, author and extract came to on every file; asserts their memory and that they wrote nothing."""
    command = [sys.executable, "-c", COMMANDS, os.fspath(files), os.fspath(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stderr)
    assert found["peak"] < KILOBYTES
    return [tuple(record) for record in found["records"]]


def test_every_command_refuses_every_broken_file_in_time_and_memory_and_writes_nothing(tmp_path: Path) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    due = {}
    for number, (what, (data, code)) in enumerate(BROKEN.items()):
        if data[:4] == b"GGUF":
            (files / f"{number:03}.gguf").write_bytes(data)
            due[f"{number:03}.gguf"] = what, code
    records = run_commands(files, out)
    assert len(records) == 3 * len(due)
    for name, command, refusals, seconds in records:
        what, code = due[name]
        assert [found for found, _ in refusals] == [code], (name, command)
        assert f": {what} [{code}]\n  next: " in refusals[0][1]
        assert seconds < SECONDS
    assert not out.exists()


@pytest.mark.parametrize("step", [pytest.param(37, id="some"), pytest.param(1, id="every", marks=pytest.mark.slow)])
def test_every_command_refuses_a_file_cut_at_any_byte(tmp_path: Path, step: int) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    for cut in range(4, len(SMALL), step):
        (files / f"{cut:04}.gguf").write_bytes(SMALL[:cut])
    records = run_commands(files, out)
    assert len(records) == 3 * len(range(4, len(SMALL), step))
    for name, command, refusals, seconds in records:
        assert [code for code, _ in refusals] == ["broken-checkpoint"], (name, command)
        assert seconds < SECONDS
    assert not out.exists()


def most_tensors(data: bool) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(b"GGUF" + struct.pack("<IQQ", 3, MOST_TENSORS, 0))
            for number in range(MOST_TENSORS):
                file.write(text(f"{number:0256}") + struct.pack("<I4QIQ", 4, 1, 1, 1, 1, 0, 32 * number))
            file.truncate(file.tell() + (32 * MOST_TENSORS + 64 if data else 0))

    return make


def strings(count: int, length: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        head = gguf({"a": Raw(9, struct.pack("<IQ", 8, count))})[:61]
        one = struct.pack("<Q", length) + b"x" * length
        with path.open("wb") as file:
            file.write(head)
            for _ in range(count // 1024):
                file.write(one * 1024)

    return make


def empty_strings(path: Path) -> None:
    with path.open("wb") as file:
        file.write(gguf({"a": Raw(9, struct.pack("<IQ", 8, 2**27 - 100))})[:61])
        file.truncate(2**30)


def metadata(**values: Any) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(gguf({key.replace("__", "."): value for key, value in values.items()})))


def void(_: object) -> None:
    """Takes a value that nobody needs."""


def long_text(key: str, length: int, code: int) -> Callable[[Path], None]:
    """A text of the longest characters."""
    def make(path: Path) -> None:
        path.write_bytes(gguf({"general.architecture": "llama", key: Raw(code, text("🙂".encode() * (length // 4)))}))

    return make


def huge_tensor(path: Path) -> None:
    path.write_bytes(gguf({"general.architecture": "llama"}, {"t": Info((2**20, 2**20), 0, b"", 0)}))
    with path.open("r+b") as file:
        file.truncate(2**42 + 4096)


LARGE = {
    "as many tensors as are allowed, without their data": most_tensors(False),
    "as many tensors as are allowed": most_tensors(True),
    "more strings than are allowed": strings(MOST_STRINGS + 1024, 0),
    "a gigabyte of empty strings": empty_strings,
    "texts for a number a layer": metadata(
        general__architecture="llama", llama__block_count=["x" * 1000] * 60_000
    ),
    "the longest text": long_text("general.name", 1 << 25, 8),
    "a longer text": long_text("general.name", (1 << 25) + 4, 8),
    "the longest text for a number": long_text("llama.block_count", 1 << 25, 8),
    "a tensor of four terabytes": huge_tensor,
}


@pytest.mark.parametrize("case", [
    *LARGE,
    pytest.param("half a gigabyte of strings", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_large_hostile_file_takes_little_time_and_memory(tmp_path: Path, case: str) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    make = strings(MOST_STRINGS, 256) if case == "half a gigabyte of strings" else LARGE[case]
    make(files / "m.gguf")
    try:
        for _, command, refusals, seconds in run_commands(files, out):
            assert command == "inspect" or len(refusals) == 1
            assert seconds < SECONDS
        assert not out.exists()
    finally:
        (files / "m.gguf").unlink()
