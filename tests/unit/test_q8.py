"""Q8_0: split without rounding, quantized as ggml does it, and refused where its blocks do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from gguf import quantize as ggufs_quantize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from weight_fakes import MemoryCheckpoint, bind, leaf, weight

from gguf_writer import gguf, tensor
from logos.hookspecs import WeightEntry, WeightFile
from logos.refusal import Refused
from logos.weights.blocks import FORMATS, InexactValueError
from logos.weights.extract import check_sources, write_weight_file
from logos.weights.q8 import quantize, split
from logos.weights.views import TensorView
from logos_gguf.checkpoint import GGUFCheckpoint

Q8 = GGMLQuantizationType.Q8_0


def theirs(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return ggufs_quantize(values, Q8)


def ours(values: np.ndarray) -> np.ndarray:
    return quantize(values).view(np.uint8)


def of_every_size(count: int) -> np.ndarray:
    """Blocks of float32 from the smallest subnormal to near the largest that Q8_0 holds, of one size each."""
    random = np.random.default_rng(2)
    sizes = np.exp2(random.uniform(-149, 22, (count, 1)))
    return (random.uniform(-1, 1, (count, 32)) * sizes).astype(np.float32)


HALVES = np.concatenate([np.arange(31) + 0.5, [127]]).astype(np.float32)[None]
CASES = {
    "normal": np.random.default_rng(1).standard_normal((2500, 128)).astype(np.float32),
    "every size": of_every_size(10_000),
    "bits": np.random.default_rng(3).integers(0, 0x4AF00000, (10_000, 32), dtype=np.uint32).view(np.float32),
    "halves": np.concatenate([HALVES, -HALVES, HALVES[:, ::-1]]),
    "zeros": np.array([[0.0] * 32, [-0.0] * 32], np.float32),
    "subnormal": np.arange(64, dtype=np.uint32).reshape(2, 32).view(np.float32),
}


@pytest.mark.parametrize("case", CASES)
def test_float32_to_q8_0_is_ggufs_quantizer_to_the_bit(case: str) -> None:
    np.testing.assert_array_equal(ours(CASES[case]), theirs(CASES[case]))


@given(arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(64)), elements=st.floats(-8e6, 8e6, width=32)))
def test_any_finite_values_quantize_as_gguf_quantizes_them(values: np.ndarray) -> None:
    np.testing.assert_array_equal(ours(values), theirs(values))


def test_quantizing_what_blocks_stand_for_gives_values_as_near() -> None:
    values = CASES["normal"]
    back = FORMATS["Q8_0"].floats(ours(values))
    scale = np.abs(values).reshape(-1, 32).max(axis=1) / 127
    assert (np.abs(back - values).reshape(-1, 32).max(axis=1) <= scale * 0.57).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 127 * 65520.0, 1e300])
def test_a_value_that_no_block_holds_is_an_error(value: float) -> None:
    values = np.zeros((3, 64))
    values[1, 40] = value
    with pytest.raises(InexactValueError, match=r"^Q8_0 cannot hold a value of size "):
        quantize(values)


def test_quants_times_scales_are_ggufs_values_to_the_bit() -> None:
    raw = np.random.default_rng(4).integers(0, 256, (2500, 136), dtype=np.uint8)
    quants, scales = split(raw)
    assert (quants.dtype, quants.shape) == (np.int8, (2500, 128))
    assert (scales.dtype, scales.shape) == (np.float32, (2500, 4))
    with np.errstate(all="ignore"):
        found = (quants.reshape(2500, 4, 32) * scales[:, :, None]).reshape(2500, 128)
        expected = dequantize(raw, Q8)
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all()


def test_every_scale_is_numpys_float32_of_the_float16() -> None:
    every = np.arange(2**16, dtype="<u2")
    raw = np.zeros((2**16, 34), np.uint8)
    raw[:, :2] = every.view(np.uint8).reshape(-1, 2)
    _, scales = split(raw)
    expected = every.view("<f2").astype(np.float32)
    same = (scales[:, 0].view(np.uint32) == expected.view(np.uint32)) | (np.isnan(scales[:, 0]) & np.isnan(expected))
    assert same.all()


RAW = np.random.default_rng(5).integers(0, 120, (6, 68), dtype=np.uint8)
QUANTS, SCALES = split(RAW)


def written(binding: Any, folder: Path, *entries: WeightEntry) -> dict[str, bytes]:
    paths = write_weight_file(binding, WeightFile("q", entries, "raw"), folder)
    assert sorted(path.name for path in (folder / "q").iterdir()) == sorted(path.name for path in paths)
    return {path.name: path.read_bytes() for path in paths}


def test_stored_blocks_split_into_files_without_a_float_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf({}, {"t": tensor(RAW, "Q8_0")}))
    checkpoint: Any = GGUFCheckpoint(tmp_path / "m.gguf")
    monkeypatch.delattr(GGUFCheckpoint, "float_rows")
    rows = (range(4, 6), range(0, 4, 2))
    made = bind(
        checkpoint,
        weight(leaf("W", 64, 6), TensorView("t", None, True), checkpoint),
        weight(leaf("E", 4, 64), TensorView("t", rows), checkpoint),
    )
    found = written(made, tmp_path, WeightEntry("W", "Q8_0", True), WeightEntry("E", "Q8_0"))
    order = [4, 5, 0, 2]
    assert found == {
        "W.q": QUANTS.tobytes(),
        "W.s": SCALES.tobytes(),
        "E.q": QUANTS[order].tobytes(),
        "E.s": SCALES[order].tobytes(),
    }


@pytest.mark.parametrize("transposed", [False, True])
def test_other_types_are_quantized_along_the_rows_as_written(tmp_path: Path, transposed: bool) -> None:
    values = np.random.default_rng(6).standard_normal((96, 64)).astype(np.float32)
    checkpoint = MemoryCheckpoint({"t": values})
    made = bind(checkpoint, weight(leaf("W", 64, 96), TensorView("t", None, True), checkpoint))
    found = written(made, tmp_path, WeightEntry("W", "Q8_0", transposed))
    quants, scales = split(theirs(values if transposed else np.ascontiguousarray(values.T)))
    assert found == {"W.q": quants.tobytes(), "W.s": scales.tobytes()}


def test_rows_that_are_no_whole_number_of_blocks_are_refused_with_k_and_the_block() -> None:
    checkpoint = MemoryCheckpoint({"t": np.zeros((96, 48), np.float32), "e": np.zeros((64, 33), np.float32)})
    made = bind(
        checkpoint,
        weight(leaf("W", 48, 96), TensorView("t", None, True), checkpoint),
        weight(leaf("E", 64, 33), TensorView("e"), checkpoint),
    )
    entries = (WeightEntry("W", "Q8_0", True), WeightEntry("E", "Q8_0"))
    with pytest.raises(Refused) as caught:
        check_sources(made, WeightFile("q", entries, "raw"))
    assert [refusal.text() for refusal in caught.value.refusals] == [
        "made.lg:1:5: W is asked for in Q8_0 and has K = 48 rows; a block holds 32, and 48 is no multiple of it "
        "[not-whole-blocks]\n    Let W be a 48 by 96 tensor of Real.\n        ^\n"
        "  next: extract W as float32, or make K a multiple of 32",
        "made.lg:1:5: E is asked for in Q8_0 and has K = 33 columns; a block holds 32, and 33 is no multiple of it "
        "[not-whole-blocks]\n    Let E be a 64 by 33 tensor of Real.\n        ^\n"
        "  next: extract E as float32, or make K a multiple of 32",
    ]


def test_a_value_that_q8_0_cannot_hold_is_refused_by_variable_and_nothing_stays(tmp_path: Path) -> None:
    checkpoint = MemoryCheckpoint({"t": np.full((2, 32), 9e6, np.float32)})
    made = bind(checkpoint, weight(leaf("W", 32, 2), TensorView("t", None, True), checkpoint))
    with pytest.raises(Refused) as caught:
        write_weight_file(made, WeightFile("q", (WeightEntry("W", "Q8_0", True),), "raw"), tmp_path)
    assert caught.value.refusals[0].text() == (
        "made.lg:1:5: Q8_0 cannot hold a value of size 9000000.0, and W is asked for in it [inexact-weight]\n"
        "    Let W be a 32 by 2 tensor of Real.\n        ^\n  next: extract W as float32"
    )
    assert list((tmp_path / "q").iterdir()) == []


@pytest.mark.parametrize(("format", "dtype"), [("safetensors", "Q8_0"), ("raw", "BF16"), ("zip", "F32")])
def test_a_weight_file_of_a_type_that_its_format_lacks_is_the_plugins_error(format: str, dtype: str) -> None:
    with pytest.raises(ValueError, match=f"a weight file of format {format} takes "):
        WeightFile("w", (WeightEntry("W", dtype),), format)
