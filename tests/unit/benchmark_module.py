"""A benchmark as a module, and what it prints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def told(benchmark: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Its exit code, and what it wrote to both outputs."""
    sys.argv = [f"{benchmark.__name__}.py", *arguments]
    code = benchmark.main()
    return (code, *capsys.readouterr())
