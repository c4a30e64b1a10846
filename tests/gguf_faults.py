"""Broken and hostile GGUF files, each with the fault that its refusal names."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from gguf_writer import Info, Raw, gguf, tensor, text

A = np.arange(12, dtype=np.float32).reshape(3, 4)
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
    f"the tensor t ({2**32}, {2**32}) of F32 ends at byte {4 * 2**64 + 96}, and the file has 144: "
    f"{4 * 2**64 - 48} bytes are missing": (
        gguf({}, {"t": info(dimensions=(2**32, 2**32))}), "broken-checkpoint",
    ),
    f"the text of the metadata key general.architecture has {2**16} bytes; 64 are allowed": (
        gguf({"general.architecture": "l" * 2**16}), "broken-checkpoint",
    ),
    "the file is one shard of 2, but its name does not end in -00001-of-00002.gguf": (
        # What is left of a set that was joined by `cat`.
        gguf({"split.no": 0, "split.count": 2}, {"t": F32}) + gguf({"split.no": 1, "split.count": 2}, {"u": F32}),
        "broken-checkpoint",
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

SMALL = gguf(
    {"general.architecture": "llama", "texts": ["a", "bc"], "n": [1, 2], "x": 0.5},
    {"a": tensor(A), "b": tensor(A[:1], "F16")},
)
