"""The cache: what a run left is used again, held while it is used, and goes when it was not used for longest."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from logos import Refused, cached

GIGABYTE = 10**9


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE", os.fspath(tmp_path))


def entry(key: str, size: int = 1000, hours: float = 0, kind: str = "kind") -> Path:
    """An entry of so many bytes, used so long ago."""
    with cached(kind, key, lambda folder: os.truncate(made(folder / "data"), size)) as folder:
        pass
    used = time.time() - hours * 3600
    os.utime(folder / ".whole", (used, used))
    return folder


def made(path: Path) -> Path:
    path.touch()
    return path


def there(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.glob("*/*"))


def refused(write: object = None) -> str:
    with pytest.raises(Refused) as error, cached("kind", "new", write or made):  # type: ignore[arg-type]
        pass
    return error.value.refusals[0].text()


def test_an_entry_is_written_once() -> None:
    calls: list[Path] = []
    for _ in range(3):
        with cached("kind", "key", calls.append) as folder:
            assert folder.is_dir()
    assert calls == [folder]


def test_what_fails_is_written_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "part").touch()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), cached("kind", "key", fail):
        pass
    with cached("kind", "key", lambda folder: (folder / "part").unlink()) as folder:
        assert (folder / ".whole").is_file()


def test_the_entries_used_longest_ago_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, hours in (("a", 3.0), ("b", 5.0), ("c", 4.0), ("d", 0.5)):
        entry(key, hours=hours, kind=f"kind-{key}")
    (tmp_path / "other/folder").mkdir(parents=True)
    (tmp_path / "other/folder/.lock").touch()
    monkeypatch.setenv("LOGOS_CACHE_GB", str(3100 / GIGABYTE))
    entry("e")
    assert there(tmp_path) == ["a", "d", "e", "folder"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kind", "kind-a", "kind-b", "kind-c", "kind-d", "other"]


def test_what_was_used_within_the_hour_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry("a", hours=2)
    entry("b", hours=2)
    monkeypatch.setenv("LOGOS_CACHE_GB", "0")
    with cached("kind", "a", made):
        pass
    entry("c")
    assert there(tmp_path) == ["a", "c"]


def test_what_another_process_uses_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, idle = entry("used"), entry("idle")
    script = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH); print(); input()"
    command = [sys.executable, "-c", script, used / ".logos-entry"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for folder in (used, idle):
            os.utime(folder / ".whole", (0, 0))
        monkeypatch.setenv("LOGOS_CACHE_GB", "0")
        entry("new")
        assert there(tmp_path) == ["new", "used"]
        process.communicate(b"\n")
    entry("newer")
    assert there(tmp_path) == ["new", "newer"]


def test_one_writes_and_the_other_waits() -> None:
    begun, go_on, waits = threading.Event(), threading.Event(), threading.Event()
    calls: list[Path] = []

    def slow(folder: Path) -> None:
        begun.set()
        go_on.wait(60)
        calls.append(folder)

    def use() -> None:
        with cached("kind", "key", slow):
            pass

    def use_too() -> None:
        with cached("kind", "key", calls.append, waits.set):
            assert len(calls) == 1

    threads = [threading.Thread(target=use), threading.Thread(target=use_too)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    assert waits.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(calls) == 1


def test_an_entry_that_goes_while_it_is_waited_for_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where one process removes entries while another asks for one."""
    folder = entry("key")
    taken = []

    def remove(descriptor: int, shared: bool = False) -> bool:
        if not taken:
            for name in (".whole", "data", ".logos-entry"):
                (folder / name).unlink()
            folder.rmdir()
        taken.append(shared)
        return True

    monkeypatch.setattr("logos.lock.taken", remove)
    assert entry("key") == folder
    assert taken == [True, False]


def test_many_at_once_that_write_and_remove(tmp_path: Path) -> None:
    """Each finds its entry as it was written, whatever the others remove."""
    script = """
import os, random, sys
from logos import cache
cache._RESTS = 0.0
random.seed(int(sys.argv[1]))
for _ in range(150):
    key = str(random.randrange(5))
    with cache.cached("kind", key, lambda folder: (folder / "data").write_text(key)) as folder:
        assert (folder / "data").read_text() == key
"""
    environment = {**os.environ, "LOGOS_CACHE_GB": "0"}
    command = [sys.executable, "-c", script]
    runs = [subprocess.Popen([*command, str(seed)], env=environment, stderr=subprocess.PIPE) for seed in range(3)]
    assert [(run.communicate()[1], run.returncode) for run in runs] == [(b"", 0)] * 3
    assert len(there(tmp_path)) <= 5


def test_a_cache_that_may_only_be_read_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    entry("key")
    opened = os.open

    def read(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_CREAT | os.O_RDWR):
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", read)
    monkeypatch.setattr("os.utime", denied)
    with cached("kind", "key", lambda folder: pytest.fail("it is there")) as folder:
        assert (folder / "data").stat().st_size == 1000
    assert refused().startswith(f"{folder.parent}/new: cannot keep there what later runs use again: Permission denied")


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    assert refused(full) == (
        f"{tmp_path}/kind/new: cannot keep there what later runs use again: No space left on device [unwritable-file]\n"
        "  next: free space, or name another folder in LOGOS_CACHE"
    )


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder, why in ((tmp_path / "file", "Not a directory"), (Path("/proc/none"), "No such file or directory")):
        monkeypatch.setenv("LOGOS_CACHE", os.fspath(folder))
        assert refused().startswith(f"{folder}/kind/new: cannot keep there what later runs use again: {why} [")


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGOS_CACHE_GB", text)
    assert refused() == (
        f"LOGOS_CACHE_GB: {text!r} is no count of gigabytes [bad-value]\n"
        "  next: give a number from 0, or unset it for 50"
    )
