"""The command that builds a CUDA program for the host, and its refusals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from logos import Refused
from logos_cuda.host_build import HOST, compile_host, find_host_compiler, host_command

GOOD = '#include "logos_host.h"\nint main() { return 7; }\n'


def test_a_program_is_built_and_two_folders_give_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for folder in (tmp_path / "one", tmp_path / "an other $"):
        folder.mkdir()
        (folder / "p.cu").write_text(GOOD)
        compile_host(folder / "p.cu", folder / "p")
        assert subprocess.run([folder / "p"], check=False).returncode == 7
        assert sorted(path.name for path in folder.iterdir()) == ["p", "p.cu"]
        built.append((folder / "p").read_bytes())
    assert built[0] == built[1]


def test_flags_come_before_the_source_and_the_sanitizers_when_asked_for() -> None:
    command = host_command(Path("a.cu"), Path("a"), sanitize=True, compiler="g++ -m64", flags=["-DX=1"])
    assert command[:2] == ["g++", "-m64"]
    assert command[-6:] == ["-DX=1", "-x", "c++", "a.cu", "-o", "a"]
    assert f"-I{HOST}" in command
    assert "-fsanitize=address,undefined" in command
    assert "-fsanitize=address,undefined" not in host_command(Path("a.cu"), Path("a"))


def test_the_first_error_and_the_command_are_said(tmp_path: Path) -> None:
    (tmp_path / "p.cu").write_text("int main() { return missing; }\n")
    with pytest.raises(Refused) as caught:
        compile_host(tmp_path / "p.cu", tmp_path / "p", compiler="g++")
    text = str(caught.value)
    assert "error: ‘missing’ was not declared" in text or "error: 'missing' was not declared" in text
    command = " ".join(host_command(Path("p.cu"), Path("p"), compiler="g++"))
    assert text.endswith(f"`logos build` with `-D compile=off` writes p.cu; run beside it (exit code 1): {command}")
    assert subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    assert "[host-compiler-failed]" in text
    assert [path.name for path in tmp_path.iterdir()] == ["p.cu"]


def test_the_compiler_is_the_argument_then_cxx_then_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("g++", "clang++", "mine"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "mine -O1")
    assert find_host_compiler("clang++") == ("clang++",)
    assert find_host_compiler() == ("mine", "-O1")
    monkeypatch.delenv("CXX")
    assert find_host_compiler() == ("g++",)
    (tmp_path / "g++").unlink()
    assert find_host_compiler() == ("clang++",)


def test_no_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    follow = "install g++ (Debian and Ubuntu: apt-get install g++), or name a C++17 compiler in CXX"
    with pytest.raises(Refused) as caught:
        find_host_compiler()
    none = "there is no C++ compiler: neither g++ nor clang++"
    assert str(caught.value) == f"{none} [no-host-compiler]\n  next: {follow}"
    for named in ("c++-99", 'g++ "-O1', " "):
        monkeypatch.setenv("CXX", named)
        with pytest.raises(Refused) as caught:
            find_host_compiler()
        assert str(caught.value) == f"there is no C++ compiler {named!r} [no-host-compiler]\n  next: {follow}"
