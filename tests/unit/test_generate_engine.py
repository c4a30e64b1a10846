"""`logos generate --engine`: by a target that generates, as the reference machine does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_nvcc import without_nvcc
from toy_build import Toy

import logos_cuda.running
from gguf_writer import gguf
from logos import Job
from logos.cache import cache_folder

COUNT = 6
"""Tokens: a, b, c, d, the end of a turn, e. Each is followed by the next."""

LINES = [
    "Let tok be a 1 by 1 tensor of Int.",
    "Let pos be a 1 by 1 tensor of Int.",
    f"Let e be a {COUNT} by {COUNT} tensor of Real.",
    *(f"Set item {row * COUNT + (row + 1) % COUNT + 1} of e to 1." for row in range(COUNT)),
    f"Let seen be a 5 by {COUNT} tensor of Real.",
    "Let logits be row tok of e.",
    "Set row pos of seen to logits.",
    "Let next be argmax of logits.",
]
HERE = "there is no GPU here: running the same text on the host's processor\n"


@pytest.fixture(autouse=True)
def _here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU, no toolkit, and one cache for all tests."""
    monkeypatch.setattr(logos_cuda.running, "find_gpu", lambda: None)
    monkeypatch.setenv("PATH", without_nvcc(os.environ["PATH"]))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path_factory.getbasetemp() / "cuda-cache"))


@pytest.fixture
def counting(toy: Toy) -> Toy:
    """A program with room for 5 positions, and its vocabulary."""
    toy.write("p.lg", "\n".join(LINES) + "\n")
    metadata: dict[str, Any] = {
        "general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ("a", "b", "c", "d", "<|im_end|>", "e"),
        "tokenizer.ggml.token_type": [1, 1, 1, 1, 3, 1], "tokenizer.ggml.merges": [],
    }  # fmt: skip
    (toy.folder / "v.gguf").write_bytes(gguf(metadata))
    return toy


def generated(toy: Toy, *more: str, engine: str = "cuda") -> tuple[dict[str, Any], str]:
    ran = toy.logos("generate", "p.lg", "--checkpoint", "v.gguf", "--json", "--engine", engine, *more)
    assert ran.code == 0, ran.err
    return json.loads(ran.out), ran.err


@pytest.mark.parametrize("more", [("a",), ("a", "-n", "2"), ("abc", "-n", "1"), ("eab",), ("e", "-n", "1")])
def test_a_target_says_what_the_reference_machine_says(counting: Toy, more: tuple[str, ...]) -> None:
    said, err = generated(counting, "--prompt", *more)
    assert said == generated(counting, "--prompt", *more, engine="reference")[0]
    assert err.startswith(HERE)
    assert "prompt: " in err


