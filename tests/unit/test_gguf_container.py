"""The GGUF reader: sound files of every kind, and one refusal naming the fault for each broken one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gguf_faults import BROKEN, SMALL, A
from gguf_writer import Raw, gguf, tensor, text
from logos.refusal import Refused
from logos_gguf.checkpoint import GGUFCheckpoint
from logos_gguf.metadata import Array
from logos_gguf.plugin import GGUFFormat

B = np.arange(64, dtype=np.float32).reshape(2, 4, 8)


def opened(folder: Path, data: bytes, name: str = "m.gguf") -> GGUFCheckpoint:
    (folder / name).write_bytes(data)
    return GGUFCheckpoint(folder / name)


def refusal(folder: Path, data: bytes) -> tuple[str, str]:
    with pytest.raises(Refused) as caught:
        opened(folder, data)
    (one,) = caught.value.refusals
    return one.code, one.text().replace(f"{folder}/", "")


METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "yes": True,
    "number": 7,
    "low": -5,
    "real": 0.5,
    "wide": Raw(10, struct.pack("<Q", 2**63 + 1)),
    "double": Raw(12, struct.pack("<d", 0.1)),
    "byte": Raw(1, struct.pack("<b", -3)),
    "numbers": [1, 2, 3],
    "flags": [True, False],
    "texts": ["a", "", "é"],
    "none": [],
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [8, 16, 32, 64])
def test_metadata_and_tensors_read_at_every_version_and_alignment(
    tmp_path: Path, version: int, alignment: int
) -> None:
    data = gguf(METADATA, {"a": tensor(A), "b": tensor(B, "F16")}, version=version, alignment=alignment)
    found = opened(tmp_path, data)
    values = {key: tuple(value) if isinstance(value, Array) else value for key, value in found.metadata.items()}
    values.pop("general.alignment", None)
    assert values == {
        "general.architecture": "llama", "yes": True, "number": 7, "low": -5, "real": 0.5, "wide": 2**63 + 1,
        "double": 0.1, "byte": -3, "numbers": (1, 2, 3), "flags": (True, False), "texts": ("a", "", "é"), "none": (),
    }  # fmt: skip
    assert found.tensors["b"].shape == (2, 4, 8)
    assert (found.tensors["b"].rows, found.tensors["b"].columns, found.tensors["b"].nbytes) == (8, 8, 128)
    np.testing.assert_array_equal(found.float_rows("a", 0, 3), A)
    np.testing.assert_array_equal(found.float_rows("b", 3, 6), B.reshape(8, 8)[3:6])
    assert found.raw_rows("b", 3, 6).tobytes() == B.reshape(8, 8)[3:6].astype("<f2").tobytes()


def test_a_one_dimensional_tensor_is_one_row(tmp_path: Path) -> None:
    found = opened(tmp_path, gguf({}, {"norm": tensor(A[0])}))
    np.testing.assert_array_equal(found.float_rows("norm", 0, 1), A[:1])


def test_block_rows_are_cut_at_whole_blocks(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (5, 68), dtype=np.uint8)
    found = opened(tmp_path, gguf({}, {"q": tensor(raw, "Q8_0")}))
    assert found.tensors["q"].shape == (5, 64)
    np.testing.assert_array_equal(found.raw_rows("q", 1, 4), raw[1:4])


def test_strings_are_decoded_only_when_asked_for(tmp_path: Path) -> None:
    texts = Raw(9, struct.pack("<IQ", 8, 3) + text("ab") + text(b"\xff") + text("c"))
    array = opened(tmp_path, gguf({"tokens": texts})).metadata["tokens"]
    assert isinstance(array, Array)
    assert len(array) == 3
    assert array._items is None
    assert array[1] == "\ufffd"
    assert array[:1] == ("ab",)


def test_a_value_that_float32_cannot_hold_is_refused_by_tensor(tmp_path: Path) -> None:
    found = opened(tmp_path, gguf({}, {"w": tensor(np.array([[0.5, 0.1]]), "F64")}))
    with pytest.raises(Refused) as caught:
        found.float_rows("w", 0, 1)
    assert caught.value.refusals[0].text().replace(f"{tmp_path}/", "") == (
        "m.gguf, tensor w: float32 cannot hold 0.1, and weights are float32: the tensor is stored as F64 "
        "[inexact-weight]\n  next: convert the tensor to F32"
    )


def test_rows_outside_a_tensor_are_an_error(tmp_path: Path) -> None:
    found = opened(tmp_path, gguf({}, {"a": tensor(A)}))
    with pytest.raises(IndexError):
        found.raw_rows("a", 2, 4)


def test_arrays_outlive_the_closed_checkpoint(tmp_path: Path) -> None:
    found = opened(tmp_path, gguf({}, {"a": tensor(A)}))
    rows = found.float_rows("a", 0, 3)
    found.close()
    np.testing.assert_array_equal(rows, A)


def test_pages_behind_a_stream_are_given_back_and_still_readable(tmp_path: Path) -> None:
    big = np.arange(3 << 20, dtype=np.float32).reshape(-1, 1024)
    found = opened(tmp_path, gguf({}, {"pad": tensor(A), "big": tensor(big)}))
    parts = [found.float_rows("big", start, start + 512) for start in range(0, len(big), 512)]
    np.testing.assert_array_equal(np.concatenate(parts), big)


def test_the_format_knows_its_files_by_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gguf())
    (tmp_path / "b").write_bytes(b"GGU")
    assert GGUFFormat().reads(tmp_path / "a")
    assert not GGUFFormat().reads(tmp_path / "b")


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_with_its_fault(tmp_path: Path, what: str) -> None:
    data, code = BROKEN[what]
    found, message = refusal(tmp_path, data)
    place = "m.gguf, tensor t" if code == "checkpoint-storage" else "m.gguf"
    assert message.splitlines()[0] == f"{place}: {what} [{code}]"
    assert message.splitlines()[1].startswith("  next: ")
    assert found == code


def test_a_file_cut_anywhere_is_refused_once(tmp_path: Path) -> None:
    for cut in range(len(SMALL)):
        code, _ = refusal(tmp_path, SMALL[:cut])
        assert code == "broken-checkpoint"


def test_a_cut_file_names_tensor_and_bytes(tmp_path: Path) -> None:
    _, message = refusal(tmp_path, SMALL[:-3])
    end = len(SMALL)
    assert message.splitlines()[0] == (
        f"m.gguf: the tensor b (1, 4) of F16 ends at byte {end}, and the file has {end - 3}: 3 bytes are missing "
        "[broken-checkpoint]"
    )


def shards(count: int, **changes: Any) -> dict[str, bytes]:
    """A set of shards of which the first holds no tensors."""
    made = {}
    for number in range(count):
        keys = {"split.no": number, "split.count": count, "split.tensors.count": count - 1, **changes}
        keys = {"general.architecture": "llama", **keys} if number == 0 else keys
        tensors = {f"t{number}": tensor(A + number)} if number else {}
        made[f"m-{number + 1:05}-of-{count:05}.gguf"] = gguf(keys, tensors)
    return made


@pytest.mark.parametrize("first", ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"])
def test_any_shard_opens_the_set(tmp_path: Path, first: str) -> None:
    for name, data in shards(3).items():
        (tmp_path / name).write_bytes(data)
    found = GGUFCheckpoint(tmp_path / first)
    assert [path.name for path in found.files] == list(shards(3))
    assert found.metadata["general.architecture"] == "llama"
    assert set(found.tensors) == {"t1", "t2"}
    np.testing.assert_array_equal(found.float_rows("t2", 0, 3), A + 2)
    assert found.tensors["t2"].file == tmp_path / "m-00003-of-00003.gguf"


def set_refusal(folder: Path, files: dict[str, bytes], first: str) -> str:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(Refused) as caught:
        GGUFCheckpoint(folder / first)
    return caught.value.refusals[0].text().replace(f"{folder}/", "").replace(str(folder), "FOLDER")


def test_missing_shards_are_named(tmp_path: Path) -> None:
    files = shards(3)
    del files["m-00001-of-00003.gguf"]
    assert set_refusal(tmp_path, files, "m-00002-of-00003.gguf") == (
        "m-00002-of-00003.gguf: the checkpoint has 3 shards; m-00001-of-00003.gguf is missing [missing-shard]\n"
        "  next: put all 3 shards in FOLDER"
    )


def test_a_cut_shard_is_named(tmp_path: Path) -> None:
    files = shards(2)
    files["m-00002-of-00002.gguf"] = files["m-00002-of-00002.gguf"][:-4]
    message = set_refusal(tmp_path, files, "m-00001-of-00002.gguf")
    assert message.startswith("m-00002-of-00002.gguf: the tensor t1 (3, 4) of F32 ends at byte ")


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    files = shards(3)
    files["m-00003-of-00003.gguf"] = gguf({"split.no": 2, "split.count": 3}, {"t1": tensor(A)})
    message = set_refusal(tmp_path, files, "m-00001-of-00003.gguf")
    assert message.startswith("m-00003-of-00003.gguf: the tensor t1 stands in m-00002-of-00003.gguf too")


def test_shards_of_different_sets_are_refused(tmp_path: Path) -> None:
    files = shards(2)
    files["m-00002-of-00002.gguf"] = files["m-00001-of-00002.gguf"]
    message = set_refusal(tmp_path, files, "m-00001-of-00002.gguf")
    assert "the shard says that it is number 0 of 2, counted from 0; its name says 1 of 2" in message


def test_a_wrong_total_of_tensors_is_refused(tmp_path: Path) -> None:
    message = set_refusal(tmp_path, shards(2, **{"split.tensors.count": 9}), "m-00001-of-00002.gguf")
    assert "the shards hold 1 tensors; split.tensors.count says 9 [broken-checkpoint]" in message


def test_a_renamed_shard_is_refused(tmp_path: Path) -> None:
    files = {"model.gguf": shards(2)["m-00001-of-00002.gguf"]}
    message = set_refusal(tmp_path, files, "model.gguf")
    assert "the file is one shard of 2, but its name does not end in -00001-of-00002.gguf" in message


def test_one_model_at_every_alignment_version_and_split_gives_the_same_values(tmp_path: Path) -> None:
    raw = np.random.default_rng(5).integers(0, 256, (6, 68), dtype=np.uint8)
    tensors = {"a": tensor(A), "q": tensor(raw, "Q8_0"), "b": tensor(B, "BF16")}
    files = {f"a{alignment}.gguf": gguf({}, tensors, alignment=alignment) for alignment in (16, 32, 64)}
    files["v2.gguf"] = gguf({}, tensors, version=2)
    for number, (name, one) in enumerate(tensors.items()):
        keys = {"split.no": number, "split.count": 3, "split.tensors.count": 3}
        files[f"s-{number + 1:05}-of-00003.gguf"] = gguf(keys, {name: one})
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    seen = set()
    for name in files:
        found = GGUFCheckpoint(tmp_path / name)
        seen.add(b"".join(found.float_rows(t, 0, found.tensors[t].rows).tobytes() for t in tensors))
    assert len(seen) == 1
