"""Byte-level BPE by the `tokenizers` library, from a file's tokens and merges."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from logos_gguf.text.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, Vocabulary, byte_of


def _byte_characters() -> tuple[str, ...]:
    """The character that stands for each byte (GPT-2): itself where it prints, else the next from U+0100 on."""
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printing else next(others)) for byte in range(256))


CHARACTERS = _byte_characters()
BYTES = {character: bytes((byte,)) for byte, character in enumerate(CHARACTERS)}


class ByteLevel:
    """Words of text to ids, and ids to bytes. Refused: merges that make no token (`broken-vocabulary`)."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizer = self._build()

    def ids(self, text: str, after_special: bool) -> list[int]:
        """The ids of text without special tokens. A byte that no token holds has none, as in llama.cpp."""
        count = len(self._vocabulary.tokens)
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [number for number in ids if number < count]

    def piece(self, number: int) -> bytes:
        text, kind = self._vocabulary.tokens[number], self._vocabulary.types[number]
        if kind == NORMAL:
            return b"".join(BYTES.get(character) or character.encode() for character in text)
        if kind == BYTE:
            return byte_of(text)
        return b"" if kind == UNUSED else text.encode()

    @cached_property
    def _merges(self) -> list[tuple[str, str]]:
        pairs = []
        for text in self._vocabulary.merges:
            left, _, right = text.partition(" ")
            if not left or not right:
                raise self._vocabulary.broken(f"the merge {text!r} has no two parts")
            pairs.append((left, right))
        return pairs

    def _entries(self) -> dict[str, int]:
        """Ids by text. A token that is no text has its id here only where merges make it; each byte that no token
        holds has a number past the ids, so that no merge reaches over it."""
        vocabulary = self._vocabulary
        entries = {text: number for number, text in enumerate(vocabulary.tokens) if text}
        if len(entries) + vocabulary.tokens.count("") < len(vocabulary.tokens):
            raise vocabulary.broken("two tokens have the same text")
        made = {left + right for left, right in self._merges}
        for number, kind in enumerate(vocabulary.types[: len(vocabulary.tokens)]):
            if kind in (CONTROL, UNKNOWN) and vocabulary.tokens[number] not in made:
                entries.pop(vocabulary.tokens[number], None)
        for number, character in enumerate(CHARACTERS, len(vocabulary.tokens)):
            entries.setdefault(character, number)
        return entries

    def _build(self) -> Any:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers

        rule, entries, merges = self._vocabulary.rule, self._entries(), self._merges
        try:
            model = models.BPE(vocab=entries, merges=merges, ignore_merges=rule.whole)
        except Exception as error:  # The library raises nothing narrower.
            raise self._vocabulary.broken(f"the merges do not fit the tokens: {error}") from None
        tokenizer = Tokenizer(model)
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, as_bytes])
        return tokenizer
