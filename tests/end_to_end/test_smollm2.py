"""A real model: SmolLM2-135M-Instruct, its ids, how fast it opens and how little memory its weights take to write."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROMPT = "504,3575,282,4649,314"
IDS = "7042 30 198 198 504 2988 314 42 216 34 32 33 40 29 32 33 29 34 34 216 33 34 42 33"

EXTRACT = """
import sys
from pathlib import Path
from logos.hookspecs import WeightEntry, WeightFile
from logos.job import Request, bind_request, load_graph
from logos.manager import make_manager
from logos.weights.binding import Role
from logos.weights.extract import write_weight_file
from logos.weights.views import TensorView

program, checkpoint, out = map(Path, sys.argv[1:4])
manager, request = make_manager(), Request(program, checkpoint)
binding = bind_request(manager, load_graph(manager, request), request)
entries = tuple(
    WeightEntry(b.name, "F64" if b.role is Role.TABLE else "F32", isinstance(b.view, TensorView) and b.view.transposed)
    for b in binding.leaves
    if b.role in (Role.WEIGHT, Role.TABLE)
)
(path,) = write_weight_file(binding, WeightFile("weights.safetensors", entries), out)
# ru_maxrss counts the parent's memory too where a process starts by vfork.
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(path.stat().st_size, peak)
"""


@pytest.fixture(scope="module")
def program(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("smollm2") / "smollm2.lg"
    command = [sys.executable, "-m", "logos", "author", str(smollm2), "-o", str(path), "--context", "256"]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.mark.slow
def test_the_reference_machine_gives_the_24_ids(smollm2: Path, program: Path) -> None:
    command = [sys.executable, "-m", "logos", "run", str(program), "--checkpoint", str(smollm2)]
    command += ["--tokens", PROMPT, "--generate", "24", "--get", "next"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == IDS


@pytest.mark.slow
def test_opening_with_all_checks_takes_milliseconds(smollm2: Path) -> None:
    from logos_gguf.checkpoint import GGUFCheckpoint

    times = []
    for _ in range(5):
        started = time.perf_counter()
        GGUFCheckpoint(smollm2).close()
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < 0.03


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from Linux's /proc")
def test_its_float32_weights_are_written_within_300_megabytes(smollm2: Path, program: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXTRACT, str(program), str(smollm2), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    size, kilobytes = map(int, done.stdout.split())
    assert size > 4 * 134_000_000
    assert kilobytes < 300_000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from Linux's /proc")
def test_a_prompt_of_256_tokens_goes_many_steps_at_once(smollm2: Path) -> None:
    benchmark = Path(__file__).parents[2] / "benchmarks/prefill.py"
    done = subprocess.run([sys.executable, str(benchmark), str(smollm2)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
