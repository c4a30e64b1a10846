"""The shared cache of what steps make: believed by digest alone, bounded, and never in the way."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from toy_build import PROGRAM, Toy, stamps

from logos.cached_steps import step_key
from logos.refusal import Refused
from logos.step_cache import StepCache
from logos.steps import Step

KEY = "ab" * 32
ARGUMENTS = ("p.lg", "--target", "toy", "--family", "toy", "-D", "weights=raw", "--cache", "shared")


class Place:
    """A cache, what it said, and two outputs that it keeps."""

    def __init__(self, folder: Path, limit: float = 1e9) -> None:
        self.folder, self.said = folder, [""][:0]
        self.cache = StepCache(folder / "cache", limit, self.said.append)
        self.outputs = [folder / "made/one", folder / "made/two"]

    def make(self, *texts: bytes) -> None:
        self.outputs[0].parent.mkdir(exist_ok=True)
        for path, text in zip(self.outputs, texts, strict=True):
            path.write_bytes(text)

    def fetch(self, key: str = KEY, **due: str) -> list[bytes] | None:
        into = [self.folder / "fetched" / path.name for path in self.outputs]
        if not self.cache.fetch(key, into, {self.folder / "fetched" / name: digest for name, digest in due.items()}):
            return None
        return [path.read_bytes() for path in into]

    def files(self) -> list[Path]:
        return sorted(path for path in (self.folder / "cache").rglob("*") if path.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.make(b"1" * 3_000_000, b"")
    made.cache.keep(KEY, made.outputs)
    return made


def test_what_is_kept_is_fetched(place: Place) -> None:
    os.chmod(place.outputs[1], 0o755)
    place.cache.keep("cd" * 32, place.outputs)
    assert place.fetch() == [b"1" * 3_000_000, b""]
    assert not os.access(place.folder / "fetched/two", os.X_OK)
    assert place.fetch("cd" * 32) == [b"1" * 3_000_000, b""]
    assert os.access(place.folder / "fetched/two", os.X_OK)
    assert place.fetch("ef" * 32) is None
    assert place.said == []
    assert len(place.files()) == 4, "two entries, and each output once"
    assert sorted(path.name for path in (place.folder / "fetched").iterdir()) == ["one", "two"]


def damage(path: Path, kind: str) -> None:
    data = path.read_bytes()
    damaged = {
        "flipped": data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
        "cut": data[: len(data) // 2],
        "longer": data + b"more",
        "empty": b"",
        "other": b"{}",
    }
    path.write_bytes(damaged[kind])


@pytest.mark.parametrize("kind", ["flipped", "cut", "longer", "empty", "other"])
@pytest.mark.parametrize("which", ["steps", "files"])
def test_a_damaged_file_is_never_fetched_and_is_told_in_one_line(place: Place, which: str, kind: str) -> None:
    (file,) = [path for path in place.files() if which in path.parts and path.stat().st_size]
    damage(file, kind)
    assert place.fetch() is None
    name = file.relative_to(place.folder)
    assert place.said == [f"the cache's file {name} is not what its digest says: removed, to be made again"]
    assert not file.exists()
    assert not any((place.folder / "fetched").glob("*"))
    assert place.fetch() is None
    assert len(place.said) == 1
    place.cache.keep(KEY, place.outputs)
    assert place.fetch() == [b"1" * 3_000_000, b""]


def test_an_entry_that_says_other_bytes_than_are_due_is_damaged(place: Place) -> None:
    """Whoever may write to the cache can write an entry that holds by itself; what the plan knows stands above it."""
    assert place.fetch(one=hashlib.sha256(b"1" * 3_000_000).hexdigest()) is not None
    assert place.fetch(one=hashlib.sha256(b"2").hexdigest()) is None
    assert len(place.said) == 1


def entry(place: Place, text: str) -> None:
    (file,) = [path for path in place.files() if "steps" in path.parts]
    file.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "{", '{"format": 1}', '{"format": 1, "outputs": [["a"], ["b"]]}', '{"format": 1, "outputs": [3, 4]}'],
)
def test_an_entry_of_another_form_is_damaged(place: Place, text: str) -> None:
    entry(place, text)
    assert place.fetch() is None
    assert len(place.said) == 1


def test_an_entry_of_another_version_or_of_other_outputs_is_none(place: Place) -> None:
    for record in ({"format": 0, "outputs": [["a", 1, False]] * 2}, {"format": 1, "outputs": []}):
        entry(place, json.dumps(record))
        assert place.fetch() is None
    assert place.said == []


@pytest.mark.parametrize("name", ["../../../outside", "/etc/passwd", "a/b", ""])
def test_an_entry_names_no_file_outside_of_the_cache(place: Place, name: str) -> None:
    entry(place, json.dumps({"format": 1, "outputs": [[name, 4, False], [name, 4, False]]}))
    (place.folder / "outside").write_text("told")
    assert place.fetch() is None
    assert (place.folder / "outside").exists()
    assert len(place.said) == 1


def test_a_file_of_the_cache_that_is_no_file_is_none(place: Place) -> None:
    (file,) = [path for path in place.files() if "files" in path.parts and path.stat().st_size]
    file.unlink()
    os.mkfifo(file)
    assert place.fetch() is None


def test_a_cache_that_cannot_be_written_is_told_once(place: Place) -> None:
    (place.folder / "file").write_text("")
    cache = StepCache(place.folder / "file/cache", 1e9, place.said.append)
    for _ in range(2):
        cache.keep(KEY, place.outputs)
        assert not cache.fetch(KEY, place.outputs, {})
    cache.bound()
    assert place.said == [f"nothing more is kept in the cache {place.folder / 'file/cache'}: Not a directory"]


def test_outputs_that_cannot_be_written_are_refused(place: Place) -> None:
    (place.folder / "fetched").write_text("")
    with pytest.raises(Refused) as error:
        place.fetch()
    assert [one.code for one in error.value.refusals] == ["unwritable-file"]


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    place = Place(tmp_path, 25_000)
    for number in range(5):
        place.make(bytes([number]) * 8_000, b"")
        place.cache.keep(f"{number:064x}", place.outputs)
        for path in place.files():
            if path.stat().st_mtime > time.time() - 1000:
                os.utime(path, (now := time.time() - 10_000 + number, now))
    assert place.fetch(f"{0:064x}") is not None
    place.cache.bound()
    assert sum(path.stat().st_size for path in place.files()) <= 25_000
    there = [place.fetch(f"{number:064x}") is not None for number in range(5)]
    assert there == [True, False, False, True, True]
    assert place.said == []


def test_what_killed_builds_left_goes_and_what_is_being_written_stays(place: Place) -> None:
    parts = place.folder / "cache/parts"
    for name, age in (("left", 4000), ("fresh", 10)):
        (parts / name).write_text("half")
        os.utime(parts / name, (then := time.time() - age, then))
    place.cache.bound()
    assert [path.name for path in parts.iterdir()] == ["fresh"]


@pytest.mark.slow
def test_many_at_once_fetch_whole_files_or_none(tmp_path: Path) -> None:
    """Under a limit that keeps nothing for long."""
    wrong: list[object] = []

    def work(number: int) -> None:
        place = Place(tmp_path, 60_000)
        place.outputs = [tmp_path / f"{number}/one", tmp_path / f"{number}/two"]
        place.folder = tmp_path / str(number)
        place.folder.mkdir()
        for turn in range(60):
            content = [bytes([turn % 7]) * 20_000, bytes([turn % 5]) * 5_000]
            key = f"{turn % 35:064x}"
            into = [place.folder / "in/one", place.folder / "in/two"]
            if place.cache.fetch(key, into, {}):
                wrong.extend([key] if [path.read_bytes() for path in into] != content else [])
            else:
                for path, data in zip(place.outputs, content, strict=True):
                    path.write_bytes(data)
                place.cache.keep(key, place.outputs)
                place.cache.bound()
        wrong.extend(place.said)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_key_knows_sources_by_contents_and_all_else_by_name() -> None:
    step = Step("extract", "extract", ())

    def key(folder: str, digest: str, tensor: str = "t") -> str:
        file = f"{folder}/W.f32"
        return step_key(step, json.dumps({"entries": [["W", tensor, file]], "sources": {file: digest}, "code": "c"}))

    assert key("/here", "1") == key("/there", "1")
    assert len({key("/here", "1"), key("/here", "2"), key("/here", "1", "u")}) == 3
    emit = replace(step, rule="emit")
    one, other = step_key(emit, '{"a": "1", "b": "2"}'), step_key(emit, '{"b": "2", "a": "1"}')
    assert one != other, "outputs are kept in the order of the record"


def test_another_folder_s_build_is_fetched_to_the_same_bytes(toy: Toy) -> None:
    ran = toy.build(*ARGUMENTS)
    assert "built 1 artifact in 2 steps\n" in ran.out
    made = {path: (toy.folder / "build" / path).read_bytes() for path in toy.tree()}
    toy.write("else/q.lg", PROGRAM)
    ran = toy.build("else/q.lg", *ARGUMENTS[1:], "--out", "else/out", "-v")
    assert "built 1 artifact in 0 steps, 2 more from the cache\n" in ran.out
    assert ran.err.splitlines() == ["[cache] emit q for toy", "[cache] extract raw of q for toy"]
    assert {f"p/toy/{path}": (toy.folder / "else/out" / path).read_bytes() for path in toy.tree("else/out")} == made
    before = stamps(toy.folder / "else/out")
    assert "nothing to do: 1 artifact up to date" in toy.build("else/q.lg", *ARGUMENTS[1:], "--out", "else/out").out
    assert "nothing to do: 1 artifact up to date" in toy.build("else/q.lg", *ARGUMENTS[1:-2], "--out", "else/out").out
    assert stamps(toy.folder / "else/out") == before


@pytest.mark.slow
def test_a_change_and_back_is_fetched_and_a_damaged_file_made_again(toy: Toy) -> None:
    assert toy.build(*ARGUMENTS).code == 0
    made = {path: (toy.folder / "build" / path).read_bytes() for path in toy.tree()}
    toy.write("p.lg", PROGRAM.replace("2.5", "3.5"))
    assert "built 1 artifact in 1 step\n" in toy.build(*ARGUMENTS).out
    toy.write("p.lg", PROGRAM)
    assert "built 1 artifact in 0 steps, 1 more from the cache\n" in toy.build(*ARGUMENTS).out
    assert {path: (toy.folder / "build" / path).read_bytes() for path in toy.tree()} == made
    weights = hashlib.sha256(made["p/toy/raw/W.f32"]).hexdigest()
    damage(toy.folder / "shared/build/files" / weights[:2] / weights, "flipped")
    for path in toy.tree():
        (toy.folder / "build" / path).unlink()
    ran = toy.build(*ARGUMENTS)
    assert "built 1 artifact in 1 step, 1 more from the cache\n" in ran.out
    file = f"build/files/{weights[:2]}/{weights}"
    assert ran.err == f"warning: the cache's file {file} is not what its digest says: removed, to be made again\n"
    assert {path: (toy.folder / "build" / path).read_bytes() for path in toy.tree()} == made
    (toy.folder / "build/p/toy/raw/W.f32").unlink()
    ran = toy.build(*ARGUMENTS)
    assert ("built 1 artifact in 0 steps, 1 more from the cache\n" in ran.out, ran.err) == (True, "")


@pytest.mark.slow
def test_what_a_failed_step_left_is_not_kept(toy: Toy) -> None:
    """Its earlier output is still there, by another record."""
    assert toy.build(*ARGUMENTS).code == 0
    toy.write("p.lg", PROGRAM.replace("2.5", "3.5"))
    (toy.folder / "build/p/toy/raw/W.f32").unlink()
    (toy.folder / "build/p/toy/raw").rmdir()
    toy.write("build/p/toy/raw", "a file where a folder is due")
    assert toy.build(*ARGUMENTS).code == 1
    (toy.folder / "build/p/toy/raw").unlink()
    assert "built 1 artifact in 1 step\n" in toy.build(*ARGUMENTS).out
