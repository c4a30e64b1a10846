"""Weight folders: which file holds a variable, its values, and the refusal of a file that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from logos.refusal import Refused
from logos.weights.files import find_weight_file, read_weight_file
from logos.weights.safetensors import header, read_header

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3) / 4


def refusal(path: Path, variable: str = "W", shape: tuple[int, int] = (2, 3), real: bool = True) -> str:
    with pytest.raises(Refused) as caught:
        read_weight_file(path, variable, shape, real)
    return caught.value.refusals[0].text().replace(str(path.parent), "FOLDER")


def test_files_are_looked_for_in_the_stated_order(tmp_path: Path) -> None:
    assert find_weight_file(tmp_path, "W") is None
    for suffix in (".npy", ".i64", ".f32", ".f64"):
        (tmp_path / f"W{suffix}").write_bytes(b"")
        assert find_weight_file(tmp_path, "W") == tmp_path / f"W{suffix}"
    save_file({"other": VALUES}, tmp_path / "weights.safetensors")
    assert find_weight_file(tmp_path, "W") == tmp_path / "W.f64"
    save_file({"other": VALUES, "W": VALUES}, tmp_path / "weights.safetensors")
    assert find_weight_file(tmp_path, "W") == tmp_path / "weights.safetensors"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8"])
def test_a_safetensors_file_of_the_library_reads_in_each_dtype(tmp_path: Path, dtype: str) -> None:
    values = np.array([[0, 1, -2], [3, 4, 5]], dtype)
    save_file({"a": VALUES, "W": values}, tmp_path / "weights.safetensors")
    found = read_weight_file(tmp_path / "weights.safetensors", "W", (2, 3), True)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, values)


def test_bfloat16_reads_as_the_float32_with_those_upper_bits(tmp_path: Path) -> None:
    bits = np.array([[0x3F80, 0xC000], [0x7F80, 0x0001]], "<u2")
    path = tmp_path / "weights.safetensors"
    path.write_bytes(header([("W", "BF16", (2, 2))], []) + bits.tobytes())
    found = read_weight_file(path, "W", (2, 2), True)
    np.testing.assert_array_equal(found, [[1.0, -2.0], [np.inf, 2.0**-133]])


def test_a_transposed_tensor_is_turned_back_even_where_it_is_square(tmp_path: Path) -> None:
    square = np.arange(4.0).reshape(2, 2)
    path = tmp_path / "weights.safetensors"
    path.write_bytes(header([("W", "F64", (2, 2)), ("X", "F64", (2, 2))], ["W"]) + square.tobytes() * 2)
    np.testing.assert_array_equal(read_weight_file(path, "W", (2, 2), True), square.T)
    np.testing.assert_array_equal(read_weight_file(path, "X", (2, 2), True), square)


@pytest.mark.parametrize(("suffix", "dtype"), [(".f64", "<f8"), (".f32", "<f4"), (".i64", "<i8")])
def test_raw_files_are_row_major_in_the_programs_shape(tmp_path: Path, suffix: str, dtype: str) -> None:
    values = np.array([[7, -1, 2], [3, 4, 5]], dtype)
    (tmp_path / f"W{suffix}").write_bytes(values.tobytes())
    np.testing.assert_array_equal(read_weight_file(tmp_path / f"W{suffix}", "W", (2, 3), True), values)


def test_an_int_variable_reads_as_int64_exactly(tmp_path: Path) -> None:
    values = np.array([[2**53 + 1, -(2**63)]])
    np.save(tmp_path / "N.npy", values)
    found = read_weight_file(tmp_path / "N.npy", "N", (1, 2), False)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, values)


def test_one_row_may_be_stored_as_one_dimension(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.arange(3.0))
    np.testing.assert_array_equal(read_weight_file(tmp_path / "b.npy", "b", (1, 3), True), [[0, 1, 2]])
    assert "[weight-file-shape]" in refusal(tmp_path / "b.npy", "b", (3, 1))


def test_a_raw_file_of_another_length_is_refused_with_both_sizes(tmp_path: Path) -> None:
    (tmp_path / "W.f32").write_bytes(b"\0" * 20)
    assert refusal(tmp_path / "W.f32") == (
        "FOLDER/W.f32, W: the file has 20 bytes where 24 are due; the program's W is 2 by 3 [weight-file-shape]\n"
        "  next: write the file for this program's shape, rows first"
    )


def test_a_tensor_of_another_shape_is_refused_with_both_shapes(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"W": VALUES.T.copy()}, path)
    assert refusal(path) == (
        "FOLDER/weights.safetensors, W: the file's shape is (3, 2); the program's W is 2 by 3 [weight-file-shape]\n"
        "  next: write the file for this program's shape, rows first"
    )
    np.save(tmp_path / "W.npy", VALUES.T)
    assert "the array's shape is (3, 2); the program's W is 2 by 3" in refusal(tmp_path / "W.npy")


def test_reals_are_refused_for_a_tensor_of_int(tmp_path: Path) -> None:
    np.save(tmp_path / "W.npy", VALUES)
    assert refusal(tmp_path / "W.npy", real=False) == (
        "FOLDER/W.npy: W is a tensor of Int and the file holds reals [weight-file-dtype]\n"
        "  next: give W as 64-bit integers (W.i64 or .npy)"
    )


def test_a_dtype_that_logos_does_not_read_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    text = json.dumps({"W": {"dtype": "F8_E4M3", "shape": [2, 3], "data_offsets": [0, 6]}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 6)
    assert refusal(path).startswith(
        "FOLDER/weights.safetensors, W: W is stored as F8_E4M3, which LOGOS does not read [weight-file-dtype]"
    )
    np.save(tmp_path / "W.npy", VALUES.astype(complex))
    assert "W is stored as complex128" in refusal(tmp_path / "W.npy")


BAD_ENTRIES = {
    "its header is not JSON": b"{",
    "its header is no JSON object": b"[]",
    "the entry of W is no JSON object": b'{"W":3}',
    "the entry of W lacks its dtype, shape or data_offsets": b'{"W":{"dtype":"F32","shape":[-2],"data_offsets":[0,4]}}',
    "W is F32 (2, 3) but takes 20 bytes": b'{"W":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}}',
    "W ends at byte 89; the file has 65": b'{"W":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}',
}


@pytest.mark.parametrize("what", BAD_ENTRIES)
def test_a_broken_safetensors_file_is_refused_with_its_fault(tmp_path: Path, what: str) -> None:
    path = tmp_path / "weights.safetensors"
    text = BAD_ENTRIES[what]
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert refusal(path) == (
        f"FOLDER/weights.safetensors: not a sound safetensors file: {what} [broken-weight-file]\n"
        "  next: write or download it again"
    )


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, (1 << 40).to_bytes(8, "little") + b"{}"])
def test_a_header_longer_than_the_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)
    assert f"bytes in a file of {len(data)} [broken-weight-file]" in refusal(path)


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00 not one", b"PK\x03\x04", b"\x80\x04N."])
def test_a_broken_npy_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "W.npy").write_bytes(data)
    assert refusal(tmp_path / "W.npy").startswith("FOLDER/W.npy: not a sound .npy file: ")


def test_an_archive_of_arrays_is_no_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "W.npz", W=VALUES)
    (tmp_path / "W.npz").rename(tmp_path / "W.npy")
    assert "not a sound .npy file: it is no .npy file [broken-weight-file]" in refusal(tmp_path / "W.npy")


def test_a_rewritten_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"W": VALUES}, path)
    assert set(read_header(path).entries) == {"W"}
    save_file({"W": VALUES, "long_name_of_another": VALUES}, path)
    assert set(read_header(path).entries) == {"W", "long_name_of_another"}


def test_a_variable_named_as_the_headers_metadata_lies_under_a_key_of_its_own(tmp_path: Path) -> None:
    square = np.arange(4.0).reshape(2, 2)
    path = tmp_path / "weights.safetensors"
    names = ("W", "__metadata__")
    path.write_bytes(header([(name, "F64", (2, 2)) for name in names], names) + square.tobytes() * 2)
    assert set(load_file(path)) == {"W", "__metadata__.value"}
    for name in names:
        assert find_weight_file(tmp_path, name) == path
        np.testing.assert_array_equal(read_weight_file(path, name, (2, 2), True), square.T)
    path.write_bytes(header([("W", "F64", (2, 2))], ["W"]) + square.tobytes())
    assert find_weight_file(tmp_path, "__metadata__") is None
