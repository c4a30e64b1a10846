"""The rules by which byte-level BPE splits text into words before it merges, by the name that a file gives them.

Facts: the models' own tokenizers, as llama.cpp's `src/llama-vocab.cpp` names them. A rule is one or more patterns, each
splitting what the one before it left; matches and what lies between them are words.
"""

from __future__ import annotations

from dataclasses import dataclass

_LETTER, _MARK, _NUMBER = r"\p{L}", r"\p{M}", r"\p{N}"
_SPACES = r"\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a family of vocabularies splits text.

    `whole` takes a word that is a token as that token, whatever its merges; `bos` is whether text begins with BOS
    where the file does not say.
    """

    patterns: tuple[str, ...]
    whole: bool = False
    bos: bool = False


def _gpt2() -> str:
    """GPT-2 (Radford et al. 2019): contractions; letters, numbers or other signs with a blank before them; blanks."""
    endings = "|".join(f"'{ending}" for ending in ("s", "t", "re", "ve", "m", "ll", "d"))
    return rf"{endings}| ?{_LETTER}+| ?{_NUMBER}+| ?[^\s{_LETTER}{_NUMBER}]+|{_SPACES}"


def _lines(numbers: str, marks: str = "") -> str:
    """Llama 3's and Qwen's: contractions in either case; a word with one sign before it; numbers, so many digits at a
    time; signs with the line ends after them; line ends with the blanks before them; blanks.

    `marks` counts combining marks as letters.
    """
    endings = "|".join(
        "'" + "".join(f"[{letter}{letter.upper()}]" for letter in ending)
        for ending in ("s", "t", "re", "ve", "m", "ll", "d")
    )
    word = rf"[^\r\n{_LETTER}{_NUMBER}]?[{_LETTER}{marks}]+"
    signs = rf" ?[^\s{_LETTER}{marks}{_NUMBER}]+[\r\n]*"
    return rf"{endings}|{word}|{numbers}|{signs}|\s*[\r\n]+|{_SPACES}"


_LLAMA3 = Rule((_lines(rf"{_NUMBER}{{1,3}}"),), whole=True, bos=True)
_QWEN2 = Rule((_lines(_NUMBER),))

RULES = {
    "default": Rule((r"[\p{P}$+<=>^~|]+", _gpt2(), rf"{_NUMBER}+", "[0-9][0-9][0-9]")),
    "deepseek-r1-qwen": _QWEN2,
    "gpt-2": Rule((_gpt2(),)),
    "llama-bpe": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _QWEN2,
    "qwen35": Rule((_lines(_NUMBER, _MARK),)),
    "smollm": Rule((_NUMBER, _gpt2())),
}
"""By the value of `tokenizer.ggml.pre`."""
