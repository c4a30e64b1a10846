"""A damaged recording is one message, no traceback; a file has its name when it is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos.recording import write_recording
from logos_sambaflow.target import SambaflowTarget
from sambaflow_modules import emitted, load

TEXT = """
Let tok be a 1 by 1 tensor of Int.
Let pos be a 1 by 1 tensor of Int.
Let emb be a 5 by 4 tensor of Real.
Let K be a 3 by 4 tensor of Real.
Let x be row tok of emb.
Set row pos of K to x.
Let y be silu of x.
Let next be argmax of y.
"""
Header = dict[str, Any]


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = emitted(TEXT, tmp_path_factory.mktemp("kit"), selftest=2)
    (recording,) = SambaflowTarget().steps(made.job).recordings
    write_recording(made.job.binding, recording, made.folder)
    return made.folder


def rewritten(data: bytes, change: Callable[[Header, Header, bytearray], None]) -> bytes:
    """A safetensors file whose header, account and bytes were changed."""
    end = 8 + int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:end]), bytearray(data[end:])
    account = json.loads(header["__metadata__"]["logos.recording"])
    change(header, account, body)
    header["__metadata__"]["logos.recording"] = json.dumps(account)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(body)


def set_account(key: str, value: Any) -> Callable[[Header, Header, bytearray], None]:
    return lambda header, account, body: account.update({key: value})


def set_row(header: Header, account: Header, body: bytearray) -> None:
    start = header["rows.K"]["data_offsets"][0]
    body[start + 8 : start + 16] = (99).to_bytes(8, "little")


CHANGES: dict[str, tuple[Callable[[Header, Header, bytearray], None], str]] = {
    "version": (set_account("version", 2), "is of version 2; this module reads version 1"),
    "more steps": (set_account("steps", 3), "not a sound recording (ValueError('3 steps'))"),
    "no steps": (set_account("steps", 0), "not a sound recording (ValueError('0 steps'))"),
    "steps of words": (set_account("steps", "many"), "not a recording of LOGOS (ValueError("),
    "no bounds": (set_account("bounds", {}), "not a recording of LOGOS (KeyError('float32'))"),
    "no such variable": (set_account("compared", ["z"]), "not a sound recording (KeyError('z'))"),
    "no such operand": (set_account("choices", {"next": "z"}), "not a sound recording (KeyError('z'))"),
    "no places": (set_account("order", []), "not a sound recording (ValueError("),
    "nothing written": (lambda header, account, body: header.pop("written.K"), "not a sound recording (KeyError("),
    "a row outside": (set_row, "not a sound recording (IndexError("),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_damaged_recording_is_one_message(case: str, kit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = CHANGES[case]
    module, path = load(kit / "model.py"), kit / "selftest.safetensors"
    right = path.read_bytes()
    try:
        assert rewritten(right, lambda header, account, body: None) != b""
        path.write_bytes(rewritten(right, change))
        assert module.main(module.PROGRAM, ["--selftest"], module.selftest) == 1
    finally:
        path.write_bytes(right)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(str(path))
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_an_argmax_of_a_leaf_is_recorded_and_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = emitted("Let x be a 1 by 4 tensor of Real.\nLet n be argmax of x.\n", tmp_path, selftest=2)
    (recording,) = SambaflowTarget().steps(made.job).recordings
    write_recording(made.job.binding, recording, made.folder)
    module = load(made.folder / "model.py")
    assert module.main(module.PROGRAM, ["--selftest"], module.selftest) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:-1]] == ["variable", "n"]


def test_an_output_file_has_its_name_when_it_is_whole(
    kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, out = load(kit / "model.py"), tmp_path / "y.bin"
    arguments = ["--tokens", "1", "--set", "emb=1", "--out", str(out)]
    assert module.main(module.PROGRAM, arguments) == 0
    right = out.read_bytes()
    assert len(right) == 4

    def full(old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "replace", full)
    assert module.main(module.PROGRAM, arguments) == 1
    assert (out.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (right, ["y.bin"])
    assert module.main(module.PROGRAM, [*arguments[:-1], "/dev/null"]) == 0
