"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from logos.atomic import replacing, write_if_changed
from logos.refusal import Refused

NAMES = ["model.py", "a b $c: 'd' \"e\".py", "ü" * 100, "-n", "x" * 255]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_written_whole_into_folders_that_are_made(tmp_path: Path, name: str) -> None:
    file = tmp_path / "new" / "folder" / name
    assert write_if_changed(file, "größe\n")
    assert file.read_bytes() == "größe\n".encode()
    assert os.listdir(file.parent) == [name]


def test_a_file_that_has_the_bytes_already_keeps_its_time(tmp_path: Path) -> None:
    file = tmp_path / "f"
    assert write_if_changed(file, b"same")
    os.utime(file, (1, 1))
    assert not write_if_changed(file, b"same")
    assert file.stat().st_mtime == 1
    assert write_if_changed(file, b"diff")
    assert file.stat().st_mtime > 1


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_if_changed(tmp_path / "f", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")

    def fail() -> None:
        with replacing(file) as new:
            new.write(b"half")
            new.flush()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    file = tmp_path / "f"
    program = (
        "import os, sys; from pathlib import Path; from logos.atomic import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, os.fspath(file)]).returncode == -9
    assert len(os.listdir(tmp_path)) == 1
    assert not file.exists()
    write_if_changed(file, "whole")
    assert os.listdir(tmp_path) == ["f"]


def test_a_folder_in_the_way_is_refused_with_the_system_s_reason(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(Refused) as refused:
        write_if_changed(tmp_path / "f", "x")
    (refusal,) = refused.value.refusals
    assert refusal.text() == (
        f"{tmp_path / 'f'}: cannot write the file: Is a directory [unwritable-file]\n"
        "  next: free space, change the folder's permissions, or name another folder"
    )
    assert os.listdir(tmp_path) == ["f"]


def test_a_file_where_a_folder_is_due_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(Refused, match=r"Not a directory|File exists"):
        write_if_changed(tmp_path / "f" / "g", "x")
