"""A checkpoint's vocabulary, read from its metadata and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos import Refused, Spot, refuse, suggestion
from logos_gguf.text.split import RULES, Rule

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""The values of `tokenizer.ggml.token_type`."""

BYTE_LEVEL, BY_SCORE = "gpt2", "llama"
"""The values of `tokenizer.ggml.model` that LOGOS reads: byte-level BPE, and SentencePiece's merges by score."""

_PREFIX = "tokenizer.ggml."
# Above any model's, and low enough that a crafted file cannot make us work for minutes.
_MOST_TOKENS = 1 << 20
_MOST_SPECIAL = 1 << 16

# What models call the token that ends a turn or a text. It is a stop id where its type says that it is no text.
_ENDS = frozenset(
    (
        "</s>", "<EOT>", "<end_of_turn>", "<end_of_utterance>", "<eos>", "<turn|>", "<|call|>", "<|calls|>",
        "<|end_of_text|>", "<|end|>", "<|endoftext|>", "<|eom_id|>", "<|eot_id|>", "<|flush|>", "<|im_end|>",
        "<|return|>", "<｜end▁of▁sentence｜>", "[EOS]", "[EOT]", "_<EOT>",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, and what the file says about them.

    `types` are NORMAL … BYTE. `rule` splits text where `model` is BYTE_LEVEL and comes with `merges`; `scores` come
    with BY_SCORE. `bos` is the id that text begins with, None where it begins with none. `named` are the texts of the
    tokens that templates know by name (`bos_token`, …).
    """

    file: Path
    model: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    rule: Rule
    merges: tuple[str, ...]
    scores: tuple[float, ...]
    bos: int | None
    space_prefix: bool
    stop: frozenset[int]
    named: Mapping[str, str]
    template: str | None

    def broken(self, what: str) -> Refused:
        """The refusal of a vocabulary that contradicts itself."""
        return _broken(self.file, what)


def byte_of(text: str) -> bytes:
    """The byte that a token of type BYTE stands for, by its text such as `<0x0A>`; none where it is no such text."""
    match = re.fullmatch("<0x([0-9A-Fa-f]{2})>", text)
    return bytes.fromhex(match[1]) if match else b""


def read_vocabulary(metadata: Mapping[str, object], file: Path) -> Vocabulary:
    """The vocabulary of a checkpoint.

    Refused: a file without one (`no-vocabulary`), a model or a splitting rule that LOGOS does not know
    (`unknown-tokenizer`), keys that are missing or contradict each other (`broken-vocabulary`).
    """
    model = metadata.get(_PREFIX + "model")
    if model in (None, "none"):
        what = "the file holds no vocabulary: it has no metadata key tokenizer.ggml.model"
        raise refuse("no-vocabulary", what, Spot(str(file)), "give token ids to `logos run --tokens`, or another file")
    if model not in (BYTE_LEVEL, BY_SCORE):
        raise _unknown(file, "model", model, (BYTE_LEVEL, BY_SCORE))
    read = _Reader(metadata, file)
    rule = _rule(metadata, file) if model == BYTE_LEVEL else Rule((), bos=True)
    tokens = read.array("tokens", str)
    types = read.array("token_type", int, len(tokens)) or (NORMAL,) * len(tokens)
    if sum(kind in (CONTROL, USER_DEFINED, UNKNOWN) for kind in types) > _MOST_SPECIAL:
        raise _broken(file, f"more than {_MOST_SPECIAL} tokens are special")
    by_score = model == BY_SCORE
    bos = read.token("bos_token_id", len(tokens), 1 if by_score else None)
    eos = read.token("eos_token_id", len(tokens), 2 if by_score else None)
    begins = read.flag("add_bos_token", rule.bos)
    if begins and bos is None:
        raise _broken(file, "add_bos_token is true, and there is no bos_token_id")
    ids = {"bos": bos, "eos": eos}
    ids |= {name: read.token(f"{key}_token_id", len(tokens)) for name, key in _NAMED.items()}
    return Vocabulary(
        file=file,
        model=str(model),
        tokens=tokens,
        types=types,
        rule=rule,
        merges=() if by_score else read.array("merges", str),
        scores=read.array("scores", float, len(tokens)) if by_score else (),
        bos=bos if begins else None,
        space_prefix=by_score and read.flag("add_space_prefix", True),
        stop=_stop(tokens, types, (eos, *(read.token(f"{key}_token_id", len(tokens)) for key in ("eot", "eom")))),
        named={f"{name}_token": tokens[one] for name, one in ids.items() if one is not None},
        template=_template(metadata),
    )


_NAMED = {"unk": "unknown", "sep": "seperator", "pad": "padding"}
"""Further tokens that templates know, by the name in the key (the format spells one of them so)."""


def _template(metadata: Mapping[str, object]) -> str | None:
    value = metadata.get("tokenizer.chat_template")
    return value if isinstance(value, str) else None


def _rule(metadata: Mapping[str, object], file: Path) -> Rule:
    name = metadata.get(_PREFIX + "pre", "default")
    if name not in RULES:
        raise _unknown(file, "pre", name, RULES)
    return RULES[str(name)]


def _stop(tokens: Sequence[str], types: Sequence[int], named: Sequence[int | None]) -> frozenset[int]:
    """The named ids, and every token that ends a turn by its text and is no text by its type."""
    ends = (number for number, text in enumerate(tokens) if text in _ENDS and types[number] in (CONTROL, USER_DEFINED))
    return frozenset((*(one for one in named if one is not None), *ends))


def _broken(file: Path, what: str) -> Refused:
    return refuse("broken-vocabulary", what, Spot(str(file)), "convert the model again with a current converter")


def _unknown(file: Path, key: str, value: object, known: Sequence[str] | Mapping[str, object]) -> Refused:
    name = value if isinstance(value, str) else repr(value)
    what = f"{_PREFIX}{key} is {name}, which LOGOS cannot turn text into tokens by{suggestion(name, known)}"
    next_ = f"LOGOS knows {', '.join(known)}; `logos run --tokens` takes token ids of any model"
    return refuse("unknown-tokenizer", what, Spot(str(file)), next_)


@dataclass(frozen=True)
class _Reader:
    """Typed reading of the vocabulary's keys."""

    metadata: Mapping[str, object]
    file: Path

    def array(self, key: str, kind: type[Any], count: int | None = None) -> tuple[Any, ...]:
        """An array of at least `count` items; empty for a key that the file lacks and need not have."""
        value: object = self.metadata.get(_PREFIX + key)
        if value is None and key == "token_type":
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise _broken(self.file, f"there is no array {_PREFIX}{key}")
        if len(value) > (4 if key == "merges" else 1) * _MOST_TOKENS:
            raise _broken(self.file, f"{_PREFIX}{key} has {len(value)} items, more than LOGOS reads")
        if count is not None and len(value) < count:
            raise _broken(self.file, f"{_PREFIX}{key} has {len(value)} items for {count} tokens")
        items = tuple(value)
        # An array of GGUF has one type, so its first item speaks for all.
        if items and type(items[0]) is not kind:
            raise _broken(self.file, f"{_PREFIX}{key} holds {type(items[0]).__name__}, not {kind.__name__}")
        return items

    def token(self, key: str, count: int, default: int | None = None) -> int | None:
        """A token's id."""
        value = self.metadata.get(_PREFIX + key, default)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < count:
            raise _broken(self.file, f"{_PREFIX}{key} is {value}; the vocabulary has {count} tokens")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.metadata.get(_PREFIX + key, default)
        if type(value) is not bool:
            raise _broken(self.file, f"{_PREFIX}{key} is {value!r}; true or false is due")
        return value
