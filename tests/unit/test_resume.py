"""Folders of unfinished work: taken over after a kill, kept apart while two run, gone when all is done."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.weights.resume import Digest, Part, Workplace, holds, workplace

DATA = np.random.default_rng(0).integers(0, 256, 40_000, dtype=np.uint8).tobytes()


def part(data: bytes) -> Part:
    digest = Digest()
    digest.update(memoryview(data))
    return digest.part()


@given(st.lists(st.integers(0, 40_000), max_size=20))
def test_a_digest_does_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    digest = Digest()
    edges = [0, *sorted(cuts), len(DATA)]
    for start, stop in pairwise(edges):
        digest.update(memoryview(DATA[start:stop]))
    assert digest.part() == part(DATA)


@pytest.mark.parametrize("other", [
    DATA[:-1],
    DATA + b"\0",
    b"\0" * 4096 + DATA[4096:],
    DATA[4096:8192] + DATA[:4096] + DATA[8192:],
    DATA[:-5] + b"\0" * 5,
    DATA[:20_000] + bytes([DATA[20_000] ^ 1]) + DATA[20_001:],
])  # fmt: skip
def test_other_bytes_have_another_digest(other: bytes) -> None:
    assert part(other) != part(DATA)
    assert not holds(io.BytesIO(other), part(DATA)) or other.startswith(DATA)


def test_a_file_that_goes_on_with_a_part_stands_behind_it() -> None:
    file = io.BytesIO(b"before" + DATA + b"behind")
    file.seek(6)
    assert holds(file, part(DATA))
    assert file.read() == b"behind"


class KilledError(BaseException):
    """Stands for what ends a process."""


@contextmanager
def killed_run(base: Path) -> Iterator[Workplace]:
    """A run that is killed at the end of the block."""
    with suppress(KilledError), workplace(base, "w", "r") as work:
        yield work
        raise KilledError


def left(base: Path) -> Path:
    """A folder with one finished part, as a killed run leaves it."""
    with killed_run(base) as work:
        (work.folder / "W").write_bytes(DATA)
        work.record("W", part(DATA))
    return work.folder


def test_a_killed_runs_folder_is_taken_over_with_what_it_finished(tmp_path: Path) -> None:
    folder = left(tmp_path)
    with workplace(tmp_path, "w", "r") as work:
        assert work.folder == folder
        assert work.finished == {"W": (part(DATA),)}
        assert (folder / "W").read_bytes() == DATA
    assert list(tmp_path.iterdir()) == []


def test_each_run_adds_to_what_was_finished(tmp_path: Path) -> None:
    left(tmp_path)
    with killed_run(tmp_path) as work:
        work.record("V", (0, ""), (1, "x"))
    with workplace(tmp_path, "w", "r") as work:
        assert dict(work.finished) == {"W": (part(DATA),), "V": ((0, ""), (1, "x"))}


def test_a_folder_of_another_recipe_is_removed(tmp_path: Path) -> None:
    folder = left(tmp_path)
    with workplace(tmp_path, "w", "other") as work:
        assert work.finished == {}
        assert not folder.exists()


def test_a_folder_for_another_file_stays(tmp_path: Path) -> None:
    folder = left(tmp_path)
    with workplace(tmp_path, "v", "r"):
        pass
    assert list(tmp_path.iterdir()) == [folder]


def test_two_runs_at_once_have_a_folder_each(tmp_path: Path) -> None:
    with workplace(tmp_path, "w", "r") as first:
        first.record("W", part(DATA))
        with workplace(tmp_path, "w", "r") as second:
            assert second.folder != first.folder
            assert second.finished == {}
        assert first.folder.exists()
        with workplace(tmp_path, "w", "other"):
            assert first.folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_of_two_folders_left_one_is_taken_over_and_one_removed(tmp_path: Path) -> None:
    with killed_run(tmp_path):
        left(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    with workplace(tmp_path, "w", "r") as work:
        assert list(tmp_path.iterdir()) == [work.folder]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), workplace(tmp_path, "w", "r"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", ["line", "recipe", "whole"])
def test_a_journal_cut_short_counts_as_far_as_it_goes(tmp_path: Path, cut: str) -> None:
    folder = left(tmp_path)
    journal = folder / "journal"
    lines = journal.read_bytes()
    journal.write_bytes({"line": lines + b'["V", [[3', "recipe": lines[:2], "whole": b""}[cut])
    with killed_run(tmp_path) as work:
        assert set(work.finished) == ({"W"} if cut == "line" else set())
        work.record("V", (0, ""))
    with workplace(tmp_path, "w", "r") as work:
        assert set(work.finished) == ({"W", "V"} if cut == "line" else {"V"})


@pytest.mark.parametrize("line", ["7", '["W"]', '["W", [[1]]]', "{", "[]"])
def test_a_damaged_journal_is_no_work_done(tmp_path: Path, line: str) -> None:
    folder = left(tmp_path)
    (folder / "journal").write_text(json.dumps("r") + f"\n{line}\n")
    with workplace(tmp_path, "w", "r") as work:
        assert work.finished == {}
        assert work.folder != folder


def test_a_folder_whose_removal_was_cut_short_is_removed(tmp_path: Path) -> None:
    (left(tmp_path) / "journal").unlink()
    with workplace(tmp_path, "w", "r") as work:
        assert list(tmp_path.iterdir()) == [work.folder]


def test_a_folder_that_was_never_begun_goes_after_a_minute(tmp_path: Path) -> None:
    left(tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "journal").unlink()
    new = folder.rename(folder.with_suffix(".new"))
    with workplace(tmp_path, "w", "r"):
        assert new.exists()
    os.utime(new, (1, 1))
    with workplace(tmp_path, "w", "r"):
        assert not new.exists()
