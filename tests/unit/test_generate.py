"""`logos generate` as a person uses it: a program that counts through its vocabulary, then a checkpoint's own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gguf_writer import gguf
from logos.cli.main import main
from logos_gguf.checkpoint import GGUFCheckpoint

TOKENS = ("a", "b", "Ã", "©", "<|im_end|>", "Ċ")
FOLLOWS = (1, 2, 3, 4, 0, 5)
"""Which token the program says after each: a, b, the two bytes of é, the end; a line end repeats itself."""

TEMPLATE = "{{ messages[0].content + '\n' }}"


def logos(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    if arguments[0] == "generate":
        arguments = (*arguments, "--engine", "reference")
    command = [sys.executable, "-m", "logos", *(one if isinstance(one, bytes) else str(one) for one in arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=300, check=False)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "v.gguf"
    path.write_bytes(
        gguf(
            {
                "general.architecture": "llama",
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": "gpt-2",
                "tokenizer.ggml.tokens": TOKENS,
                "tokenizer.ggml.token_type": [1, 1, 1, 1, 3, 1],
                "tokenizer.ggml.merges": [],
                "tokenizer.chat_template": TEMPLATE,
            }
        )
    )
    return path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The follower of each token as a program, with room for 5 positions."""
    count = len(TOKENS)
    lines = [
        "Let tok be a 1 by 1 tensor of Int.",
        "Let pos be a 1 by 1 tensor of Int.",
        f"Let e be a {count} by {count} tensor of Real.",
        *(f"Set item {row * count + follower + 1} of e to 1." for row, follower in enumerate(FOLLOWS)),
        f"Let seen be a 5 by {count} tensor of Real.",
        "Let logits be row tok of e.",
        "Set row pos of seen to logits.",
        "Let next be argmax of logits.",
        "Show next.",
    ]
    path = tmp_path / "p.lg"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def generate(program: Path, vocabulary: Path, *more: object, stdin: bytes = b"") -> Any:
    done = logos("generate", program, "--checkpoint", vocabulary, "--json", *more, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return json.loads(done.stdout)


def test_the_text_is_printed_and_nothing_else(program: Path, vocabulary: Path) -> None:
    done = logos("generate", program, "--checkpoint", vocabulary, "--prompt", "a")
    assert (done.returncode, done.stdout, done.stderr) == (0, "bé".encode(), b"")


def test_as_json_it_is_one_object(program: Path, vocabulary: Path) -> None:
    assert generate(program, vocabulary, "--prompt", "a") == {
        "prompt": [0], "generated": [1, 2, 3], "text": "bé", "end": "token", "stop": 4,
    }  # fmt: skip


def test_it_ends_after_so_many_tokens(program: Path, vocabulary: Path) -> None:
    record = generate(program, vocabulary, "--prompt", "a", "-n", 2)
    assert record == {"prompt": [0], "generated": [1, 2], "text": "b\ufffd", "end": "count", "stop": None}


def test_a_character_is_printed_when_it_is_whole(
    program: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recorder(io.StringIO):
        flushed: list[str] = []  # noqa: RUF012 (of the one recorder there is)

        def flush(self) -> None:
            self.flushed.append(self.getvalue())

    recorder = Recorder()
    monkeypatch.setattr(sys, "stdout", recorder)
    with pytest.raises(SystemExit):
        main(["generate", str(program), "--checkpoint", str(vocabulary), "--prompt", "a", "--engine", "reference"])
    assert list(dict.fromkeys(recorder.flushed)) == ["b", "bé"]


def test_a_terminal_sees_no_control_characters_and_a_line_end(
    program: Path, vocabulary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    data = vocabulary.read_bytes()
    vocabulary.write_bytes(data.replace("Ã".encode(), "ě".encode()).replace("©".encode(), "ĉ".encode()))
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    given = ["--checkpoint", str(vocabulary), "--prompt", "a", "-q", "--engine", "reference"]
    with pytest.raises(SystemExit):
        main(["generate", str(program), *given])
    assert terminal.getvalue() == "b?\t\n"
    assert logos("generate", program, "--checkpoint", vocabulary, "--prompt", "a").stdout == b"b\x1b\t"


def test_the_prompt_may_come_from_standard_input(program: Path, vocabulary: Path) -> None:
    assert generate(program, vocabulary, "--prompt", "-", stdin="é".encode())["prompt"] == [2, 3]


def test_chat_puts_the_prompt_into_the_template(program: Path, vocabulary: Path) -> None:
    record = generate(program, vocabulary, "--prompt", "a", "--chat", "-n", 1)
    assert record["prompt"] == [0, 5]
    assert record["text"] == "\n"


def test_a_full_context_ends_the_text_and_is_said(program: Path, vocabulary: Path) -> None:
    record = generate(program, vocabulary, "--prompt", "\n\n\n", "-n", 9)
    assert (record["generated"], record["end"]) == ([5, 5, 5], "context")
    done = logos("generate", program, "--checkpoint", vocabulary, "--prompt", "\n\n\n", "-n", 9)
    assert done.stdout == b"\n\n\n"
    assert done.stderr == b"the context is full: 3 tokens of prompt and 3 more\n"


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("\n" * 6, "--prompt: the prompt is 6 tokens long; the program has room for 5 [prompt-too-long]"),
        ("", "--prompt: the prompt has no tokens, and this checkpoint's text begins with none [empty-prompt]"),
        (b"a\xff", "--prompt: the prompt is not UTF-8 [not-utf-8]"),
    ],
)
def test_a_prompt_that_will_not_do_is_refused(
    prompt: str | bytes, message: str, program: Path, vocabulary: Path
) -> None:
    done = logos("generate", program, "--checkpoint", vocabulary, "--prompt", prompt)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines()[0] == message


def test_standard_input_that_is_not_utf8_is_refused(program: Path, vocabulary: Path) -> None:
    done = logos("generate", program, "--checkpoint", vocabulary, "--prompt", "-", stdin=b"\xc3")
    assert done.returncode == 1
    assert b"[not-utf-8]" in done.stderr


def test_a_program_and_a_checkpoint_each_take_their_own_flags(program: Path, vocabulary: Path) -> None:
    for arguments, message in (
        ((program,), f"{program} is no checkpoint of an installed format (gguf), and a PROGRAM takes its vocabulary "
                     "from --checkpoint FILE"),
        ((program, "--checkpoint", vocabulary, "--context", 3), "a PROGRAM has its own context"),
        ((vocabulary, "--checkpoint", vocabulary), "is a checkpoint itself; leave --checkpoint out"),
    ):
        done = logos("generate", *arguments, "--prompt", "a")
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())
    done = logos("generate", "none.gguf", "--prompt", "a")
    assert (done.returncode, done.stderr) == (
        1, b"none.gguf: there is no such file [missing-file]\n  next: correct the path\n"
    )  # fmt: skip


