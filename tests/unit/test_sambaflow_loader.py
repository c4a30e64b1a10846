"""What an emitted module reads from a weight folder, tested on the loader alone."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

torch = pytest.importorskip("torch", reason="needs the extra logos-build[torch]")

from logos_sambaflow.emitted import loader  # noqa: E402
from logos_sambaflow.emitted.loader import ArtifactError, Leaf  # noqa: E402

W = Leaf((3, 2), "weight", "linear")
E = Leaf((3, 2), "weight", "real")
N = Leaf((1, 3), "weight", "int64")
P = Leaf((1, 1), "weight", "int32")
VALUES = np.arange(6.0).reshape(3, 2) / 7


def loaded(folder: Path, leaves: dict[str, Leaf], dtype: Any = None, **more: Any) -> Any:
    module = torch.nn.Module()
    names, fills, given = more.get("names", {}), more.get("fills", {}), more.get("given", {})
    loader.load_parameters(module, leaves, names, fills, str(folder), dtype or torch.float64, given)
    return module


def message(folder: Path, leaves: dict[str, Leaf], **more: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        loaded(folder, leaves, **more)
    return str(caught.value).replace(str(folder), "DIR")


def safetensors(folder: Path, transposed: str = "", **tensors: tuple[str, list[int], bytes]) -> None:
    header: dict[str, Any] = {"__metadata__": {"logos.transposed": transposed}} if transposed else {}
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / "weights.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_raw_files_lie_in_the_programs_shape(tmp_path: Path) -> None:
    VALUES.astype("<f8").tofile(tmp_path / "W.f64")
    VALUES.astype("<f4").tofile(tmp_path / "E.f32")
    module = loaded(tmp_path, {"W": W, "E": E})
    assert module.W.tolist() == VALUES.T.tolist()
    assert module.E.tolist() == VALUES.astype(np.float32).tolist()
    assert module.W.is_contiguous()
    assert not module.W.requires_grad


def test_safetensors_come_before_f64_before_f32(tmp_path: Path) -> None:
    (VALUES + 2).astype("<f4").tofile(tmp_path / "E.f32")
    assert loaded(tmp_path, {"E": E}).E[0, 0] == 2
    (VALUES + 1).astype("<f8").tofile(tmp_path / "E.f64")
    assert loaded(tmp_path, {"E": E}).E[0, 0] == 1
    np.save(tmp_path / "E.npy", VALUES + 3)
    assert loaded(tmp_path, {"E": E}).E[0, 0] == 1
    save_file({"E": VALUES}, tmp_path / "weights.safetensors")
    assert loaded(tmp_path, {"E": E}).E[0, 0] == 0


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<f2", ">f4", "<i4", "<u2", "u1"])
def test_an_npy_file_is_read_last_whatever_numbers_it_holds(dtype: str, tmp_path: Path) -> None:
    values = np.array([[0, 1], [2, 3], [250, 5]], dtype)
    np.save(tmp_path / "W.npy", np.asfortranarray(values))
    assert loaded(tmp_path, {"W": W}).W.tolist() == [[0, 2, 250], [1, 3, 5]]


def test_an_npy_file_of_whole_numbers_is_exact(tmp_path: Path) -> None:
    np.save(tmp_path / "N.npy", np.array([2**53 + 1, -(2**63), 5]))
    assert loaded(tmp_path, {"N": N}).N.tolist() == [[2**53 + 1, -(2**63), 5]]


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (VALUES[:2], "DIR/E.npy: E has shape [2, 2]; [3, 2] is due"),
        (VALUES > 0, "DIR/E.npy: E has dtype bool; numbers are due"),
        (VALUES * 1j, "DIR/E.npy: E has dtype complex128; numbers are due"),
    ],
)
def test_an_npy_file_that_does_not_fit_is_refused(array: Any, text: str, tmp_path: Path) -> None:
    np.save(tmp_path / "E.npy", array)
    assert message(tmp_path, {"E": E}) == text


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00 not one", b"PK\x03\x04"])
def test_a_broken_npy_file_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "E.npy").write_bytes(data)
    assert message(tmp_path, {"E": E}).startswith("cannot read DIR/E.npy: ")


def test_a_cut_npy_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "E.npy", VALUES)
    (tmp_path / "E.npy").write_bytes((tmp_path / "E.npy").read_bytes()[:-1])
    assert message(tmp_path, {"E": E}).startswith("cannot read DIR/E.npy: ")


@pytest.mark.parametrize("name", ["N.f64", "N.f32", "N.npy", "weights.safetensors"])
@pytest.mark.parametrize("values", [[1.5, float("nan"), 1e30], [1.0, 2.0, 3.0]])
def test_reals_in_a_file_are_no_integers(name: str, values: list[float], tmp_path: Path) -> None:
    array = np.array([values], "<f4" if name == "N.f32" else "<f8")
    if name.endswith(".npy"):
        np.save(tmp_path / name, array)
    elif name.endswith(".safetensors"):
        save_file({"N": array}, tmp_path / name)
    else:
        array.tofile(tmp_path / name)
    assert message(tmp_path, {"N": N}) == f"DIR/{name}: N is a tensor of Int and the file holds reals"


def test_a_variable_named_as_the_headers_metadata_lies_under_a_key_of_its_own(tmp_path: Path) -> None:
    values = VALUES.T.tobytes()
    tensors = {"W": ("F64", [2, 3], values), "__metadata__.value": ("F64", [2, 3], values)}
    safetensors(tmp_path, "W,__metadata__.value", **tensors)
    module = loaded(tmp_path, {"W": W, "__metadata__": E}, names={"__metadata__": "v__metadata__"})
    assert module.W.tolist() == VALUES.T.tolist()
    assert module.v__metadata__.tolist() == VALUES.tolist()
    safetensors(tmp_path, "W", W=("F64", [2, 3], values))
    assert message(tmp_path, {"W": W, "__metadata__": E}) == "DIR does not hold weight __metadata__ (3 by 2)"


def test_a_safetensors_file_says_which_tensors_lie_as_out_by_in(tmp_path: Path) -> None:
    safetensors(tmp_path, "W,E", W=("F64", [2, 3], VALUES.T.tobytes()), E=("F64", [2, 3], VALUES.T.tobytes()))
    module = loaded(tmp_path, {"W": W, "E": E})
    assert module.W.tolist() == VALUES.T.tolist()
    assert module.E.tolist() == VALUES.tolist()


def test_a_safetensors_file_of_others_lies_in_the_programs_shape(tmp_path: Path) -> None:
    save_file({"W": VALUES, "E": VALUES}, tmp_path / "weights.safetensors")
    module = loaded(tmp_path, {"W": W, "E": E})
    assert module.W.tolist() == VALUES.T.tolist()
    assert module.E.tolist() == VALUES.tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_reals_take_the_modules_dtype_whatever_the_file_holds(dtype: Any, tmp_path: Path) -> None:
    bits = torch.from_numpy(VALUES).to(torch.bfloat16).view(torch.int16).numpy().tobytes()
    safetensors(tmp_path, E=("BF16", [3, 2], bits), H=("F16", [3, 2], VALUES.astype("<f2").tobytes()))
    module = loaded(tmp_path, {"E": E, "H": E}, dtype)
    assert module.E.dtype == module.H.dtype == dtype
    assert module.E.tolist() == torch.from_numpy(VALUES).to(torch.bfloat16).to(dtype).tolist()
    assert module.H.tolist() == torch.from_numpy(VALUES.astype(np.float16)).to(dtype).tolist()


def test_integers_are_exact_in_every_dtype(tmp_path: Path) -> None:
    large = np.array([[2**53 + 1, -(2**63), 5]])
    safetensors(tmp_path, N=("I64", [1, 3], large.tobytes()), P=("I64", [1, 1], np.array([7]).tobytes()))
    module = loaded(tmp_path, {"N": N, "P": P}, torch.bfloat16)
    assert module.N.tolist() == large.tolist()
    assert (module.P.dtype, module.P.tolist()) == (torch.int32, [[7]])
    (tmp_path / "weights.safetensors").unlink()
    large.astype("<i8").tofile(tmp_path / "N.i64")
    np.array([7]).tofile(tmp_path / "P.i64")
    module = loaded(tmp_path, {"N": N, "P": P})
    assert (module.N.tolist(), module.P.tolist()) == (large.tolist(), [[7]])


def test_weights_that_lie_as_the_module_holds_them_are_mapped_not_copied(tmp_path: Path) -> None:
    safetensors(tmp_path, "W", W=("F32", [2, 3], VALUES.T.astype("<f4").tobytes()))
    before = (tmp_path / "weights.safetensors").read_bytes()
    module = loaded(tmp_path, {"W": W}, torch.float32)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path / "weights.safetensors") in maps.read_text()
    module.W.data[:] = 9.0
    assert (tmp_path / "weights.safetensors").read_bytes() == before


def test_a_tensor_off_its_alignment_is_read_all_the_same(tmp_path: Path) -> None:
    safetensors(tmp_path, odd=("I8", [1], b"\x01"), E=("F64", [3, 2], VALUES.tobytes()))
    assert loaded(tmp_path, {"E": E}).E.tolist() == VALUES.tolist()


def test_a_one_row_leaf_may_be_written_in_one_dimension(tmp_path: Path) -> None:
    save_file({"N": np.array([1, 2, 3])}, tmp_path / "weights.safetensors")
    assert loaded(tmp_path, {"N": N}).N.tolist() == [[1, 2, 3]]


def test_fills_stand_where_no_file_does_and_given_values_before_all(tmp_path: Path) -> None:
    fills = {"W": {1: 5.0, 4: -1.0}, "N": {2: 2**53 + 1}}
    module = loaded(tmp_path, {"W": W, "N": N}, fills=fills)
    assert module.W.tolist() == [[0, 0, -1], [5, 0, 0]]
    assert module.N.tolist() == [[0, 0, 2**53 + 1]]
    VALUES.tofile(tmp_path / "W.f64")
    assert loaded(tmp_path, {"W": W, "N": N}, fills=fills).W.tolist() == VALUES.T.tolist()
    assert loaded(tmp_path, {"W": W}, given={"W": 3}).W.tolist() == [[3] * 3] * 2


def test_a_renamed_variable_keeps_its_name_in_files(tmp_path: Path) -> None:
    VALUES.tofile(tmp_path / "half.f64")
    assert loaded(tmp_path, {"half": E}, names={"half": "half_"}).half_.tolist() == VALUES.tolist()


def test_everything_missing_is_one_message(tmp_path: Path) -> None:
    VALUES.tofile(tmp_path / "E.f64")
    leaves = {"W": W, "E": E, "N": N, "x": Leaf((1, 4), "input", "real"), "S": Leaf((2, 2), "state", "real")}
    assert message(tmp_path, leaves) == "DIR does not hold weight W (3 by 2), weight N (1 by 3)"


def test_a_folder_that_is_not_there_is_refused_even_where_nothing_is_to_be_read(tmp_path: Path) -> None:
    assert message(tmp_path / "typo", {}) == "DIR: there is no such weight folder"
    (tmp_path / "file").touch()
    assert message(tmp_path / "file", {}, fills={}) == "DIR: there is no such weight folder"
    assert loaded(Path(""), {}) is not None


def test_a_file_of_another_length_is_refused_with_both_sizes(tmp_path: Path) -> None:
    VALUES[:2].tofile(tmp_path / "W.f64")
    assert message(tmp_path, {"W": W}) == "DIR/W.f64 has 32 bytes; W (3 by 2) takes 48"


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({"E": ("F64", [2, 3], bytes(48))}, "E has shape [2, 3]; [3, 2] is due"),
        ({"E": ("F64", [3, 2], bytes(40))}, "E has 40 bytes; F64 [3, 2] takes 48"),
        ({"E": ("F8_E5M2", [3, 2], bytes(6))}, "E has dtype F8_E5M2; known are F64, F32, F16, BF16, I64, I32, I16, I8"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(tensors: dict[str, Any], text: str, tmp_path: Path) -> None:
    safetensors(tmp_path, **tensors)
    assert message(tmp_path, {"E": E}) == f"DIR/weights.safetensors: {text}"


def test_a_cut_safetensors_file_is_refused_with_both_sizes(tmp_path: Path) -> None:
    save_file({"E": VALUES}, tmp_path / "weights.safetensors")
    whole = (tmp_path / "weights.safetensors").read_bytes()
    (tmp_path / "weights.safetensors").write_bytes(whole[:-1])
    said = message(tmp_path, {"E": E})
    assert said == f"DIR/weights.safetensors: E should end at byte {len(whole)}, but the file has {len(whole) - 1}"
    (tmp_path / "weights.safetensors").write_bytes(whole[:20])
    assert "the header should end at byte" in message(tmp_path, {"E": E})
    (tmp_path / "weights.safetensors").write_bytes(whole[:3])
    assert "but the file has 3" in message(tmp_path, {"E": E})


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"E": 3}',
        b'{"E": {"dtype": "F32"}}',
        b"\xff\xff",
        b"[" * 100_000,
        b'{"E": {"dtype": "F8", "shape": [1], "data_offsets": [-8, -7]}}',
        b'{"E": {"dtype": "F8", "shape": [1.5], "data_offsets": [0, 0]}}',
        b'{"E": {"dtype": "F8", "shape": [true], "data_offsets": [0, 0]}}',
        b'{"E": {"dtype": ["F8"], "shape": [1], "data_offsets": [0, 0]}}',
        b'{"E": {"dtype": "F8", "shape": [1], "data_offsets": [0]}}',
    ],
)
def test_a_broken_safetensors_header_is_refused(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert message(tmp_path, {"E": E}).startswith("DIR/weights.safetensors: not a sound safetensors file (")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1, 2]], "E is 3 by 2; a value of shape [1, 2] was given"),
        ([[1, 2], [3]], "E: the rows of a value have equal lengths"),
        ("five", "E takes numbers"),
        ([[None, 1]], "E takes numbers"),
        (True, "E takes numbers"),
        ([[1, True], [1, 1], [1, 1]], "E takes numbers"),
        ({"a": 1}, "E takes numbers"),
    ],
)
def test_a_given_value_that_does_not_fit_is_refused(value: Any, text: str, tmp_path: Path) -> None:
    assert message(tmp_path, {"E": E}, given={"E": value}) == text


@pytest.mark.parametrize("value", [1.5, [[1.0, 2.0, 3.0]], [[1, 2.0, 3]], [1, True, 1], np.array([[1.0, 2, 3]])])
def test_an_integer_takes_whole_numbers(value: Any, tmp_path: Path) -> None:
    assert message(tmp_path, {"N": N}, given={"N": value}) == "N takes whole numbers"


@pytest.mark.parametrize("value", [2**63, [[2**64, 0, 0]], -(2**63) - 1, np.full((1, 3), 2**63, np.uint64)])
def test_an_integer_takes_64_bits(value: Any, tmp_path: Path) -> None:
    assert message(tmp_path, {"N": N}, given={"N": value}) == "a value of N does not fit 64 bits"


def test_integers_of_every_width_are_taken_exactly(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"N": N}, given={"N": np.array([2**63 - 1, 0, 1], np.uint64)}).N[0, 0] == 2**63 - 1
    assert loaded(tmp_path, {"N": N}, given={"N": [-(2**63), 2**53 + 1, 1]}).N.tolist() == [[-(2**63), 2**53 + 1, 1]]


def test_a_row_number_beyond_32_bits_is_not_cut(tmp_path: Path) -> None:
    text = "P holds a number beyond 32 bits, and it is a row of a table"
    assert message(tmp_path, {"P": P}, given={"P": 2**32 + 1}) == text
    for number in (2**31, -(2**31) - 1, -(2**63), 2**63 - 1):
        assert message(tmp_path, {"P": P}, given={"P": number}) == text
    np.array([-(2**63)]).tofile(tmp_path / "P.i64")
    assert message(tmp_path, {"P": P}) == text
    for number in (2**31 - 1, -(2**31)):
        assert loaded(tmp_path, {"P": P}, given={"P": number}).P.item() == number


@pytest.mark.parametrize("dtype", ["float16", "int8", torch.float16, torch.int64, None, 3, ["float32"]])
def test_another_dtype_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(ArtifactError, match="the module takes the dtypes float32, float64, bfloat16, not "):
        loader.torch_dtype(dtype)


def test_zeros_of_a_large_weight_take_no_memory() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    zeros = loader.initial("W", Leaf((1 << 14, 1 << 14), "weight", "linear"), {}, torch.bfloat16)
    assert tuple(zeros.shape) == (1 << 14, 1 << 14)
    assert zeros[5, 7] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
