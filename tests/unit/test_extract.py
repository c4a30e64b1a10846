"""Extraction: every source of a leaf's value, both formats, the same bytes each time, and no half file."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quantize
from safetensors.numpy import load_file
from weight_fakes import MemoryCheckpoint, bind, leaf, weight

from gguf_writer import gguf, tensor
from logos.hookspecs import WeightEntry, WeightFile
from logos.refusal import Refused
from logos.source import Spot
from logos.weights import extract
from logos.weights.binding import Binding, Bound, Role
from logos.weights.encode import bfloat16_bits
from logos.weights.extract import write_weight_file
from logos.weights.files import find_weight_file, read_weight_file
from logos.weights.safetensors import read_header
from logos.weights.stream import chunks
from logos.weights.values import leaf_array
from logos.weights.views import Table, TensorView
from logos_gguf.checkpoint import GGUFCheckpoint

ROWS = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)


def angles(rows: int, columns: int) -> np.ndarray:
    return np.cos(np.arange(rows)[:, None] / (1.0 + np.arange(columns)))


def binding(folder: Path) -> Binding:
    checkpoint = MemoryCheckpoint({"t": ROWS})
    (folder / "F.f64").write_bytes(np.array([[0.1, 0.2]]).tobytes())
    return bind(
        checkpoint,
        weight(leaf("W", 3, 4), TensorView("t", None, True), checkpoint),
        weight(leaf("P", 4, 3), TensorView("t", (range(0, 4, 2), range(1, 4, 2))), checkpoint),
        Bound(leaf("R", 5, 2), Role.TABLE, Table(angles)),
        weight(leaf("F", 1, 2), file=folder / "F.f64"),
        weight(leaf("D", 1, 3, fills=[(1, 2.5)])),
        Bound(leaf("N", 2, 2, False, [(0, 2**62), (3, -5)]), Role.CONSTANT),
        Bound(leaf("K", 2, 3), Role.STATE),
        Bound(leaf("tok", 1, 1, False), Role.INPUT),
        weight(leaf("M", 1, 3)),
    )


EXPECTED = {
    "W": ROWS.T,
    "P": ROWS[[0, 2, 1, 3]],
    "R": angles(5, 2),
    "F": np.array([[0.1, 0.2]]),
    "D": np.array([[0, 2.5, 0]]),
    "N": np.array([[2**62, 0], [0, -5]]),
    "K": np.zeros((2, 3)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_leafs_value_comes_from_its_source_in_full_width(tmp_path: Path, name: str) -> None:
    made = binding(tmp_path)
    found = leaf_array(made, made[name])
    assert found is not None
    assert found.dtype == (np.int64 if name == "N" else np.float64)
    np.testing.assert_array_equal(found, EXPECTED[name])


def test_a_variable_named_as_the_headers_metadata_is_extracted_and_read_back(tmp_path: Path) -> None:
    checkpoint = MemoryCheckpoint({"t": ROWS})
    names = ("W", "__metadata__")
    made = bind(checkpoint, *(weight(leaf(name, 3, 4), TensorView("t", None, True), checkpoint) for name in names))
    entries = tuple(WeightEntry(name, "F32", transposed=True) for name in names)
    (path,) = write_weight_file(made, WeightFile("weights.safetensors", entries), tmp_path)
    assert set(load_file(path)) == {"W", "__metadata__.value"}
    for name in names:
        np.testing.assert_array_equal(read_weight_file(path, name, (3, 4), True), ROWS.T)


@pytest.mark.parametrize("name", ["tok", "M"])
def test_an_input_and_a_weight_that_nothing_supplies_have_no_value(tmp_path: Path, name: str) -> None:
    made = binding(tmp_path)
    assert leaf_array(made, made[name]) is None


def test_given_arrays_stand_before_every_other_source(tmp_path: Path) -> None:
    made = binding(tmp_path)
    given = {"W": np.ones((3, 4)), "tok": np.array([[7]])}
    for name, value in given.items():
        found = leaf_array(made, made[name], given)
        np.testing.assert_array_equal(found, value)


ENTRIES = (
    WeightEntry("P", "F32", True),
    WeightEntry("F", "BF16"),
    WeightEntry("R", "F64"),
    WeightEntry("W", "F32", True),
    WeightEntry("N", "I64"),
    WeightEntry("D", "F32"),
)


def test_a_safetensors_file_holds_every_entry_as_the_library_reads_it(tmp_path: Path) -> None:
    paths = write_weight_file(binding(tmp_path), WeightFile("deep/weights.safetensors", ENTRIES), tmp_path)
    assert paths == (tmp_path / "deep" / "weights.safetensors",)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["weights.safetensors"]
    entries = read_header(paths[0]).entries
    assert [entry.name for entry in entries.values()] == ["R", "N", "P", "W", "D", "F"]
    assert all(entry.start % 8 == 0 for entry in list(entries.values())[:2])
    found = read_weight_file(paths[0], "F", (1, 2), True)
    np.testing.assert_array_equal(found, np.array([[0.10009765625, 0.2001953125]]))
    floats = WeightFile("plain.safetensors", tuple(entry for entry in ENTRIES if entry.dtype != "BF16"))
    (plain,) = write_weight_file(binding(tmp_path), floats, tmp_path)
    loaded = load_file(plain)
    np.testing.assert_array_equal(loaded["W"], ROWS)
    np.testing.assert_array_equal(loaded["P"], ROWS[[0, 2, 1, 3]].T)
    np.testing.assert_array_equal(loaded["R"], angles(5, 2))
    np.testing.assert_array_equal(loaded["N"], EXPECTED["N"])


def test_an_extracted_file_read_back_gives_the_programs_shapes(tmp_path: Path) -> None:
    write_weight_file(binding(tmp_path), WeightFile("weights.safetensors", ENTRIES), tmp_path)
    made = binding(tmp_path)
    for name in ("W", "P", "R", "N", "D"):
        path = find_weight_file(tmp_path, name)
        assert path == tmp_path / "weights.safetensors"
        leaf = made[name].leaf.value
        np.testing.assert_array_equal(read_weight_file(path, name, leaf.shape, leaf.real), EXPECTED[name])


def test_raw_files_hold_the_programs_shape(tmp_path: Path) -> None:
    entries = (WeightEntry("W", "F32"), WeightEntry("R", "F64"), WeightEntry("N", "I64"))
    paths = write_weight_file(binding(tmp_path), WeightFile("raw", entries, "raw"), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["raw/W.f32", "raw/R.f64", "raw/N.i64"]
    assert paths[0].read_bytes() == np.ascontiguousarray(ROWS.T).tobytes()
    assert paths[1].read_bytes() == angles(5, 2).tobytes()
    assert paths[2].read_bytes() == EXPECTED["N"].astype("<i8").tobytes()


def test_the_bytes_do_not_depend_on_how_the_work_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = WeightFile("weights.safetensors", (*ENTRIES, WeightEntry("K", "F32", True)))
    (path,) = write_weight_file(binding(tmp_path), file, tmp_path)
    whole = path.read_bytes()
    monkeypatch.setattr(extract, "CHUNK", 8)
    monkeypatch.setattr(extract, "_BAND", 32)
    (path,) = write_weight_file(binding(tmp_path), file, tmp_path)
    assert path.read_bytes() == whole


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    write_weight_file(
        binding(tmp_path), WeightFile("w.safetensors", ENTRIES), tmp_path, progress=lambda *now: seen.append(now)
    )
    total = 10 * 8 + 4 * 8 + 12 * 4 + 12 * 4 + 3 * 4 + 2 * 2
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_leaves_without_a_value_are_refused_together_and_nothing_is_written(tmp_path: Path) -> None:
    entries = (WeightEntry("W", "F32"), WeightEntry("M", "F32"), WeightEntry("tok", "I64"))
    with pytest.raises(Refused) as caught:
        write_weight_file(binding(tmp_path), WeightFile("out/w.safetensors", entries), tmp_path)
    assert [refusal.what for refusal in caught.value.refusals] == [
        "M (weight) has no value to extract",
        "tok (input) has no value to extract",
    ]
    assert caught.value.refusals[0].text() == (
        "made.lg:1:5: M (weight) has no value to extract [weight-without-value]\n"
        "    Let M be a 1 by 3 tensor of Real.\n"
        "        ^\n"
        "  next: give a checkpoint that holds it, a weight folder with its file, or --fill"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("form", "name"), [("safetensors", "out/weights.safetensors"), ("raw", "out")]
)
def test_what_the_disk_has_no_room_for_is_refused_before_it_is_written(tmp_path: Path, form: str, name: str) -> None:
    vast = bind(None, Bound(leaf("W", 2**24, 2**24 - 1, True, [(0, 1)]), Role.CONSTANT))
    path = "weights.safetensors" if form == "safetensors" else "."
    with pytest.raises(Refused) as refused:
        write_weight_file(vast, WeightFile(path, (WeightEntry("W", "F64"),), form), tmp_path / "out")
    (refusal,) = refused.value.refusals
    free = shutil.disk_usage(tmp_path).free
    assert (refusal.code, refusal.where) == ("not-enough-space", Spot(str(tmp_path / name)))
    assert refusal.what.startswith("2,251,799,679,467,520 bytes are to be written, and the disk has ")
    assert 0.5 < int("".join(filter(str.isdigit, refusal.what.rpartition(" has ")[2]))) / free < 2
    assert list((tmp_path / "out").iterdir()) == []


def test_what_fits_to_the_byte_is_written_and_what_does_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = WeightFile("w.safetensors", ENTRIES)
    total = 10 * 8 + 4 * 8 + 12 * 4 + 12 * 4 + 3 * 4 + 2 * 2
    for free, fits in ((total - 1, False), (total, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        if fits:
            assert write_weight_file(binding(tmp_path), file, tmp_path)[0].exists()
        else:
            with pytest.raises(Refused, match=rf"{total} bytes are to be written, and the disk has {free} free"):
                write_weight_file(binding(tmp_path), file, tmp_path)


def test_a_failure_half_way_leaves_no_file(tmp_path: Path) -> None:
    def fail(rows: int, columns: int) -> np.ndarray:
        raise ZeroDivisionError

    broken = bind(None, Bound(leaf("A", 1, 1), Role.CONSTANT), Bound(leaf("R", 5, 2), Role.TABLE, Table(fail)))
    with pytest.raises(ZeroDivisionError):
        write_weight_file(
            broken, WeightFile("out/w.safetensors", (WeightEntry("A", "F64"), WeightEntry("R", "F64"))), tmp_path
        )
    assert list((tmp_path / "out").iterdir()) == []


def test_bfloat16_is_the_nearest_with_ties_to_even_and_keeps_nan() -> None:
    bits = np.random.default_rng(3).integers(0, 2**32, (50, 2000), dtype=np.uint32)
    bits[0, :8] = [0x7F800001, 0xFFFFFFFF, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0xFF800000, 0, 0x80000000]
    values = bits.view(np.float32)
    with np.errstate(all="ignore"):
        expected = quantize(values, GGMLQuantizationType.BF16).view(np.uint16)
    np.testing.assert_array_equal(bfloat16_bits(values), expected)


@pytest.mark.parametrize("form", ["raw", "safetensors"])
def test_an_interrupted_extraction_goes_on_where_it_ended(tmp_path: Path, form: str) -> None:
    numbers = np.random.default_rng(9)
    arrays = {f"t{n}": tensor(numbers.standard_normal((32, 64)).astype(np.float32)) for n in range(6)}
    (tmp_path / "m.gguf").write_bytes(gguf({}, arrays))
    checkpoint: Any = GGUFCheckpoint(tmp_path / "m.gguf")
    made = bind(checkpoint, *(weight(leaf(f"W{n}", 32, 64), TensorView(f"t{n}"), checkpoint) for n in range(6)))
    file = WeightFile("w", tuple(WeightEntry(f"W{n}", "F32") for n in range(6)), form)
    written = {path.name: path.read_bytes() for path in write_weight_file(made, file, tmp_path / "whole")}

    def interrupt(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_weight_file(made, file, tmp_path / "out", progress=interrupt)
    (left,) = (tmp_path / "out").rglob("journal")
    finished = left.read_bytes().count(b"\n") - 1
    assert finished >= 2
    seen: list[int] = []
    paths = write_weight_file(made, file, tmp_path / "out", progress=lambda done, total: seen.append(done))
    assert {path.name: path.read_bytes() for path in paths} == written
    assert len(seen) == 6
    assert list((tmp_path / "out").rglob(".*")) == []


@pytest.mark.parametrize(("value", "bits"), [
    # Each lies beside a tie of bfloat16 by less than float32 can say: rounded twice it would go to the even side.
    (1 + 2**-8 + 2**-40, 0x3F81),
    (1 + 3 * 2**-8 - 2**-40, 0x3F81),
    (-1 - 2**-8 - 2**-40, 0xBF81),
    (1 + 2**-8, 0x3F80),
    ((2 - 2**-8) * 2.0**127, 0x7F80),
    ((2 - 2**-8 - 2**-50) * 2.0**127, 0x7F7F),
    (1e300, 0x7F80),
    (-np.inf, 0xFF80),
    (2**-134, 0x0000),
    (2**-134 + 2**-180, 0x0001),
    (0.0, 0),
])  # fmt: skip
def test_float64_becomes_bfloat16_in_one_rounding(value: float, bits: int) -> None:
    assert bfloat16_bits(np.array([value])).tolist() == [bits]


def test_a_float64_nan_becomes_a_quiet_bfloat16_nan() -> None:
    (bits,) = bfloat16_bits(np.array([np.nan])).tolist()
    assert bits & 0x7FC0 == 0x7FC0


def test_float64_values_that_float32_holds_round_as_float32_does() -> None:
    single = np.random.default_rng(8).integers(0, 0x7F800000, 100_000, dtype=np.uint32).view(np.float32)
    np.testing.assert_array_equal(bfloat16_bits(single.astype(np.float64)), bfloat16_bits(single))


def test_a_band_of_a_transpose_reads_the_source_in_bounded_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = MemoryCheckpoint({"t": np.arange(6000, dtype=np.float32).reshape(1000, 6)})
    view = TensorView("t", None, True)
    made = bind(checkpoint, weight(leaf("W", 6, 1000), view, checkpoint))
    monkeypatch.setattr(extract, "CHUNK", 480)
    monkeypatch.setattr(extract, "_BAND", 16000)
    (path,) = write_weight_file(made, WeightFile("raw", (WeightEntry("W", "F32"),), "raw"), tmp_path)
    assert checkpoint.most_rows == 20
    assert path.read_bytes() == np.concatenate(list(chunks(checkpoint, view))).T.astype("<f4").tobytes()
