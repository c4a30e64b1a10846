"""benchmarks/decode_cuda.py: what it says where it cannot run, and what it makes of what the tools tell."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_module import load_benchmark, told


@pytest.fixture
def decode(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("decode_cuda", monkeypatch)


def test_without_a_gpu_one_line_says_so(
    decode: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decode, "find_gpu", lambda: None)
    assert told(decode, capsys, "m.gguf") == (
        1, "", "there is no GPU here\n  next: run this on a machine with an NVIDIA GPU and its driver\n"
    )  # fmt: skip


def test_rates_stand_beside_llama_cpp_and_the_bound(
    decode: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of a model of 1 GB that caches 1 kB a position, on a card that copies at 1 TB/s."""
    from logos_cuda.gpu import Gpu

    bench = [{"n_gen": 128, "n_depth": 0, "avg_ts": 700.5}, {"n_gen": 128, "n_depth": 4096, "avg_ts": 900.0}]
    asked: list[str] = []

    def ran(command: list[str], what: str) -> str:
        asked.append(what)
        if what == "the copy":
            return "1\n" * 2 + "1e12\n" * 10
        if what == "logos author":
            Path(command[command.index("-o") + 1]).write_text("Let emb be a 50 by 8 tensor of Real.\n", "utf-8")
        if what == "logos explain":
            token = {"weights": 999_000_000, "states": 1_000_000, "cached": 4_225_000, "positions": 4225}
            return json.dumps({"token": [{}, token]})
        if what == "generate":
            ids = command[command.index("--prompt-ids") + 1].split(",")
            assert all(0 < int(one) < 50 for one in ids)
            return json.dumps({"tokens_per_second": 950.0 if len(ids) == 1 else 850.0})
        return json.dumps(bench) if what == "llama-bench" else ""

    monkeypatch.setattr(decode, "ran", ran)
    monkeypatch.setattr(decode, "find_gpu", lambda: Gpu("NVIDIA H200", "sm_90"))
    monkeypatch.setattr(decode, "lacking", lambda checkpoint, bench: "")
    assert told(decode, capsys, "m.gguf") == (1, """\
NVIDIA H200 (sm_90), copies at 1,000 GB/s; m.gguf
  behind 0 positions: 950.0 tok/s, llama.cpp 700.5 (1.36 times), 95 % of the bound 999.9
  behind 4,096 positions: 850.0 tok/s, llama.cpp 900.0 (0.94 times), 85 % of the bound 995.9
""", "")
    bench[1]["avg_ts"] = 849.0
    code, out, _ = told(decode, capsys, "m.gguf", "--json")
    record = json.loads(out)
    assert (code, record["copy_bandwidth"], len(record["rates"])) == (0, 1e12, 2)
    assert asked.count("generate") == 12
