"""The GGUF container: a shard's header, read without decoding what nobody asks for, every count checked first.

Source of the format: docs/gguf.md of ggml. A shard is: magic, version, counts; metadata as key, type, value; tensor
infos as name, dimensions (fastest first), type, offset; then, aligned, the tensors' data.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from logos import FORMATS, Refused, Spot, Tensor, refuse
from logos_gguf.metadata import ARRAY, COUNT, STRING, VALUES, Metadata, release
from logos_gguf.storage import STORAGE, UNREAD

MAGIC = b"GGUF"
_WORD = struct.Struct("<I")
# Far above any model's, and low enough that a crafted file ends within a second and its names fit in memory.
_MOST_KEYS = 1 << 16
MOST_TENSORS = 1 << 16
MOST_STRINGS = 1 << 21
_LONGEST_KEY = 1024
_LONGEST_NAME = 256
_LONGEST_TEXT = 1 << 25
_LONGEST_ARCHITECTURE = 64
_AT_ONCE = 1 << 16


def broken(path: Path, what: str, next: str = "download or convert the file again") -> Refused:
    """The refusal of a file that is no sound GGUF file."""
    return refuse("broken-checkpoint", what, Spot(str(path)), next)


class Shard:
    """One GGUF file, mapped, its header read and checked.

    Refused: big-endian files and versions other than 2 and 3 (`checkpoint-version`), storage types that LOGOS does
    not read (`checkpoint-storage`), and every broken header (`broken-checkpoint`). `starts` gives the byte at which
    each tensor begins.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.size = file.seek(0, 2)
                if self.size < 24:
                    raise broken(path, f"the file has {self.size} bytes; a GGUF header takes at least 24")
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise refuse(
                "unreadable-file", f"cannot read it: {error.strerror}", Spot(str(path)), "give a file that may be read"
            ) from None
        self.starts: dict[str, int] = {}
        self._at = 0
        self._strings = 0
        try:
            self._read()
        except struct.error:
            raise broken(path, f"the file ends inside its header, after {self.size} bytes") from None

    def _read(self) -> None:
        tensors, keys = self._counts()
        self.metadata = Metadata(self.map, self._keys(keys))
        self.alignment = self._alignment()
        self.tensors = self._tensors(tensors)

    def _counts(self) -> tuple[int, int]:
        if self.map[:4] != MAGIC:
            raise broken(self.path, "not a GGUF file: it does not begin with GGUF", "give a .gguf file")
        version = self._word(4)
        if version > 0xFFFF and version & 0xFFFF == 0:
            raise refuse(
                "checkpoint-version",
                "a big-endian GGUF file; LOGOS reads little-endian ones",
                Spot(str(self.path)),
                "convert the model again for little-endian machines",
            )
        if version not in (2, 3):
            raise refuse(
                "checkpoint-version",
                f"GGUF version {version}; LOGOS reads versions 2 and 3",
                Spot(str(self.path)),
                "convert the model again with a current converter",
            )
        tensors, keys = self._count(8), self._count(16)
        # A tensor's info takes at least 32 bytes and a key's entry 13.
        for what, count, most, least in (("tensors", tensors, MOST_TENSORS, 32), ("keys", keys, _MOST_KEYS, 13)):
            if count > min(most, self.size // least):
                raise broken(self.path, f"the header counts {count} {what}; the file has {self.size} bytes")
        self._at = 24
        return tensors, keys

    def _keys(self, count: int) -> dict[str, tuple[int, int]]:
        places: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            key = self._text("a metadata key", _LONGEST_KEY)
            if key in places:
                raise broken(self.path, f"the metadata key {key} stands twice")
            kind = self._next_word()
            places[key] = kind, self._at
            self._skip(key, kind)
        return places

    def _skip(self, key: str, kind: int) -> None:
        """Moves past a value of the metadata."""
        if kind in VALUES:
            self._advance(VALUES[kind].size, key)
        elif kind == STRING:
            length = self._count(self._at)
            self._advance(COUNT.size + length, key)
            most = _LONGEST_ARCHITECTURE if key == "general.architecture" else _LONGEST_TEXT
            if length > most:
                raise broken(self.path, f"the text of the metadata key {key} has {length} bytes; {most} are allowed")
        elif kind == ARRAY:
            item, count = self._word(self._at), self._count(self._at + 4)
            self._at += 12
            if item in VALUES:
                self._advance(count * VALUES[item].size, key)
            elif item == STRING:
                self._skip_strings(key, count)
            elif item == ARRAY:
                raise broken(self.path, f"the metadata key {key} holds arrays within an array")
            else:
                raise broken(self.path, f"the metadata key {key} holds an array of unknown type {item}")
        else:
            raise broken(self.path, f"the metadata key {key} has the unknown type {kind}")

    def _skip_strings(self, key: str, count: int) -> None:
        self._strings += count
        if count > (self.size - self._at) // 8 or self._strings > MOST_STRINGS:
            raise broken(self.path, f"the metadata key {key} counts {count} strings; the file has {self.size} bytes")
        at, size, data, unpack = self._at, self.size, self.map, COUNT.unpack_from
        for start in range(0, count, _AT_ONCE):
            first = at
            for _ in range(min(_AT_ONCE, count - start)):
                at += 8 + unpack(data, at)[0]
                if at > size:
                    raise broken(self.path, f"a string of the metadata key {key} runs past the end, byte {size}")
            release(data, first, at - first)
        self._at = at

    def _alignment(self) -> int:
        value = self.metadata.get("general.alignment", 32)
        if type(value) is not int or value < 1 or value & (value - 1):
            raise broken(self.path, f"general.alignment is {value!r}, no power of two")
        return value

    def _tensors(self, count: int) -> dict[str, Tensor]:
        rows = [self._info() for _ in range(count)]
        data = self._at + -self._at % self.alignment
        tensors: dict[str, Tensor] = {}
        for name, shape, kind, offset in rows:
            if name in tensors:
                raise broken(self.path, f"the tensor {name} stands twice")
            if offset % self.alignment:
                raise broken(self.path, f"the tensor {name} lies at offset {offset}, no multiple of {self.alignment}")
            tensor = self._tensor(name, shape, kind)
            self._check_end(tensor, data + offset + tensor.nbytes)
            tensors[name] = tensor
            self.starts[name] = data + offset
        self._check_overlaps(tensors)
        return tensors

    def _info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text("a tensor's name", _LONGEST_NAME)
        dimensions = self._next_word()
        if not 1 <= dimensions <= 4:
            raise broken(self.path, f"the tensor {name} has {dimensions} dimensions; GGUF allows 1 to 4")
        *stored, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", self.map, self._at)
        self._at += 8 * dimensions + 12
        return name, tuple(reversed(stored)), kind, offset

    def _tensor(self, name: str, shape: tuple[int, ...], kind: int) -> Tensor:
        storage = STORAGE.get(kind)
        if storage is None:
            named = f"{UNREAD[kind]} (type {kind})" if kind in UNREAD else f"type {kind}"
            raise refuse(
                "checkpoint-storage",
                f"the tensor is stored as {named}, which LOGOS does not read",
                Spot(f"{self.path}, tensor {name}"),
                f"convert the model to one of {', '.join(FORMATS)}",
            )
        if 0 in shape:
            raise broken(self.path, f"the tensor {name} has a dimension of 0: {shape}")
        nbytes = FORMATS[storage].row_bytes(shape[-1])
        if nbytes is None:
            raise broken(
                self.path,
                f"the tensor {name} has rows of {shape[-1]} values, no whole number of {storage} blocks of "
                f"{FORMATS[storage].elements}",
            )
        for dimension in shape[:-1]:
            nbytes *= dimension
        return Tensor(name, shape, storage, nbytes, self.path)

    def _check_end(self, tensor: Tensor, stop: int) -> None:
        if stop > self.size:
            raise broken(
                self.path,
                f"the tensor {tensor.name} {tensor.shape} of {tensor.storage} ends at byte {stop}, and the file has "
                f"{self.size}: {stop - self.size} bytes are missing",
            )

    def _check_overlaps(self, tensors: Mapping[str, Tensor]) -> None:
        for before, after in pairwise(sorted(self.starts, key=self.starts.__getitem__)):
            if self.starts[before] + tensors[before].nbytes > self.starts[after]:
                raise broken(
                    self.path, f"the tensors {before} and {after} overlap at byte {self.starts[after]}"
                )

    def _word(self, at: int) -> int:
        return int(_WORD.unpack_from(self.map, at)[0])

    def _count(self, at: int) -> int:
        return int(COUNT.unpack_from(self.map, at)[0])

    def _next_word(self) -> int:
        word = self._word(self._at)
        self._at += 4
        return word

    def _advance(self, length: int, key: str) -> None:
        self._at += length
        if self._at > self.size:
            raise broken(self.path, f"the value of the metadata key {key} runs past the end, byte {self.size}")

    def _text(self, what: str, longest: int) -> str:
        length = self._count(self._at)
        if length > longest:
            raise broken(self.path, f"{what} is {length} bytes long at byte {self._at}; at most {longest} are allowed")
        start = self._at + 8
        self._at = start + length
        data = self.map[start : self._at]
        if len(data) < length:
            raise broken(self.path, f"{what} runs past the end, byte {self.size}")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise broken(self.path, f"{what} at byte {start} is not UTF-8") from None
