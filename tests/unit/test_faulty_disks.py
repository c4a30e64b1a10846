"""Disks that are full, folders that may not be written, files that may not be read: one message, and the next build
ends as if nothing had been.

Root is stopped by no permission, so as root these builds run under another uid or, where that uid cannot reach the
interpreter, as root without its rights over files; the end of a test run says how many did.
"""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from process import NOBODY, logos, reachable, tree, unprivileged
from toy_build import PROGRAM

from conftest import WITHOUT_RIGHTS

BUILD = ("build", "p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw")


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder that belongs to whoever the builds run as."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "p.lg").write_text(PROGRAM)
    if os.geteuid() == 0:
        request.config.stash[WITHOUT_RIGHTS].append(request.node.nodeid)
        if reachable():
            for path in (folder, folder / "p.lg"):
                os.chown(path, NOBODY, NOBODY)
            for parent in (tmp_path, *tmp_path.parents[:2]):
                parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def refusals(text: str) -> int:
    return text.count("  next: ")


def completes(folder: Path) -> None:
    ran = logos(folder, *BUILD, before=unprivileged)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(tree(folder / "build")) == ["p/toy/notes/counts.txt", "p/toy/program.txt", "p/toy/raw/W.f32"]
    assert len(tree(folder / "build")["p/toy/raw/W.f32"]) % 24 == 0
    assert "nothing to do" in logos(folder, *BUILD, before=unprivileged).stdout


def limited() -> None:
    unprivileged()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))


def test_a_disk_that_is_full_in_the_midst_of_a_weight_is_told_once(place: Path) -> None:
    (place / "p.lg").write_text(PROGRAM.replace("2 by 3", "2 by 30000"))
    ran = logos(place, *BUILD, before=limited)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert refusals(ran.stderr) == 1
    assert "build/p/toy/raw" in ran.stderr
    assert "File too large [unwritable-file]\n  next: free space" in ran.stderr
    assert sorted(tree(place / "build")) == ["p/toy/notes/counts.txt", "p/toy/program.txt"]
    completes(place)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_printed_is_told(place: Path) -> None:
    for _ in range(2):
        ran = logos(place, *BUILD, prefix=("sh", "-c", '"$@" > /dev/full', "sh"), before=unprivileged)
        assert ran.returncode == 3
        assert ran.stderr == "cannot write the output: No space left on device [unwritable-output]\n" + (
            "  next: free space, or send the output elsewhere\n"
        )
    completes(place)


@pytest.mark.parametrize("which", [
    "build/p/toy/raw",
    *(pytest.param(which, marks=pytest.mark.slow) for which in (".", "build", "build/.logos", "build/p/toy")),
])  # fmt: skip
def test_a_folder_that_may_not_be_written_is_told_once(place: Path, which: str) -> None:
    if which != ".":
        completes(place)
        (place / "p.lg").write_text(PROGRAM.replace("2.5", "3.5") + "Let z be silu of y.\n")
    (place / which).chmod(0o555)
    ran = logos(place, *BUILD, before=unprivileged)
    (place / which).chmod(0o755)
    if which == "build":
        assert ran.returncode == 0, "nothing in it is made anew"
    else:
        assert (ran.returncode, ran.stdout) == (1, "")
        assert refusals(ran.stderr) == 1
        assert "Permission denied [unwritable-file]" in ran.stderr
    completes(place)


@pytest.mark.parametrize("which", ["p.lg", "given/W.f32", "logos.toml"])
def test_an_input_that_may_not_be_read_is_told_once(place: Path, which: str) -> None:
    (place / "given").mkdir()
    (place / "given/W.f32").write_bytes(b"\0" * 24)
    (place / "logos.toml").write_text('[project]\nname = "p"\nprogram = "p.lg"\nfamily = "toy"\n[target.toy]\n')
    (place / which).chmod(0o000)
    ran = logos(place, *BUILD, "--weights", "given", before=unprivileged)
    assert ran.returncode == 1
    assert refusals(ran.stderr) == 1
    assert "Permission denied" in ran.stderr
    (place / which).chmod(0o644)
    completes(place)


def test_a_build_that_may_not_write_finds_that_there_is_nothing_to_do(place: Path) -> None:
    completes(place)
    made = [place / "build", *(place / "build").rglob("*")]
    for path in made:
        path.chmod(0o555 if path.is_dir() else 0o444)
    ran = logos(place, *BUILD, before=unprivileged)
    for path in made:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "nothing to do" in ran.stdout