@pytest.fixture
def tiny(oracles: Path) -> Path:
    return oracles / "llama-tiny-untied" / "llama-tiny-untied-q8_0.gguf"


def test_a_checkpoint_goes_on_as_its_program_does(tiny: Path, tmp_path: Path) -> None:
    record = json.loads(logos("generate", tiny, "--prompt", "The step", "-n", 6, "--json").stdout)
    model = tmp_path / "model.lg"
    assert logos("author", tiny, "-o", model).returncode == 0
    tokens = ",".join(map(str, record["prompt"]))
    ran = logos("run", model, "--checkpoint", tiny, "--tokens", tokens, "--generate", 6)
    assert list(map(int, ran.stdout.splitlines()[-1].split())) == record["generated"]


def test_a_prompt_s_special_tokens_are_text(tiny: Path) -> None:
    bos = GGUFCheckpoint(tiny).metadata["tokenizer.ggml.tokens"][317]  # type: ignore[index]
    record = json.loads(logos("generate", tiny, "--prompt", bos, "-n", 1, "--json").stdout)
    assert record["prompt"][0] == 317
    assert record["prompt"].count(317) == 1


def test_a_checkpoint_is_given_the_context_asked_for(tiny: Path) -> None:
    done = logos("generate", tiny, "--prompt", "abc", "--context", 3)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the program has room for 3 [prompt-too-long]" in done.stderr


def test_a_checkpoint_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    path.write_bytes(gguf({"general.architecture": "llama"}))
    done = logos("generate", path, "--prompt", "a")
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"{path}: the file holds no vocabulary: it has no metadata key tokenizer.ggml.model [no-vocabulary]\n"
        "  next: give token ids to `logos run --tokens`, or another file\n"
    )