def test_the_text_comes_before_what_is_said_of_the_run(counting: Toy) -> None:
    ran = counting.logos("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "a", "--engine", "cuda", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "bcd", "")


def test_a_full_context_ends_the_text(counting: Toy) -> None:
    counting.write("p.lg", "\n".join(LINES).replace("a 5 by", "a 2 by") + "\n")
    assert generated(counting, "--prompt", "a")[0]["end"] == "context"
    ran = counting.logos("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "aab", "--engine", "cuda")
    assert (ran.code, "the prompt is 3 tokens long; the program has room for 2" in ran.err) == (1, True)


def test_an_engine_that_cannot(counting: Toy) -> None:
    given = ("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "a")
    ran = counting.logos(*given, "--engine", "toy")
    assert (ran.code, ran.err) == (1, (
        "--engine: the target toy does not generate [engine-lacks-generation]\n"
        "  next: engines: reference, cpu, cuda\n"
    ))  # fmt: skip
    unknown = counting.logos(*given, "--engine", "cudo").err
    assert "there is no engine cudo; did you mean cuda? [unknown-engine]" in unknown
    assert counting.logos(*given, "-D", "device=host").code == 2
    assert counting.logos(*given, "--prefill", "2", "--engine", "cuda").code == 2
    other = counting.logos(*given, "--engine", "cuda", "-D", "kind=forward")
    assert (other.code, "cuda generates with kind=generate; leave -D kind out" in other.err) == (2, True), other.err


def test_what_the_target_refuses_is_refused(counting: Toy) -> None:
    given = ("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "a", "--engine", "cuda")
    assert "option prefill of target cuda is 'x'" in counting.logos(*given, "-D", "prefill=x").err
    counting.write("p.lg", "\n".join([*LINES, "Let W be a 2 by 2 tensor of Real.", "Let y be W plus W."]) + "\n")
    assert "the output y is 2 by 2, not one token id [output-not-a-token]" in counting.logos(*given).err
    unfilled = [line for line in LINES if not line.startswith("Set item")]
    counting.write("p.lg", "\n".join(unfilled) + "\n")
    ran = counting.logos(*given)
    assert (ran.code, "e has no value [no-value-given]" in ran.err) == (1, True), ran.err


def test_an_artifact_is_written_once(counting: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path / "cache"))
    (counting.folder / "w").mkdir()
    one = np.eye(COUNT, dtype=np.float32)
    (one + np.roll(one, 1, axis=1) * 2).tofile(counting.folder / "w/e.f32")
    counting.write("p.lg", "\n".join(line for line in LINES if not line.startswith("Set item")) + "\n")
    more = ("--weights", "w", "--prompt", "a", "-n", "2")
    assert generated(counting, *more)[0]["generated"] == [1, 2]
    (folder,) = (tmp_path / "cache/generate").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [".logos-entry", ".whole", "generate.cu", "weights"]
    with monkeypatch.context() as patch:
        patch.setattr("logos.engine.write_artifact", None)
        assert generated(counting, *more)[0]["generated"] == [1, 2]
    (folder / ".whole").unlink()
    (folder / "weights/e.f32").unlink()
    assert generated(counting, *more)[0]["generated"] == [1, 2]
    (one + np.roll(one, 2, axis=1) * 2).tofile(counting.folder / "w/e.f32")
    assert generated(counting, *more)[0]["generated"] == [2]


@pytest.mark.parametrize(("variable", "below"), [("XDG_CACHE_HOME", "logos"), ("HOME", ".cache/logos")])
def test_where_the_cache_is(variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGOS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder().name == f"logos-{os.getuid()}"
    monkeypatch.setenv(variable, os.fspath(tmp_path))
    assert cache_folder() == tmp_path / below


def test_prompts_of_about_one_length_share_a_build(
    toy: Toy, oracles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []

    def generate_ids(target: object, job: Job, *more: object) -> Iterator[int]:
        texts.append(job.graph.source.text)
        return iter(())

    monkeypatch.setattr("logos.engine.generate_ids", generate_ids)
    checkpoint = os.fspath(oracles / "llama-tiny-untied/llama-tiny-untied-q8_0.gguf")
    for prompt, count in (("a", "3"), ("The step of a rope", "40"), ("a", "300")):
        given = ("--prompt", prompt, "-n", count, "--engine", "cuda")
        assert toy.logos("generate", checkpoint, *given).code == 0
    assert (texts[0] == texts[1], texts[0] == texts[2]) == (True, False)


def test_a_device_s_fault_is_told_at_its_sentence(counting: Toy, tmp_path: Path) -> None:
    lines = [*LINES[:-1], "Let z be a 1 by 1 tensor of Int.", "Set item 1 of z to 9.", "Let n be z plus z.",
             "Let far be row n of e.", "Let odd be logits plus far.", "Let next be argmax of odd."]  # fmt: skip
    counting.write("p.lg", "\n".join(lines) + "\n")
    given = ("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "a", "-q")
    ran = counting.logos(*given, "--engine", "cuda")
    assert (ran.code, ran.err) == (1, counting.logos(*given).err)
    assert "n is 18, outside the rows 0 to 5 of e [row-outside-table]" in ran.err


def test_where_no_engine_is_named_it_is_cpu_or_the_reference_machine_that_says_why(
    counting: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("generate", "p.lg", "--checkpoint", "v.gguf", "--prompt", "a")
    monkeypatch.setenv("CXX", "nowhere")
    ran = counting.logos(*given)
    assert (ran.code, ran.out) == (0, "bcd")
    assert ran.err == "there is no C++ compiler 'nowhere': the reference machine goes on instead, slowly\n"
    asked = counting.logos(*given, "--engine", "cpu")
    assert (asked.code, "there is no C++ compiler 'nowhere' [no-host-compiler]" in asked.err) == (1, True), asked.err
    monkeypatch.delenv("CXX")
    ran = counting.logos(*given)
    assert (ran.code, ran.out) == (0, "bcd"), ran.err
    assert "instructions: " in ran.err
    assert "prompt: 1 tokens in " in ran.err
