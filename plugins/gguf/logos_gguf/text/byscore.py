"""SentencePiece's BPE: neighbours merge where their text is a token, the best score first."""

from __future__ import annotations

import re
from heapq import heapify, heappop, heappush

from logos_gguf.text.vocabulary import BYTE, CONTROL, UNKNOWN, UNUSED, Vocabulary, byte_of

BLANK = "▁"
"""What stands for a blank in a token (U+2581)."""

_WORD = re.compile(f"{BLANK}+[^{BLANK}]*|[^{BLANK}]+")
_MOST_KEPT = 1 << 16
_LONGEST_KEPT = 32


class ByScore:
    """Text to ids, and ids to bytes.

    The merging is ours: the `tokenizers` library ranks a merge by its two parts, and here the text that they make has
    the rank, the leftmost first among equals.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Refused: tokens of the same text (`broken-vocabulary`)."""
        self._vocabulary = vocabulary
        tokens, types = vocabulary.tokens, vocabulary.types
        self._ids = {text: number for number, text in enumerate(tokens) if text}
        if len(self._ids) + tokens.count("") < len(tokens):
            raise vocabulary.broken("two tokens have the same text")
        # What is no text is never made of text.
        self._parts = {
            text: number for text, number in self._ids.items() if types[number] not in (BYTE, CONTROL, UNKNOWN)
        }
        self._unknown = next((number for number, kind in enumerate(types[: len(tokens)]) if kind == UNKNOWN), None)
        # Where no token reaches from a sign over a blank, no merge does, and words can be merged one by one.
        inside = re.search(f"[^{BLANK}\n]{BLANK}", "\n".join(text.replace("\n", " ") for text in self._parts))
        self._word = _WORD if inside is None else re.compile(".+", re.DOTALL)
        self._kept: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str, after_special: bool) -> list[int]:
        """The ids of text without special tokens; a blank is put before it at the beginning and after such a token,
        where the vocabulary asks for that."""
        prefix = BLANK if self._vocabulary.space_prefix and after_special else ""
        found: list[int] = []
        for word in self._word.findall(prefix + text.replace(" ", BLANK)):
            ids = self._kept.get(word)
            if ids is None:
                ids = tuple(self._merge(word))
                if len(word) <= _LONGEST_KEPT and len(self._kept) < _MOST_KEPT:
                    self._kept[word] = ids
            found += ids
        return found

    def piece(self, number: int) -> bytes:
        text, kind = self._vocabulary.tokens[number], self._vocabulary.types[number]
        if kind == BYTE:
            return byte_of(text)
        return b"" if kind == UNUSED else text.replace(BLANK, " ").encode()

    def _merge(self, word: str) -> list[int]:
        """Kudo and Richardson 2018: merge the neighbours whose text has the best score until none is a token."""
        parts: list[str] = list(word)
        before = list(range(-1, len(parts) - 1))
        after = [*range(1, len(parts)), -1]
        ranks, scores = self._parts, self._vocabulary.scores
        queue: list[tuple[float, int, int, int]] = []
        for left in range(len(parts) - 1):
            number = ranks.get(parts[left] + parts[left + 1])
            if number is not None:
                queue.append((-scores[number], left, left + 1, 2))
        heapify(queue)
        while queue:
            _, left, right, length = heappop(queue)
            # A part that was merged away is empty; one that has grown makes another length.
            if not parts[left] or not parts[right] or len(parts[left]) + len(parts[right]) != length:
                continue
            parts[left] += parts[right]
            parts[right] = ""
            beyond = after[left] = after[right]
            if beyond >= 0:
                before[beyond] = left
            for one, other in ((before[left], left), (left, beyond)):
                if one >= 0 and other >= 0:
                    number = ranks.get(parts[one] + parts[other])
                    if number is not None:
                        heappush(queue, (-scores[number], one, other, len(parts[one]) + len(parts[other])))
        return [number for part in parts if part for number in self._numbers(part)]

    def _numbers(self, part: str) -> list[int]:
        """A token's id, else the ids of its bytes, else the unknown token's."""
        number = self._parts.get(part)
        if number is not None:
            return [number]
        numbers = [self._ids.get(f"<0x{byte:02X}>", self._unknown) for byte in part.encode()]
        return [number for number in numbers if number is not None]
