"""The GGUF reader: sound files of every kind, and one refusal naming the fault for each broken one."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_writer import Info, Raw, gguf, tensor, text

from logos.refusal import Refused
from logos_gguf.checkpoint import GGUFCheckpoint
from logos_gguf.metadata import Array
from logos_gguf.plugin import GGUFFormat

A = np.arange(12, dtype=np.float32).reshape(3, 4)
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


BIG = 2**64 - 1
F32 = Info((4, 3), 0, A.tobytes())


def info(**changes: Any) -> Info:
    return Info(**{"dimensions": (4, 3), "kind": 0, "data": A.tobytes(), **changes})


BROKEN: dict[str, tuple[bytes, str]] = {
    "not a GGUF file: it does not begin with GGUF": (gguf(magic=b"GGML"), "broken-checkpoint"),
    "the file has 3 bytes; a GGUF header takes at least 24": (b"GGU", "broken-checkpoint"),
    "a big-endian GGUF file; LOGOS reads little-endian ones": (
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "checkpoint-version",
    ),
    "GGUF version 1; LOGOS reads versions 2 and 3": (gguf(version=1), "checkpoint-version"),
    "GGUF version 4; LOGOS reads versions 2 and 3": (gguf(version=4), "checkpoint-version"),
    f"the header counts {BIG} tensors; the file has 32 bytes": (gguf(counts=(BIG, 0)), "broken-checkpoint"),
    f"the header counts {2**63} keys; the file has 32 bytes": (gguf(counts=(0, 2**63)), "broken-checkpoint"),
    "the metadata key a stands twice": (gguf([("a", 1), ("a", 2)]), "broken-checkpoint"),
    "the metadata key a has the unknown type 77": (gguf({"a": Raw(77, b"")}), "broken-checkpoint"),
    "the metadata key a holds an array of unknown type 13": (
        gguf({"a": Raw(9, struct.pack("<IQ", 13, 1))}), "broken-checkpoint",
    ),
    "the metadata key a holds arrays within an array": (
        gguf({"a": Raw(9, struct.pack("<IQ", 9, 1))}), "broken-checkpoint",
    ),
    f"the metadata key a counts {2**63} strings; the file has 64 bytes": (
        gguf({"a": Raw(9, struct.pack("<IQ", 8, 2**63))}), "broken-checkpoint",
    ),
    "the value of the metadata key a runs past the end, byte 64": (
        gguf({"a": Raw(9, struct.pack("<IQ", 10, 2**61))}), "broken-checkpoint",
    ),
    "the value of the metadata key b runs past the end, byte 64": (
        gguf({"b": Raw(8, struct.pack("<Q", BIG))}), "broken-checkpoint",
    ),
    "a string of the metadata key a runs past the end, byte 96": (
        gguf({"a": Raw(9, struct.pack("<IQ", 8, 3) + text("x") + struct.pack("<Q", BIG))}), "broken-checkpoint",
    ),
    f"a metadata key is {BIG} bytes long at byte 24; at most 1024 are allowed": (
        gguf()[:16] + struct.pack("<QQ", 1, BIG) + b"\0" * 32, "broken-checkpoint",
    ),
    "a metadata key at byte 32 is not UTF-8": (gguf([(b"\xff", 1)]), "broken-checkpoint"),
    "a tensor's name is 300 bytes long at byte 24; at most 256 are allowed": (
        gguf({}, {"n" * 300: F32}), "broken-checkpoint",
    ),
    "general.alignment is 0, no power of two": (gguf({"general.alignment": 0}), "broken-checkpoint"),
    "general.alignment is 24, no power of two": (gguf({"general.alignment": 24}), "broken-checkpoint"),
    "general.alignment is 'x', no power of two": (gguf({"general.alignment": "x"}), "broken-checkpoint"),
    "the tensor t has 5 dimensions; GGUF allows 1 to 4": (
        gguf({}, {"t": info(dimensions=(1, 1, 1, 4, 3))}), "broken-checkpoint",
    ),
    "the tensor t has 0 dimensions; GGUF allows 1 to 4": (gguf({}, {"t": info(dimensions=())}), "broken-checkpoint"),
    "the tensor t has a dimension of 0: (0, 4)": (gguf({}, {"t": info(dimensions=(4, 0))}), "broken-checkpoint"),
    f"the tensor t ({2**33}, {2**33}) of F32 ends at byte {4 * 2**66 + 96}, and the file has 144: "
    f"{4 * 2**66 - 48} bytes are missing": (
        gguf({}, {"t": info(dimensions=(2**33, 2**33))}), "broken-checkpoint",
    ),
    f"the tensor t (3, 4) of F32 ends at byte {2**64 + 112}, and the file has 144: {2**64 - 32} bytes are missing": (
        gguf({}, {"t": info(offset=2**64 - 32)}), "broken-checkpoint",
    ),
    "the tensor t lies at offset 16, no multiple of 32": (gguf({}, {"t": info(offset=16)}), "broken-checkpoint"),
    "the tensor t has rows of 48 values, no whole number of Q8_0 blocks of 32": (
        gguf({}, {"t": info(dimensions=(48, 2), kind=8)}), "broken-checkpoint",
    ),
    "the tensor t stands twice": (gguf({}, [("t", F32), ("t", F32)]), "broken-checkpoint"),
    "the tensors t and u overlap at byte 160": (
        gguf({}, [("t", info(data=A.tobytes() + bytes(80))), ("u", info(offset=32))]), "broken-checkpoint",
    ),
    "the tensor is stored as IQ2_XXS (type 16), which LOGOS does not read": (
        gguf({}, {"t": info(kind=16)}), "checkpoint-storage",
    ),
    "the tensor is stored as type 4, which LOGOS does not read": (gguf({}, {"t": info(kind=4)}), "checkpoint-storage"),
    "the tensor is stored as type 4294967295, which LOGOS does not read": (
        gguf({}, {"t": info(kind=2**32 - 1)}), "checkpoint-storage",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_with_its_fault(tmp_path: Path, what: str) -> None:
    data, code = BROKEN[what]
    found, message = refusal(tmp_path, data)
    place = "m.gguf, tensor t" if code == "checkpoint-storage" else "m.gguf"
    assert message.splitlines()[0] == f"{place}: {what} [{code}]"
    assert message.splitlines()[1].startswith("  next: ")
    assert found == code


SMALL = gguf(
    {"general.architecture": "llama", "texts": ["a", "bc"], "n": [1, 2], "x": 0.5},
    {"a": tensor(A), "b": tensor(A[:1], "F16")},
)


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


def _reads(folder: Path, data: bytes) -> bool:
    """Whether a file opens and all of it reads; False where it is refused. Anything else escapes."""
    with suppress(Refused):
        found = opened(folder, data)
        for value in found.metadata.values():
            repr(list(value) if isinstance(value, Array) else value)
        for name, one in found.tensors.items():
            found.float_rows(name, 0, one.rows)
        return True
    return False


def test_random_damage_ends_in_a_refusal_or_an_open_file(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    outcomes = {True: 0, False: 0}
    for _ in range(3000):
        data = bytearray(SMALL)
        for _ in range(random.integers(1, 4)):
            at = int(random.integers(0, len(data)))
            data[at] = int(random.choice([0, 1, 4, 9, 127, 128, 255, random.integers(0, 256)]))
        outcomes[_reads(tmp_path, bytes(data))] += 1
    assert min(outcomes.values()) > 100


def test_a_file_of_nothing_but_empty_strings_ends_soon_and_small(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    count = 2**30 // 8 - 100
    with path.open("wb") as file:
        file.write(gguf({"a": Raw(9, struct.pack("<IQ", 8, count))})[:56])
        file.truncate(2**30)
    started = time.perf_counter()
    with pytest.raises(Refused):
        GGUFCheckpoint(path)
    assert time.perf_counter() - started < 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its peak memory from Linux's /proc")
def test_the_most_tensors_allowed_stay_within_two_seconds_and_300_megabytes(tmp_path: Path) -> None:
    count = 1 << 17
    parts = [text(f"{n:0256}") + struct.pack("<I4QIQ", 4, 1, 1, 1, 1, 0, 32 * n) for n in range(count)]
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 0) + b"".join(parts)
    path = tmp_path / "m.gguf"
    path.write_bytes(head)
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom logos.refusal import Refused\n"
        "from logos_gguf.checkpoint import GGUFCheckpoint\nstarted = time.perf_counter()\n"
        "try:\n    GGUFCheckpoint(Path(sys.argv[1]))\nexcept Refused as refused:\n    print(refused.refusals[0].code)\n"
        "seconds = time.perf_counter() - started\n"
        # ru_maxrss counts the parent's memory too where a process starts by vfork.
        "(peak,) = (line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(seconds, peak)\n"
    )
    for data in (b"", b"\0" * (32 * count + 64)):
        with path.open("ab") as file:
            file.write(data)
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        lines = done.stdout.split()
        seconds, kilobytes = float(lines[-2]), int(lines[-1])
        assert seconds < 2
        assert kilobytes < 300_000
        assert (lines[0] == "broken-checkpoint") == (not data)


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
