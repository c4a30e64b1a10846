"""An extraction that is killed goes on where it ended, and its files are those of an undisturbed run."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gguf_writer import gguf, tensor

sys.path.insert(0, os.fspath(Path(__file__).parents[2] / "benchmarks"))

from extract import write_checkpoint

STEPS = 12
SIDE = 512

# `logos extract` in a process that kills itself once so many bytes are on their way, and that says what it wrote.
RUN = """
import os, sys
from pathlib import Path
import logos.cli.extract as command
from contextlib import contextmanager
limit = float(sys.argv[1])

@contextmanager
def progress(label, quiet=False, in_bytes=False):
    def update(done, total):
        if done > limit * total:
            os.kill(os.getpid(), 9)
    yield update

command.progress = progress
from logos.cli.main import cli
cli.main(["extract", *sys.argv[2:]], prog_name="logos", standalone_mode=False)
written = [line.split()[1] for line in open("/proc/self/io") if line.startswith("wchar")]
print("written", *written)
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="reads what a process wrote from /proc")


def make_model(folder: Path, steps: int = STEPS, side: int = SIDE) -> tuple[Path, Path]:
    """A chain of matrices in Q8_0, F32 and BF16 and the program that multiplies by them."""
    numbers = np.random.default_rng(4)
    tensors = {}
    for number in range(steps):
        if number % 3:
            array = numbers.standard_normal((side, side)).astype(np.float32)
            one = tensor(array, ("F32", "BF16")[number % 2])
        else:
            one = tensor(numbers.integers(0, 100, (side, side // 32 * 34), dtype=np.uint8), "Q8_0")
        tensors[f"blk.{number}.attn_output.weight"] = one
    (folder / "m.gguf").write_bytes(gguf({"general.architecture": "llama"}, tensors))
    lines = [f"Let x0 be a 1 by {side} tensor of Real."]
    for number in range(steps):
        lines.append(f"Let Wo{number} be a {side} by {side} tensor of Real.")
        lines.append(f"Let x{number + 1} be x{number} matmul Wo{number}.")
    (folder / "m.lg").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "m.lg", folder / "m.gguf"


def start(out: Path, model: tuple[Path, Path], form: str, limit: float = 2) -> subprocess.Popen[str]:
    program, checkpoint = model
    arguments = [program, "--checkpoint", checkpoint, "--weights-format", form, "--out", out, "--json"]
    command = [sys.executable, "-c", RUN, str(limit), *map(os.fspath, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def extract(out: Path, model: tuple[Path, Path], form: str, limit: float = 2) -> tuple[int, int]:
    """Extracts, killed beyond `limit` of the bytes; the exit status and the bytes that the process wrote."""
    run = start(out, model, form, limit)
    output, errors = run.communicate(timeout=120)
    assert run.returncode in (0, -9), errors
    return run.returncode, int(output.split()[-1]) if run.returncode == 0 else 0


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def digests(out: Path) -> dict[str, str]:
    found = {}
    for path in out.iterdir():
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while data := file.read(1 << 20):
                digest.update(data)
        found[path.name] = digest.hexdigest()
    return found


def finished(out: Path) -> int:
    """The bytes of what the journal that a kill left calls finished."""
    total = 0
    for journal in out.glob(".*.work/journal"):
        for line in journal.read_bytes().splitlines(keepends=True)[1:]:
            if line.endswith(b"\n"):
                total += sum(count for count, _ in json.loads(line)[1])
    return total


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("form", ["safetensors", "q8"])
def test_killed_again_and_again_it_ends_with_the_same_bytes_and_repeats_nothing(
    tmp_path: Path, model: tuple[Path, Path], form: str
) -> None:
    _, written_at_once = extract(tmp_path / "whole", model, form)
    whole = files(tmp_path / "whole")
    total = sum(map(len, whole.values()))
    assert total <= written_at_once < total + 20_000
    before = 0
    for limit in (0.3, 0.7):
        assert extract(tmp_path / "out", model, form, limit)[0] == -9
        assert [path.name for path in (tmp_path / "out").iterdir() if not path.name.endswith(".work")] == []
        done = finished(tmp_path / "out")
        assert done >= max(before, (limit - 0.25) * total)
        before = done
    code, written = extract(tmp_path / "out", model, form)
    assert code == 0
    assert files(tmp_path / "out") == whole
    assert written < total - before + 20_000


def test_a_changed_checkpoint_begins_anew(tmp_path: Path) -> None:
    made = make_model(tmp_path, 4, 64)
    assert extract(tmp_path / "out", made, "raw", 0.7)[0] == -9
    assert finished(tmp_path / "out") > 0
    changed = bytearray(made[1].read_bytes())
    changed[-1] ^= 1
    made[1].write_bytes(changed)
    extract(tmp_path / "out", made, "raw")
    extract(tmp_path / "whole", made, "raw")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_finished_work_that_was_damaged_is_done_again(tmp_path: Path) -> None:
    made = make_model(tmp_path, 4, 64)
    extract(tmp_path / "whole", made, "safetensors")
    assert extract(tmp_path / "out", made, "safetensors", 0.7)[0] == -9
    (part,) = (tmp_path / "out").glob(".*.work/weights.safetensors")
    damaged = bytearray(part.read_bytes())
    damaged[2000] ^= 1
    part.write_bytes(damaged)
    extract(tmp_path / "out", made, "safetensors")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("form", ["safetensors", "q8"])
def test_a_disk_that_takes_no_more_is_one_refusal_and_nothing_is_left(
    tmp_path: Path, model: tuple[Path, Path], form: str
) -> None:
    program, checkpoint = map(os.fspath, model)
    # A limit on a file's size stands for the full disk: the system refuses the write in the same way.
    limited = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from logos.cli.main import main\nmain(sys.argv[1:])"
    )
    arguments = [program, "--checkpoint", checkpoint, "--weights-format", form, "--out", "out"]
    command = [sys.executable, "-c", limited, "extract", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    name = "out/weights.safetensors" if form == "safetensors" else "out"
    assert done.stderr.startswith(f"{name}: cannot write the file: File too large [unwritable-file]\n  next: ")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("form", ["safetensors", "q8"])
def test_two_extractions_of_one_file_at_once_do_not_disturb_each_other(
    tmp_path: Path, model: tuple[Path, Path], form: str
) -> None:
    extract(tmp_path / "whole", model, form)
    extract(tmp_path / "out", model, form, 0.4)
    runs = [start(tmp_path / "out", model, form) for _ in range(2)]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def killed_at_20_random_moments(folder: Path, made: tuple[Path, Path], form: str) -> None:
    """Kills 20 extractions, and after every fourth lets one end: it writes what was not finished, and no more."""
    moments = random.Random(form)
    started = time.perf_counter()
    extract(folder / "whole", made, form)
    seconds = time.perf_counter() - started
    whole, out = digests(folder / "whole"), folder / "out"
    total = sum(path.stat().st_size for path in (folder / "whole").iterdir())
    kills = useful = 0
    while kills < 20:
        run = start(out, made, form)
        try:
            run.communicate(timeout=moments.uniform(0.3 * seconds, seconds))
        except subprocess.TimeoutExpired:
            run.kill()
            run.communicate()
            kills += 1
            kept = finished(out)
            useful += kept > 0
            if kills % 4:
                continue
            code, written = extract(out, made, form)
            assert code == 0
            assert written < total - kept + 50_000
            print(f"{kills} killed; of {total} bytes {kept} were finished, the next run wrote {written}", flush=True)
        assert digests(out) == whole
        for path in out.iterdir():
            path.unlink()
    assert useful > 5


@pytest.mark.slow
@pytest.mark.parametrize("form", ["safetensors", "q8"])
def test_killed_at_20_random_moments_it_ends_with_the_same_bytes(tmp_path: Path, form: str) -> None:
    killed_at_20_random_moments(tmp_path, make_model(tmp_path, 32, 1536), form)


@pytest.mark.slow
def test_a_gigabyte_killed_at_20_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    checkpoint, program, _ = write_checkpoint(tmp_path, 1)
    killed_at_20_random_moments(tmp_path, (program, checkpoint), "q8")
