"""One build at a time in an out folder; whoever dies lets go."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from process import environment, kill_session, logos
from toy_build import PROGRAM

from logos.lock import locked

BUILD = ("build", "p.lg", "--target", "toy", "--family", "toy")


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "logos", *BUILD, *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def test_the_second_build_waits_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    with locked(tmp_path / "build/.logos", lambda: None):
        second, told = started(tmp_path), started(tmp_path, "--json")
        assert second.stderr is not None
        assert told.stdout is not None
        assert second.stderr.readline() == "another build is at work in build: waiting for it to end\n"
        assert told.stdout.readline() == '{"event": "waiting", "schema": 1, "folder": "build"}\n'
        assert not (tmp_path / "build/p").exists()
        assert second.poll() is None
    for build in (second, told):
        _, err = build.communicate(timeout=60)
        assert (build.returncode, err) == (0, "")
    assert (tmp_path / "build/p/toy/program.txt").is_file()


def test_many_builds_at_once_end_as_one(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    builds = [started(tmp_path, "-q", "-D", f"style={style}") for style in ("plain", "fancy", "plain", "fancy")]
    for build in builds:
        assert build.wait(timeout=120) == 0
        build.communicate()
    ran = logos(tmp_path, *BUILD, "-D", "style=plain")
    assert ran.returncode == 0
    assert "plain" in (tmp_path / "build/p/toy/program.txt").read_text()


def test_a_killed_build_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    build = started(tmp_path, "-D", "tool=slow")
    wait_for(tmp_path / "build/p/toy/slow.txt")
    kill_session(build.pid)
    build.communicate()
    ran = logos(tmp_path, *BUILD, "-D", "tool=copy")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not (tmp_path / "build/p/toy/slow.txt").exists(), "half a file of a tool that was killed"


def test_what_a_killed_build_started_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    build = started(tmp_path, "-D", "tool=slow")
    wait_for(tmp_path / "build/p/toy/slow.txt")
    build.kill()
    build.wait()
    second = started(tmp_path)
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline(), "ninja and its tool are still at work"
    kill_session(build.pid)
    _, err = second.communicate(timeout=60)
    assert (second.returncode, err) == (0, "")
    build.communicate()


def test_a_lock_whose_file_is_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    private = tmp_path / ".logos"
    with locked(private, lambda: None) as first:
        second = subprocess.Popen(
            [sys.executable, "-c", "import sys; from pathlib import Path; from logos.lock import locked\n"
             "with locked(Path(sys.argv[1]), lambda: print('waiting', flush=True)): print('held', flush=True)",
             os.fspath(private)], stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert second.stdout is not None
        assert second.stdout.readline() == "waiting\n"
        (private / "lock").unlink()
        assert os.fstat(first).st_nlink == 0
    assert second.communicate(timeout=30)[0] == "held\n"
    assert (private / "lock").is_file()


def test_what_a_killed_extraction_left_goes_with_the_wish_for_weights(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    left = tmp_path / "build/p/toy/.0123456789abcdef.1234.work"
    left.mkdir(parents=True)
    (left / "W.f32").write_bytes(b"half")
    (left.parent / ".0123456789abcdef.77.part").write_text("half")
    (left.parent / ".mine.part").write_text("mine")
    assert logos(tmp_path, *BUILD).returncode == 0
    assert [name for name in sorted(os.listdir(left.parent)) if name.startswith(".")] == [".mine.part"]


def test_a_build_that_plans_anew_in_its_own_midst_does_not_wait_for_itself(tmp_path: Path) -> None:
    (tmp_path / "p.lg").write_text(PROGRAM)
    private = tmp_path / "build/.logos"
    arguments = (BUILD[0], "--reconsider", os.fspath(tmp_path), *BUILD[1:])
    with locked(private, lambda: None):
        ran = logos(tmp_path, *arguments, changes={"LOGOS_BUILD_LOCKED": os.fspath(private)})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (private / "build.ninja").is_file()
    assert not (tmp_path / "build/p").exists()
