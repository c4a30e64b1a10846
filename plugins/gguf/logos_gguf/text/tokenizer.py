"""Text to ids and back, behind the core's `Text` contract."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from logos_gguf.text.special import Special, split_special
from logos_gguf.text.vocabulary import BYTE_LEVEL, CONTROL, UNKNOWN, USER_DEFINED, Vocabulary


class Model(Protocol):
    """Text without special tokens to ids, and any id to bytes."""

    def ids(self, text: str, after_special: bool) -> list[int]: ...

    def piece(self, number: int) -> bytes: ...


class GGUFText:
    """Satisfies `logos.Text`."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.stop = vocabulary.stop

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        on = (b"\1" if special else b"\0") * len(text)
        return (*self._begin, *self._ids(text, on))

    def decode(self, ids: Sequence[int]) -> str:
        if self._begin and tuple(ids[:1]) == self._begin:
            ids = ids[1:]
        text = b"".join(map(self.piece, ids)).decode("utf-8", "replace")
        return text.removeprefix(" ") if self._vocabulary.space_prefix else text

    def stream(self) -> TextStream:
        return TextStream(self)

    def chat(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        from logos_gguf.text.chat import render

        specials = [special.text for special in self._specials if not special.always]
        text, own = render(self._vocabulary, messages, specials)
        ids = self._ids(text, own)
        return (*self._begin, *ids) if tuple(ids[:1]) != self._begin else tuple(ids)

    def piece(self, number: int) -> bytes:
        """The bytes of a token; none for a number past the vocabulary, such as a padded head's."""
        return self._model.piece(number) if 0 <= number < len(self._vocabulary.tokens) else b""

    @property
    def _begin(self) -> tuple[int, ...]:
        return () if self._vocabulary.bos is None else (self._vocabulary.bos,)

    def _ids(self, text: str, on: bytes) -> list[int]:
        """The ids of a text; `on` says for each character whether special tokens are on there."""
        found: list[int] = []
        after_special = True
        for part in split_special(text, self._specials, on):
            if isinstance(part, int):
                found.append(part)
            else:
                found += self._model.ids(text[part[0] : part[1]], after_special)
            after_special = isinstance(part, int)
        return found

    @cached_property
    def _model(self) -> Model:
        if self._vocabulary.model == BYTE_LEVEL:
            from logos_gguf.text.bytelevel import ByteLevel

            return ByteLevel(self._vocabulary)
        from logos_gguf.text.byscore import ByScore

        return ByScore(self._vocabulary)

    @cached_property
    def _specials(self) -> tuple[Special, ...]:
        """Control and unknown tokens, and whatever stops, where special tokens are on; user-defined ones anywhere."""
        vocabulary = self._vocabulary
        found = [
            Special(text, number, kind == USER_DEFINED and number not in vocabulary.stop)
            for number, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=False))
            if text and (kind in (CONTROL, UNKNOWN, USER_DEFINED) or number in vocabulary.stop)
        ]
        return tuple(sorted(found, key=lambda special: -len(special.text)))


class TextStream:
    """Satisfies `logos.TextStream`: holds back the bytes of a character until it is whole."""

    def __init__(self, text: GGUFText) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, number: int) -> str:
        return self._decoder.decode(self._text.piece(number))

    def finish(self) -> str:
        return self._decoder.decode(b"", True)
